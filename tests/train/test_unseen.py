"""What a run holds out is refused where a run that it starts from has learned it, and only there."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pellucid.config import RunConfig
from pellucid.config.mapping import from_mapping, to_mapping
from pellucid.config.strict_yaml import as_yaml
from pellucid.data.splits import open_splits
from pellucid.doctor.checkup import check_up
from pellucid.errors import ConfigError, UserError
from pellucid.train import train as train_run
from pellucid.train.dry_run import dry_run
from pellucid.train.unseen import check_unseen

Begin = Callable[..., Path]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "all.tsv"
    path.write_text("".join(f"{i % 6} {i % 7} {i % 5} {i}\t{i} {i % 6}\n" for i in range(400)), encoding="utf-8")
    return path


@pytest.fixture
def begin(tmp_path: Path) -> Begin:
    """Leaves a run folder as training does: with the configuration and the record of its data."""

    def begin(name: str, start: str | None = None, **data: Any) -> Path:
        config, folder = configured(start and tmp_path / start, **data), tmp_path / name
        folder.mkdir()
        (folder / "config.yaml").write_text(as_yaml(to_mapping(config)))
        train_run.remember_data(open_splits(config, folder), {}, folder)
        return folder

    return begin


def configured(start: Path | None, **data: Any) -> RunConfig:
    return from_mapping({"data": data, "train": {"initialize_from": None if start is None else str(start)}})


def check(start: Path, folder: Path, **data: Any) -> None:
    config = configured(start, **data)
    check_unseen(config, open_splits(config, folder))


@pytest.mark.parametrize(("there", "here"), [
    ({"validation_share": 0}, {}), ({}, {"validation_share": 0.1}), ({}, {"test_share": 0.1}),
    ({"test_share": 0.1}, {"test_share": 0.2}), ({"validation": "all.tsv"}, {"test_share": 0.1}),
    ({}, {"validation_share": 0, "test": "all.tsv"}), ({}, {"source_field": 2, "target_field": 1}),
])
def test_what_was_learned_is_refused(there: dict[str, Any], here: dict[str, Any], table: Path, begin: Begin,
                                     tmp_path: Path) -> None:
    def full(data: dict[str, Any]) -> dict[str, Any]:
        return {"train": str(table), **{k: str(table) if v == "all.tsv" else v for k, v in data.items()}}

    start = begin("before", **full(there))
    config = configured(start, **full(here))
    splits = open_splits(config, tmp_path / "new")
    theirs = open_splits(configured(None, **full(there)), start)["train"]
    learned = {name: sum(pair in set(theirs) or pair[::-1] in set(theirs) for pair in splits[name])
               for name in ("validation", "test") if name in splits}
    with pytest.raises(ConfigError) as error:
        check_unseen(config, splits)
    told = {f"{start} learned {count} of the {sum(1 for _ in splits[name])} {name} pairs"
            for name, count in learned.items() if count}
    assert error.value.what in told
    assert error.value.fix


@pytest.mark.parametrize(("there", "here"), [
    ({"test_share": 0.1}, {"test_share": 0.1}),
    ({"test_share": 0.2, "validation_share": 0.2}, {"test_share": 0.1, "validation_share": 0.1}),
    ({"test_share": 0.2}, {"validation_share": 0, "test_share": 0.2}),
])
def test_smaller_shares_and_the_same_are_new_to_it(there: dict[str, Any], here: dict[str, Any], table: Path,
                                                  begin: Begin, tmp_path: Path) -> None:
    check(begin("before", train=str(table), **there), tmp_path / "new", train=str(table), **here)


def test_it_is_the_content_of_a_file_that_counts(table: Path, begin: Begin, tmp_path: Path) -> None:
    start = begin("before", train=str(table))
    copy, other = tmp_path / "copy.tsv", tmp_path / "other.tsv"
    copy.write_bytes(table.read_bytes())
    other.write_text(table.read_text() + "9 9\t9\n")
    with pytest.raises(ConfigError, match="learned"):
        check(start, tmp_path / "new", train=str(copy), validation_share=0.2)
    check(start, tmp_path / "new", train=str(other), validation_share=0.2)
    table.unlink()  # and what it was trained on need not be there any more
    with pytest.raises(ConfigError, match="learned"):
        check(start, tmp_path / "new", train=str(copy), validation_share=0.2)


def test_files_are_compared_one_by_one(table: Path, begin: Begin, tmp_path: Path) -> None:
    other, third = tmp_path / "other.tsv", tmp_path / "third.tsv"
    other.write_text("".join(f"other {i}\t{i}\n" for i in range(100)))
    third.write_text("".join(f"third {i}\t{i}\n" for i in range(100)))
    start = begin("before", train=[{"path": str(table)}, {"path": str(other)}], validation_share=0)
    for test, learned, count in ([other], 100, 100), ([third, table], 400, 500):
        with pytest.raises(ConfigError, match=f"learned {learned} of the {count} test pairs") as error:
            check(start, tmp_path / "new", train=str(third), test=[{"path": str(path)} for path in test])
        assert "both have one file" in error.value.why
    check(start, tmp_path / "new", train=str(table), validation_share=0, test=str(third))
    record = json.loads((start / "data.json").read_text())
    del record["train"]["files"]  # of a run from before they were recorded, all of them can be told
    (start / "data.json").write_text(json.dumps(record))
    with pytest.raises(ConfigError, match="learned 500 of the 500"):
        check(start, tmp_path / "new", train=str(third), test=[{"path": str(path)} for path in (table, other)])


def test_at_second_hand_and_in_a_circle(table: Path, begin: Begin, tmp_path: Path) -> None:
    other = tmp_path / "other.tsv"
    other.write_text("a\tb\n" * 3)
    first = begin("first", start="second", train=str(table))
    second = begin("second", start="first", train=str(other), validation_share=0)
    with pytest.raises(ConfigError) as error:
        check(second, tmp_path / "new", train=str(table), test_share=0.3)
    assert error.value.what.startswith(str(first))
    check(second, tmp_path / "new", train=str(table))
    (first / "config.yaml").write_text("[")  # where the line is lost, it ends
    check(second, tmp_path / "new", train=str(table), test_share=0.3)


def test_a_run_of_the_first_scheme_has_learned_what_the_second_holds_out(table: Path, begin: Begin,
                                                                       tmp_path: Path) -> None:
    start = begin("before", train=str(table), test_share=0.1)
    record = json.loads((start / "data.json").read_text())
    (start / "data.json").write_text(json.dumps({name: {k: v for k, v in split.items() if k != "division"}
                                                 for name, split in record.items()}))
    (start / "checkpoints" / "step-00000001").mkdir(parents=True)
    with pytest.raises(ConfigError) as error:
        check(start, tmp_path / "new", train=str(table), test_share=0.1)
    assert "test 0.1 (scheme 1) there, validation 0.05, test 0.1 (scheme 2) here" in error.value.why
    (start / "data.json").write_text("{}")  # and of one that keeps no record nothing is known
    check(start, tmp_path / "new", train=str(table), test_share=0.1)


def test_training_the_dry_run_and_the_doctor_say_so(table: Path, tiny: Callable[..., RunConfig], train_through: Any,
                                                    stop_at: Any, tmp_path: Path) -> None:
    data = {"generated": None, "train": str(table), "validation_share": 0.1}
    train_through(tiny(data=data, train={"steps": 2}), tmp_path / "before")
    again = tiny(data=data | {"test_share": 0.1}, train={"initialize_from": str(tmp_path / "before")})
    attempts: list[Callable[[], Any]] = [lambda: train_run.train(again, tmp_path / "new", stop_at()),
                                         lambda: dry_run(again, tmp_path / "dry")]
    for attempt in attempts:
        with pytest.raises(UserError, match=r"learned \d+ of the \d+ test pairs"):
            attempt()
    found = check_up(again, None, tmp_path / "new", lambda line: None).findings
    assert [(f.severity, f.where) for f in found if f.kind == "leak_start"] == [("broken", "train.initialize_from")]
    same = tiny(data=data, train={"steps": 2, "initialize_from": str(tmp_path / "before")})
    train_through(same, tmp_path / "new")
