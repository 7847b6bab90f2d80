"""The README.md of a run: what it was made from, in the units of its task."""

from __future__ import annotations

from pathlib import Path

import pytest

from pellucid.config.mapping import from_mapping
from pellucid.files import write_json, write_text
from pellucid.train.model_card import write_model_card


@pytest.mark.parametrize(("task", "threads", "expected"), [
    ("seq2seq", 2, ["on 1,200 target tokens in", "2 threads,"]),
    ("classification", 1, ["on 1,200 labels in", "1 thread,"]),
    ("reading", 1, ["on 1,200 spans in"])])
def test_what_was_learned_from_is_counted_in_what_the_task_has(task: str, threads: int, expected: list[str],
                                                               tmp_path: Path) -> None:
    write_json(tmp_path / "data.json", {"train": {"kept": 3, "sha256": "0" * 64}})
    write_json(tmp_path / "environment.json", {"pellucid": "1", "processor": "p", "threads": threads,
                                               "precision": "fp32", "packages": {"torch": "2"}})
    write_text(tmp_path / "metrics.jsonl", "")
    summary = {"parameters": 5, "step": 4, "target_tokens": 1200, "seconds": 7.0, "best": "step-00000004",
               "monitor": "loss", "score": 0.5, "why": "all 4 updates were made"}
    write_model_card(from_mapping({"task": task, "data": {"train": "a"}}), summary, tmp_path)
    card = " ".join((tmp_path / "README.md").read_text(encoding="utf-8").split())
    assert [one for one in expected if one not in card] == []
