"""A start that fails leaves no folder behind; what was there before, or was trained, stays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pellucid.errors import NumericalError
from pellucid.train import loop


@pytest.mark.parametrize("words", [
    ["--data.train.source", "none", "--data.train.target", "none"],
    ["--tokenizer.kind", "sentencepiece", "--tokenizer.vocab_size", "90000"],
    ["--data.generated.symbols", "1", "--data.generated.train", "90000"],
    ["--train.initialize_from", "none"], ["--tokenizer.path", "none"]])
def test_nothing_is_left(cli: Any, tiny: Path, tmp_path: Path, words: list[str]) -> None:
    out = tmp_path / "runs" / "deep" / "run"
    done = cli("train", tiny, "--out", out, *words)
    assert done.code in (2, 3, 4), done.err
    assert list(tmp_path.iterdir()) == []
    out.mkdir(parents=True)
    assert cli("train", tiny, "--out", out, *words).code == done.code
    assert list(out.iterdir()) == []


def test_what_was_there_stays(cli: Any, tiny: Path, tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text("mine")
    cli("train", tiny, "--out", tmp_path, "--tokenizer.path", "none").says(4)
    assert (tmp_path / "note.txt").read_text() == "mine"


def test_what_was_trained_stays(cli: Any, copy: Path, tiny: Path) -> None:
    before = sorted(copy.rglob("*"))
    (copy / "tokenizer" / "tokenizer.json").write_text("{")
    cli("train", tiny, "--out", copy).says(4)
    assert sorted(copy.rglob("*")) == before


def test_what_was_measured_stays(cli: Any, tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(session: Any) -> None:
        raise NumericalError("not finite")

    monkeypatch.setattr(loop, "validate_and_save", fail)
    cli("train", tiny, "--out", tmp_path / "run").says(5, "not finite")
    assert (tmp_path / "run" / "metrics.jsonl").exists()
