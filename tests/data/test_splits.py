"""Splits: shares are the same in every run, overlap nowhere, and generated data is text like any other."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from pellucid.config.mapping import from_mapping
from pellucid.data.splits import Pairs, open_splits, position
from pellucid.errors import ConfigError, DataError


def splits_of(folder: Path, data: dict[str, Any], **rest: Any) -> dict[str, Pairs]:
    return open_splits(from_mapping({"data": data, **rest}), folder / "run")


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "all.tsv"
    path.write_text("".join(f"sentence {i // 2}\tphrase {i}\n" for i in range(4000)), encoding="utf-8")
    return path


def test_shares_divide_the_training_data_by_its_source_text(tmp_path: Path, table: Path) -> None:
    splits = splits_of(tmp_path, {"train": str(table), "validation_share": 0.1, "test_share": 0.2})
    parts = {name: list(pairs) for name, pairs in splits.items()}
    whole = [tuple(line.split("\t")) for line in table.read_text(encoding="utf-8").splitlines()]
    assert sorted(parts["train"] + parts["validation"] + parts["test"]) == sorted(whole)
    sources = {name: {a for a, _ in pairs} for name, pairs in parts.items()}
    assert not sources["train"] & sources["validation"]
    assert not sources["train"] & sources["test"]
    assert not sources["test"] & sources["validation"]
    assert 0.07 < len(parts["validation"]) / 4000 < 0.13
    assert 0.16 < len(parts["test"]) / 4000 < 0.24
    assert {name: list(pairs) for name, pairs in splits.items()} == parts  # read again
    for pairs in splits.values():
        assert pairs.sha256() == hashlib.sha256(table.read_bytes()).hexdigest()


def test_the_place_of_a_text_is_its_hash() -> None:
    digest = hashlib.blake2b(b"a cat", digest_size=8).hexdigest()
    assert position("a cat") == int(digest, 16) / 2**64


def test_a_share_stays_where_it_is_when_another_is_added(tmp_path: Path, table: Path) -> None:
    alone = splits_of(tmp_path, {"train": str(table)})
    both = splits_of(tmp_path, {"train": str(table), "test_share": 0.2})
    assert list(alone["validation"]) == list(both["validation"])
    assert "test" not in alone


def test_splits_that_are_given_leave_the_training_data_whole(tmp_path: Path, table: Path) -> None:
    other = tmp_path / "validation.jsonl"
    other.write_text(json.dumps({"source": "a", "target": "b"}) + "\n", encoding="utf-8")
    splits = splits_of(tmp_path, {"train": str(table), "validation": str(other)})
    assert set(splits) == {"train", "validation"}
    assert len(list(splits["train"])) == 4000
    assert list(splits["validation"]) == [("a", "b")]
    assert splits["validation"].describe()["path"] == str(other)
    json.dumps([pairs.describe() for pairs in splits.values()])


def test_no_validation_at_all_when_the_share_is_nought(tmp_path: Path, table: Path) -> None:
    assert set(splits_of(tmp_path, {"train": str(table), "validation_share": 0.0})) == {"train"}


def test_a_share_that_comes_to_nothing_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text("a\tb\n", encoding="utf-8")
    splits = splits_of(tmp_path, {"train": str(path)})
    with pytest.raises(DataError, match="no pair falls to validation"):
        list(splits["validation"])


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
    splits = splits_of(tmp_path, {"generated": {"task": "reverse", **sizes}})
    assert {name: len(list(pairs)) for name, pairs in splits.items()} == sizes
    assert all(b.split() == a.split()[::-1] for pairs in splits.values() for a, b in pairs)
    file = tmp_path / "run" / "data" / "train.tsv"
    before = file.stat().st_mtime_ns
    again = splits_of(tmp_path, {"generated": {"task": "reverse", **sizes}}, seed=7)
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
