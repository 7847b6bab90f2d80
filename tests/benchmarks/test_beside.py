"""A training that is stopped and goes on is timed by its own lines alone, and one that has ended is no measurement."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.beside import HEAD, measure, train, updates_of


def test_a_line_that_is_not_written_to_its_end_is_not_read(tmp_path: Path) -> None:
    assert updates_of(tmp_path) == []
    lines = [{"event": "train", "step": 5}, {"event": "validation", "step": 5}, {"event": "train", "step": 10}]
    (tmp_path / "metrics.jsonl").write_text("\n".join(map(json.dumps, lines)))
    assert updates_of(tmp_path) == lines[:1]


def test_a_recipe_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    row = measure("copy", ["--train.epochs", "500"], seconds=0.1, lines=20, repeat=1)
    assert row.startswith("| copy | ")
    assert row.count("|") == HEAD.splitlines()[0].count("|")


def test_a_training_that_has_ended_is_told(tmp_path: Path) -> None:
    more = ["--train.steps", "40"]
    assert train("copy", more, tmp_path / "run", 1000) > 0
    with pytest.raises(SystemExit, match="copy was not trained for 5 seconds more"):
        train("copy", more, tmp_path / "run", 5)
