"""A run is used wherever it lies and wherever one stands: its data are found, and others are not taken for them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

WORDS = ("--data.train.source", "d/s.txt", "--data.train.target", "d/t.txt", "--data.test", "d/test.tsv",
         "--data.validation_share", "0.2", "--train.steps", 2)


@pytest.fixture
def home(data: Path, cli: Any, tiny: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that a run was trained in, with relative paths: its data are in d/, the run is `run`."""
    (data / "d").mkdir()
    for name in ("s.txt", "t.txt"):
        (data / name).rename(data / "d" / name)
    (data / "d" / "test.tsv").write_text("1 2\t3\n3 4\t1\n")
    monkeypatch.chdir(data)
    done = cli("train", tiny, "--out", "run", *WORDS)
    assert done.code == 0, done.err
    return data


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Path]:
    """A function: goes to an empty folder."""
    def go() -> Path:
        place = tmp_path / "elsewhere"
        place.mkdir()
        monkeypatch.chdir(place)
        return place

    return go


def scores(done: Any) -> dict[str, Any]:
    assert done.code == 0, done.err
    report = json.loads(done.out)["runs"][0]
    return {key: value for key, value in report.items() if key not in ("run", "route")}


def test_from_another_folder_and_copied(cli: Any, home: Path, elsewhere: Callable[[], Path]) -> None:
    before = scores(cli("evaluate", "run", "--json"))
    there = elsewhere()
    assert scores(cli("evaluate", home / "run", "--json")) == before
    shutil.copytree(home / "run", there / "copy")
    assert scores(cli("evaluate", "copy", "--json")) == before
    shutil.move(home / "run", there / "moved")
    assert scores(cli("evaluate", "moved", "--json")) == before


@pytest.mark.parametrize("name", ["train", "validation"])
def test_shares_of_the_training_data_too(cli: Any, home: Path, elsewhere: Callable[[], Path], name: str) -> None:
    before = scores(cli("evaluate", "run", "--split", name, "--json"))
    elsewhere()
    assert scores(cli("evaluate", home / "run", "--split", name, "--json")) == before


def test_other_data_of_the_same_name_are_passed_over(cli: Any, home: Path, elsewhere: Callable[[], Path]) -> None:
    before = scores(cli("evaluate", "run", "--json"))
    there = elsewhere()
    (there / "d").mkdir()
    (there / "d" / "test.tsv").write_text("1\t1\n")
    assert scores(cli("evaluate", home / "run", "--json")) == before
    (home / "d" / "test.tsv").write_text("2\t2\n")
    cli("evaluate", home / "run").says(3, "the test data changed", str(there / "d" / "test.tsv"),
                                       str(home / "d" / "test.tsv"), "--source and --target")
    (home / "d" / "test.tsv").unlink()
    cli("evaluate", home / "run").says(3, "the test data changed", "data.json")


def test_data_that_are_gone(cli: Any, home: Path, elsewhere: Callable[[], Path]) -> None:
    shutil.rmtree(home / "d")
    there = elsewhere()
    cli("evaluate", home / "run").says(3, "the test data of this run is not there any more",
                                       str(there / "d" / "test.tsv"), str(home / "d" / "test.tsv"),
                                       "--source and --target")
    (there / "s").write_text("1 2\n")
    (there / "t").write_text("2\n")
    assert cli("evaluate", home / "run", "--source", "s", "--target", "t").code == 0


def test_the_folder_survives_that_training_goes_on_elsewhere(cli: Any, home: Path, tiny: Path,
                                                             elsewhere: Callable[[], Path]) -> None:
    before = scores(cli("evaluate", "run", "--json"))
    elsewhere()
    assert cli("train", tiny, "--out", home / "run", *WORDS).code == 0
    record = json.loads((home / "run" / "data.json").read_text())
    assert {split["directory"] for split in record.values()} == {str(home)}
    assert scores(cli("evaluate", home / "run", "--json")) == before


@pytest.mark.parametrize("record", ["null", "[]", '{"test": 3}', '{"test": {"directory": 5, "sha256": []}}', "{", ""])
def test_a_record_that_says_nothing(cli: Any, home: Path, record: str) -> None:
    """The data of a test set of its own are read as they are given; shares are refused, as ever."""
    (home / "run" / "data.json").write_text(record)
    assert cli("evaluate", "run", "--source", "d/s.txt", "--target", "d/t.txt").code == 0
    done = cli("evaluate", "run")
    assert done.code == 4, done.err
    assert "Traceback" not in done.err
