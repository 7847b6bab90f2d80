"""What a benchmark cannot do with its arguments is told in a sentence, before anything is measured."""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks import arguments, decode, translate
from pellucid.cli import main


def test_what_can_be_used_is_taken(tmp_path: Path) -> None:
    assert arguments.positive("12") == 12
    assert arguments.above_zero("0.5") == 0.5
    assert arguments.new_file(str(tmp_path / "new.json")) == tmp_path / "new.json"
    (tmp_path / "text").write_text("\nline\n")
    assert arguments.text_file(str(tmp_path / "text")) == tmp_path / "text"
    assert arguments.new_file("new.json") == Path("new.json")


@pytest.mark.parametrize(("kind", "texts"), [
    (arguments.positive, ["0", "-1", "1.5", "many", ""]), (arguments.above_zero, ["0", "-1", "nan", "inf", "much"]),
    (arguments.new_file, ["no/such/folder/new.json", "."]), (arguments.run_folder, ["no/such/folder", "."]),
    (arguments.text_file, ["no/such/file", ".", "empty", "blank", "latin-1"])])
def test_what_cannot_is_refused(kind: Callable[[str], object], texts: list[str], tmp_path: Path,
                                monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, content in (("empty", b""), ("blank", b"\n \n"), ("latin-1", b"\xe9t\xe9\n")):
        (tmp_path / name).write_bytes(content)
    for text in texts:
        with pytest.raises(argparse.ArgumentTypeError):
            kind(text)


@pytest.mark.parametrize(("words", "said"), [
    ("train --repeat 0", "argument --repeat: '0' is no whole number from 1 on"),
    ("train --to-loss nan", "argument --to-loss: 'nan' is no number above 0"),
    ("decode --repeat -1", "argument --repeat: '-1' is no whole number from 1 on"),
    ("decode --json lacking/new.json", "argument --json: there is no folder lacking"),
    ("decode --budget", "argument --budget: expected at least one argument"),
    ("decode --run lacking", "argument --run: no such run folder"),
    ("techniques --repeat 0", "argument --repeat: '0'"), ("levels --repeat 0", "argument --repeat: '0'"),
    ("beside copy --seconds 0", "argument --seconds: '0'"), ("memory --json .", "argument --json: . is a folder"),
    ("translate lacking --source x", "argument run: no such run folder"),
    ("serve lacking --source x", "argument run: no such run folder"),
    ("decode --source lacking", "argument --source: lacking cannot be read: No such file or directory")])
def test_a_benchmark_tells_it(words: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str],
                              monkeypatch: pytest.MonkeyPatch) -> None:
    name, *rest = words.split()
    monkeypatch.setattr("sys.argv", [name, *rest])
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        importlib.import_module(f"benchmarks.{name}").main()
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


def test_a_run_that_the_peers_cannot_hold_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = tmp_path / "run"
    assert main(["train", "copy", "--out", str(run), "--train.epochs", "null", "--train.steps", "2",
                 "--train.validate_every", "2", "--model.norm", "rmsnorm"]) == 0
    with pytest.raises(SystemExit, match="one vocabulary of the kind word, and their program reads"):
        translate.prepare(run, tmp_path / "out")
    monkeypatch.setattr("sys.argv", ["decode", "--run", str(run)])
    with pytest.raises(SystemExit, match="norm is rmsnorm: what can be compared is"):
        decode.cases_of(decode.arguments())
