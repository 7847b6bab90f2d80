"""A run that an earlier version made loads, and says what it said then (tests/runs/keep.py made them)."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import pellucid
from pellucid.config import DecodeConfig
from pellucid.errors import CheckpointError
from pellucid.evaluate.evaluate import evaluate_runs
from pellucid.files import check_folder
from pellucid.runs.format import FORMAT, made_by
from pellucid.runs.slim import refuse_slim

KEPT = sorted((Path(__file__).parent / "kept").iterdir())
CLOSE = 1e-4  # nats: what another processor's order of sums may change


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch,
               new_cache: Callable[[Path], str]) -> None:
    monkeypatch.setenv("PELLUCID_CACHE", new_cache(tmp_path_factory.getbasetemp() / "cache"))


def test_there_are_some() -> None:
    assert KEPT


@pytest.mark.parametrize("kept", KEPT, ids=lambda path: path.name)
@pytest.mark.parametrize("beam", [1, 2])
def test_it_says_what_it_said(kept: Path, beam: int, tmp_path: Path) -> None:
    outputs = json.loads((kept / "outputs.json").read_text(encoding="utf-8"))
    run = pellucid.load(shutil.copytree(kept / "run", tmp_path / "run"))
    found = run.generate([one["source"] for one in outputs], options=DecodeConfig(beam_size=beam, precision="fp32"))
    assert [one.text for one in found] == [one["text"] for one in outputs]
    scored = run.score([one["source"] for one in outputs], [one["text"] for one in outputs])
    assert [one.log_probability for one in scored] == pytest.approx([one["log_probability"] for one in outputs],
                                                                    abs=CLOSE)
    if beam == 2:
        assert [one.score for one in found] == pytest.approx([one["score"] for one in outputs], abs=CLOSE)


@pytest.mark.parametrize("kept", KEPT, ids=lambda path: path.name)
def test_it_can_be_scored_and_is_what_was_kept(kept: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(kept / "run", tmp_path / "run")
    version, number = made_by(folder)
    assert (version, number <= FORMAT) == (kept.name, True)
    (checkpoint,) = (folder / "checkpoints").iterdir()
    check_folder(checkpoint)
    assert evaluate_runs([folder], "test", None, lambda line: None)["runs"][0]["n"] == 20  # of the same data
    with pytest.raises(CheckpointError, match="slim copy"):
        refuse_slim(folder)
