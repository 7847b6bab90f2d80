"""Splits: shares are the same in every run, overlap nowhere, and generated data is text like any other."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from pellucid.config.mapping import from_mapping
from pellucid.data.division import SCHEME, Division
from pellucid.data.splits import Pairs, open_splits
from pellucid.errors import CheckpointError, ConfigError, DataError


def splits_of(folder: Path, data: dict[str, Any], **rest: Any) -> dict[str, Pairs]:
    return open_splits(from_mapping({"data": data, **rest}), folder / "run")


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "all.tsv"
    twins = ("sentence {}", "Sentence {} !")
    path.write_text("".join(f"{twins[i % 2].format(i // 2)}\tphrase {i}\n" for i in range(4000)), encoding="utf-8")
    return path


def test_shares_divide_the_training_data_by_its_source_text(tmp_path: Path, table: Path) -> None:
    splits = splits_of(tmp_path, {"train": str(table), "validation_share": 0.1, "test_share": 0.2})
    parts = {name: list(pairs) for name, pairs in splits.items()}
    whole = [tuple(line.split("\t")) for line in table.read_text(encoding="utf-8").splitlines()]
    assert sorted(parts["train"] + parts["validation"] + parts["test"]) == sorted(whole)
    sources = {name: {a.lower().rstrip(" !") for a, _ in pairs} for name, pairs in parts.items()}  # twins are one
    assert not sources["train"] & sources["validation"]
    assert not sources["train"] & sources["test"]
    assert not sources["test"] & sources["validation"]
    assert 0.05 < len(parts["validation"]) / 4000 < 0.11  # of the four fifths that the test leaves
    assert 0.16 < len(parts["test"]) / 4000 < 0.24
    assert {name: list(pairs) for name, pairs in splits.items()} == parts  # read again
    for pairs in splits.values():
        assert pairs.sha256() == hashlib.sha256(table.read_bytes()).hexdigest()


def test_the_test_stays_where_it_is_when_validation_changes(tmp_path: Path, table: Path) -> None:
    def test_of(**data: Any) -> list[tuple[str, str]]:
        return list(splits_of(tmp_path, {"train": str(table), "test_share": 0.2, **data})["test"])

    other = tmp_path / "validation.tsv"
    other.write_text("a\tb\n", encoding="utf-8")
    assert test_of() == test_of(validation_share=0) == test_of(validation_share=0.4) == test_of(validation=str(other))
    alone = splits_of(tmp_path, {"train": str(table)})
    both = splits_of(tmp_path, {"train": str(table), "test_share": 0.2})
    assert set(both["validation"]) < set(alone["validation"])  # the test takes from it, and moves nothing else
    assert "test" not in alone


@pytest.fixture
def old_run(tmp_path: Path) -> Path:
    """A folder as a run left it that began before the division was recorded; something has been trained in it."""
    folder = tmp_path / "run"
    (folder / "checkpoints" / "step-00000001").mkdir(parents=True)
    record = {name: {"name": name, "interval": interval, "sha256": ""} for name, interval in (
        ("train", [0.3, 1.0]), ("validation", [0.0, 0.1]), ("test", [0.1, 0.3]))}
    (folder / "data.json").write_text(json.dumps(record), encoding="utf-8")
    return folder


def test_a_run_keeps_the_division_that_it_began_with(tmp_path: Path, table: Path, old_run: Path) -> None:
    data = {"train": str(table), "validation_share": 0.1, "test_share": 0.2}
    old = splits_of(tmp_path, data)
    assert {pairs.division for pairs in old.values()} == {Division(0.1, 0.2, scheme=1)}
    (old_run / "data.json").write_text(json.dumps({name: pairs.describe() for name, pairs in old.items()}))
    assert splits_of(tmp_path, data) == old
    shutil.rmtree(old_run / "checkpoints")  # nothing has been trained yet
    assert splits_of(tmp_path, data) == old
    new = open_splits(from_mapping({"data": data}), tmp_path / "another")
    assert {pairs.division for pairs in new.values()} == {Division(0.1, 0.2, SCHEME)}
    (old_run / "data.json").write_text(json.dumps({name: pairs.describe() for name, pairs in new.items()}))
    assert splits_of(tmp_path, data) == new


@pytest.mark.parametrize("record", [
    None, "", "[]", "{}", '{"train": {"division": null}}', '{"train": 3}', '{"train": {"division": {"scheme": 99}}}',
    '{"train": {"division": {"scheme": {}}}}'])
def test_a_run_whose_division_is_not_known_is_refused(record: str | None, tmp_path: Path, table: Path,
                                                      old_run: Path) -> None:
    if record is None:
        (old_run / "data.json").unlink()
    else:
        (old_run / "data.json").write_text(record)
    with pytest.raises(CheckpointError) as error:
        splits_of(tmp_path, {"train": str(table)})
    assert error.value.where == str(old_run / "data.json")
    assert error.value.fix
    assert list(splits_of(tmp_path, {"train": str(table), "validation_share": 0})["train"])  # whole: nothing to know


def test_splits_that_are_given_leave_the_training_data_whole(tmp_path: Path, table: Path) -> None:
    other = tmp_path / "validation.jsonl"
    other.write_text(json.dumps({"source": "a", "target": "b"}) + "\n", encoding="utf-8")
    splits = splits_of(tmp_path, {"train": str(table), "validation": str(other)})
    assert set(splits) == {"train", "validation"}
    assert len(list(splits["train"])) == 4000
    assert list(splits["validation"]) == [("a", "b")]
    assert splits["validation"].describe()["path"] == str(other)
    json.dumps([pairs.describe() for pairs in splits.values()])
    both = splits_of(tmp_path, {"train": str(table), "validation": str(other), "test": str(other), "test_share": 0.2})
    assert [len(list(pairs)) for pairs in both.values()] == [4000, 1, 1]


def test_no_validation_at_all_when_the_share_is_nought(tmp_path: Path, table: Path) -> None:
    assert set(splits_of(tmp_path, {"train": str(table), "validation_share": 0.0})) == {"train"}


def test_a_share_that_comes_to_nothing_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text("a\tb\n", encoding="utf-8")
    splits = splits_of(tmp_path, {"train": str(path)})
    with pytest.raises(DataError, match="no pair falls to validation") as told:
        list(splits["validation"])
    assert "few different ones" in told.value.why


def test_a_pair_is_located_by_its_line(tmp_path: Path, table: Path) -> None:
    splits = splits_of(tmp_path, {"train": str(table)})
    lines = table.read_text(encoding="utf-8").splitlines()
    for index, (source, target) in list(enumerate(splits["validation"]))[::40]:
        number = lines.index(f"{source}\t{target}") + 1
        assert splits["validation"].locate(index) == f"{table}:{number}"
    with pytest.raises(IndexError):
        splits["train"].locate(10_000)


def test_generated_data_is_written_once_and_read_like_any_other(tmp_path: Path) -> None:
    sizes = {"train": 60, "validation": 20, "test": 10}
    splits = splits_of(tmp_path, {"generated": {"task": "sort", **sizes}})
    assert {name: len(list(pairs)) for name, pairs in splits.items()} == sizes
    assert all(b.split() == sorted(a.split(), key=int) for pairs in splits.values() for a, b in pairs)
    file = tmp_path / "run" / "data" / "train.tsv"
    before = file.stat().st_mtime_ns
    again = splits_of(tmp_path, {"generated": {"task": "sort", **sizes}}, seed=7)
    assert file.stat().st_mtime_ns == before
    assert list(again["train"]) == list(splits["train"])


def test_generated_data_is_made_again_for_another_task(tmp_path: Path) -> None:
    splits_of(tmp_path, {"generated": {"task": "reverse", "train": 30}})
    splits = splits_of(tmp_path, {"generated": {"task": "copy", "train": 20}})
    assert all(a == b for a, b in splits["train"])
    assert len(list(splits["train"])) == 20


def test_generated_classification_has_labels(tmp_path: Path) -> None:
    splits = splits_of(tmp_path, {"generated": {"task": "adjacent_duplicates"}}, task="classification")
    assert {label for _, label in splits["train"]} == {"0", "1"}


def test_files_are_preferred_to_generated_data(tmp_path: Path, table: Path) -> None:
    splits = splits_of(tmp_path, {"generated": {"task": "copy"}, "train": str(table)})
    assert splits["train"].describe()["path"] == str(table)
    mixed = splits_of(tmp_path, {"generated": {"task": "copy"}, "test": str(table)})
    assert mixed["test"].describe()["path"] == str(table)
    assert mixed["train"].describe()["path"].endswith("train.tsv")


def test_nothing_to_train_on_says_what_to_give(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        splits_of(tmp_path, {})
    assert "--data.train FILE" in caught.value.fix
