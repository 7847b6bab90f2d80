"""A dry run says how much of the data it has read, and no more than that."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


@pytest.mark.parametrize(("lines", "told"), [(7, "all 7 lines"), (1000, "all 1,000 lines"),
                                             (1001, "the first 1,000 lines"), (3000, "the first 1,000 lines")])
def test_how_many_lines_were_read(train_on: Callable[..., Any], data: Path, lines: int, told: str) -> None:
    (data / "p.tsv").write_text("".join(f"{i}\t{i}\n" for i in range(lines)))
    words = ("--data.train", data / "p.tsv", "--data.validation", data / "pairs.tsv", "--dry-run")
    shown = train_on(*words)
    assert shown.code == 0, shown.err
    assert f"# train: {told} can be read" in shown.out
    assert "# validation: all 40 lines can be read\n" in shown.out
    assert ("the rest was not looked at (pellucid doctor reads all of it)" in shown.out) == (lines > 1000)
    report = json.loads(train_on(*words, "--json").out)
    assert report["train"] == {"lines": min(lines, 1000), "all": lines <= 1000}
    assert report["validation"] == {"lines": 40, "all": True}


def test_what_is_broken_behind_them_is_not_called_fine(train_on: Callable[..., Any], cli: Any, tiny: Path,
                                                       data: Path) -> None:
    (data / "p.tsv").write_text("1\t2\n" * 1200 + "one column\n")
    words = ("--data.train", data / "p.tsv", "--data.validation", data / "pairs.tsv")
    shown = train_on(*words, "--dry-run")
    assert "the rest was not looked at" in shown.out
    assert cli("doctor", tiny, *words).code == 3  # as it says there


def test_what_is_broken_among_them_stops_it(train_on: Callable[..., Any], data: Path) -> None:
    (data / "p.tsv").write_text("1\t2\n" * 900 + "one column\n")
    train_on("--data.train", data / "p.tsv", "--dry-run").says(3, f"{data / 'p.tsv'}:901")


def test_parameters_and_updates_are_those_of_the_run(cli: Any, tiny: Path, run: Path) -> None:
    summary = json.loads((run.parent / "summary.json").read_text())
    shown = cli("train", tiny, "--dry-run")
    assert f"# parameters: {summary['parameters']:,}\n# updates: {summary['step']:,}\n" in shown.out
    assert "# train: all 300 lines can be read" in shown.out


def test_the_parameters_with_a_tokenizer_that_is_there_are_known(train_on: Callable[..., Any], data: Path,
                                                                 run: Path) -> None:
    """However large a vocabulary the configuration would allow, and however much of the data was read."""
    (data / "p.tsv").write_text("".join(f"{i}\t{i}\n" for i in range(1500)))
    summary = json.loads((run.parent / "summary.json").read_text())
    words = ("--data.train", data / "p.tsv", "--data.validation", data / "pairs.tsv", "--dry-run", "--tokenizer.path")
    shown = train_on(*words, run / "tokenizer")
    assert f"# parameters: {summary['parameters']:,}\n" in shown.out
    train_on(*words, data / "nothing").says(4, "nothing")


def test_updates_of_epochs_are_counted(cli: Any, tiny: Path, tmp_path: Path) -> None:
    words = ("train", tiny, "--out", tmp_path / "r", "--train.epochs", 1, "--json")
    expected = json.loads(cli(*words, "--dry-run").out)
    assert expected["updates"] == json.loads(cli(*words).out)["step"]
    assert any("the only validation" in note or "patience" in note for note in expected["notes"]) == (
        expected["updates"] < 8)


def test_what_was_not_read_is_not_counted(train_on: Callable[..., Any], data: Path) -> None:
    (data / "p.tsv").write_text("".join(f"{i}\t{i}\n" for i in range(1500)))
    words = ("--data.train", data / "p.tsv", "--data.validation", data / "pairs.tsv", "--dry-run")
    shown = train_on(*words)
    assert "if the vocabulary is full; pellucid plan counts it" in shown.out
    assert "# updates: 2\n" in shown.out
    assert "# note: the run ends within its warm-up" in shown.out
