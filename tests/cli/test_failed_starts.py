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


def test_an_out_that_is_no_folder(cli: Any, tiny: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "nothing")
    for verb in ("train", "prepare"):
        for out in (tiny, tmp_path / "link"):
            cli(verb, tiny, "--out", out).says(2, "this is no folder", str(out), "give another --out")


def test_what_was_there_stays(cli: Any, tiny: Path, tmp_path: Path) -> None:
    """A folder that no run was begun in is not written to, whatever its files are called."""
    mine = {"config.yaml": tiny.read_text(), "data.json": "[]", "README.md": "mine", "tokenizer/manifest.json": "{}"}
    for name, text in mine.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    for words in (["train", tiny], ["train", tmp_path], ["prepare", tiny], ["train", tiny, "--tokenizer.path", "none"]):
        cli(*words, *([] if words[1] == tmp_path else ["--out", tmp_path])).says(
            2, "no run's, and is not empty", str(tmp_path), "README.md, config.yaml, data.json, tokenizer")
    assert {path.relative_to(tmp_path).as_posix(): path.read_text()
            for path in tmp_path.rglob("*") if path.is_file()} == mine


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
