"""Data in many files, by every verb that reads it: a folder, a glob, a list with weights."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pellucid.train.journal import Reporter


@pytest.fixture
def shards(data: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder is the present one; in it en/, de/ and tables/ with four shards of ten lines each."""
    for side in ("en", "de", "tables"):
        (data / side).mkdir()
    sources, targets = ((data / name).read_text().splitlines(keepends=True) for name in ("s.txt", "t.txt"))
    rows = (data / "pairs.tsv").read_text().splitlines(keepends=True)
    for i in range(4):
        part = slice(10 * i, 10 * i + 10)
        for place, lines in ((f"en/{i}.en", sources), (f"de/{i}.de", targets), (f"tables/{i}.tsv", rows)):
            (data / place).write_text("".join(lines[part]))
    monkeypatch.chdir(data)
    return data


MIXED = "[{source: en, target: 'de/*.de'}, {path: tables/0.tsv, weight: 2.5}]"
REST = ("--data.validation", "pairs.tsv", "--data.test", "tables")


def test_a_mixture_is_trained_on_evaluated_and_resumed_from_elsewhere(
        cli: Any, train_on: Any, shards: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = train_on("--data.train", MIXED, *REST)
    assert done.code == 0, done.err
    record = json.loads((shards / "out" / "data.json").read_text())
    assert record["train"]["mixture"] == [{"source": "en", "target": "de/*.de", "weight": 1.0},
                                          {"path": "tables/0.tsv", "weight": 2.5}]
    assert (record["train"]["kept"], record["test"]["path"]) == (50, "tables")
    (shards / "elsewhere").mkdir()
    monkeypatch.chdir(shards / "elsewhere")
    done = cli("evaluate", shards / "out", "--json", "--without", "ter")
    assert done.code == 0, done.err
    assert json.loads(done.out)["runs"][0]["n"] == 40
    monkeypatch.chdir(shards)
    (shards / "tables" / "4.tsv").write_text("1\t1\n")  # one more is other data
    after = (shards / "out" / "data.json").stat().st_mtime + 10
    os.utime(shards / "tables" / "4.tsv", (after, after))
    done = cli("evaluate", shards / "out")
    done.says(3, "the test data changed since this run began", "written to since it was recorded: 4.tsv")
    assert done.err.count(str(shards / "tables")) == 1


def test_plan_and_doctor_read_a_mixture(cli: Any, tiny: Path, shards: Path) -> None:
    words = [tiny, "--data.train", MIXED, "--data.validation", "tables", "--train.epochs", "1"]
    done = cli("plan", *words, "--json", "--no-calibration")
    assert done.code == 0, done.err
    (shards / "en" / "2.en").write_bytes(b"1 2 3\n" * 9 + b"caf\xe9\n")
    done = cli("doctor", *words, "--json")
    assert done.code == 3, done.err
    found = {finding["kind"]: finding["examples"][0]["place"] for finding in json.loads(done.out)["findings"]
             if finding["examples"]}
    assert found["encoding"] == "en/2.en:10"


@pytest.mark.parametrize(("place", "content", "says"), [
    ("en/3.en", "1 2\n", "en/3.en and de/3.de"), ("en/4.en", "1 2\n", "en/4.en"),
    ("de/2.de", "", "de/2.de"), ("tables/1.tsv", "1 2 3\n", "tables/1.tsv:1")])
def test_the_shard_that_is_wrong_is_named(train_on: Any, shards: Path, place: str, content: str, says: str) -> None:
    (shards / place).write_text(content)
    train_on("--data.train", "[{source: en, target: de}, tables]", *REST[:2]).says(3, says)


def test_a_list_that_cannot_be_read_is_refused(train_on: Any, shards: Path) -> None:
    train_on("--data.train", "[{path: tables, wieght: 2}]").says(2, "unknown key", "weight")
    train_on("--data.train", "[tables, {path: tables, weight: -1}]").says(2, "out of range")
    train_on("--data.train", "[tables", "--data.validation", "pairs.tsv").says(3, "no file of data")
    train_on("--data.train", "[{path: tables, weight: 0.001}]", *REST).says(2, "leaves none of 40 examples")


def test_reading_tells_how_far_it_is(cli: Any, tiny: Path, shards: Path, new_cache: Callable[[Path], str],
                                     monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pellucid.data.encoding._LINES_AT_ONCE", 3)
    monkeypatch.setattr("pellucid.doctor.reading.WINDOW", 3)
    monkeypatch.setattr(Reporter.progress, "__kwdefaults__", {"due": True})
    monkeypatch.setenv("PELLUCID_CACHE", new_cache(shards / "cache"))  # where these ids are not yet
    words = (tiny, "--data.train", "tables", *REST[:2])
    assert re.search(r"train: 3 of 40 lines read, about \d+ s left", cli("train", *words, "--train.steps", 1).err)
    told = cli("doctor", *words).err
    assert re.search(r"train: 3 of 40 records read, about \d+ s left", told)
    assert re.search(r"train: 3 of 40 records judged, about \d+ s left", told)


def test_prepare_asks_for_its_folder_and_is_found_by_train(cli: Any, tiny: Path, shards: Path) -> None:
    cli("prepare", tiny).says(2, "--out", "runs/tiny")
    words = [tiny, "--out", "run", "--data.train", "tables", *REST[:2], "--train.steps", "2"]
    done = cli("prepare", *words, "--json")
    assert done.code == 0, done.err
    assert json.loads(done.out)["train"]["encoded_here"] == 4
    done = cli("train", *words)
    assert done.code == 0, done.err
    assert "lines read" not in done.err
