"""Which folders are runs, and what is told of them; what may not be read of one hides nothing of the others."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from pellucid.files import write_folder
from pellucid.runs.care import find_runs, free, look_at, waste_in
from pellucid.runs.folder import read_config
from pellucid.runs.slim import size_of

KEPT = Path(__file__).parent / "kept" / "0.1.0" / "run"


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Two that are alike; what was left unfinished lies beside the checkpoints of both."""
    for name in ("mine", "theirs"):
        shutil.copytree(KEPT, tmp_path / name)
        left = tmp_path / name / "checkpoints" / f".tmp-{'0' * 32}-step-00000001"
        left.mkdir()
        os.utime(left, (1, 1))
    return tmp_path


def forbid(monkeypatch: pytest.MonkeyPatch, method: str, place: Path) -> None:
    """As if this user might not read it."""
    plain: Callable[..., Any] = getattr(Path, method)

    def refused(path: Path, *given: Any, **more: Any) -> Any:
        if path == place:
            raise PermissionError(13, "Permission denied", str(path))
        return plain(path, *given, **more)

    monkeypatch.setattr(Path, method, refused)


@pytest.mark.parametrize("method", ["read_text", "is_file"])
def test_a_run_that_may_not_be_read_is_listed_as_that(method: str, runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    forbid(monkeypatch, method, runs / "theirs" / "config.yaml")
    mine, theirs = map(look_at, find_runs(runs))
    assert (mine.state, mine.why) == ("slim copy", "")
    assert (theirs.state, theirs.why) == ("unreadable", "no permission to read the file")


def test_of_a_run_that_may_not_be_read_nothing_goes(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    forbid(monkeypatch, "iterdir", runs / "theirs" / "checkpoints")
    found, passed = waste_in(runs)
    assert [one.path.parent for one in found] == [runs / "mine" / "checkpoints"]
    assert passed == [f"{runs / 'theirs'} stays as it is: no permission to read {runs / 'theirs' / 'checkpoints'}"]


@contextlib.contextmanager
def training(run: Path) -> Iterator[None]:
    """As if a process were training there."""
    with (run / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def test_of_a_run_that_is_being_trained_nothing_goes_and_of_the_others_it_does(runs: Path) -> None:
    """It may have begun behind the look: then nothing goes from any folder of it, however deep."""
    beside = runs / f".tmp-{'1' * 32}-slim"
    beside.write_text("half")
    os.utime(beside, (1, 1))
    found, passed = waste_in(runs)
    assert ([one.path.parent for one in found], passed) == (
        [runs, runs / "mine" / "checkpoints", runs / "theirs" / "checkpoints"], [])
    with training(runs / "mine"):
        others, passed = waste_in(runs)
        assert [one.path for one in others] == [found[0].path, found[2].path]
        assert passed == [f"{runs / 'mine'} is being trained"]
        assert [free(one) for one in found] == [4, 0, 0]
    assert [one.path.exists() for one in found] == [False, True, False]


def test_what_goes_is_told_once(runs: Path) -> None:
    """Of a run by itself as among others, and of a start that failed as a whole."""
    for name in ("started", "mine"):
        left = runs / name / f".tmp-{'2' * 32}-best.json"
        left.parent.mkdir(exist_ok=True)
        left.write_text("half")
        os.utime(left, (1, 1))
    shutil.copy(KEPT / "config.yaml", runs / "started")
    (runs / "started" / ".lock").touch()
    of_mine = [runs / "mine" / f".tmp-{'2' * 32}-best.json",
               runs / "mine" / "checkpoints" / f".tmp-{'0' * 32}-step-00000001"]
    assert [one.path for one in waste_in(runs / "mine")[0]] == of_mine
    assert [one.path for one in waste_in(runs)[0] if "theirs" not in one.path.parts] == [*of_mine, runs / "started"]


def test_what_only_looks_like_a_checkpoint_stays_and_keeps_nothing(runs: Path) -> None:
    run = runs / "mine"
    (run / "export.json").unlink()
    shutil.copy(run / "best.json", run / "last.json")
    places = run / "checkpoints"
    (newest,) = places.glob("step-*")
    shutil.copytree(newest, places / "step-00000600")
    shutil.copytree(newest, places / f"{newest.name}-mine")
    (places / "step-99999999").touch()
    found, passed = waste_in(run)
    assert ([one.path.name for one in found[1:]], passed) == (["step-00000600"], [])
    last = (run / "last.json").read_text()
    for name, other in (("last", "step-00000600"), ("best", "step-00000300")):  # not the newest; not there
        before = (run / f"{name}.json").read_text()
        (run / f"{name}.json").write_text(last.replace(newest.name, other))
        assert [told.partition(": ")[2] for told in waste_in(run)[1]] == [
            "best.json and last.json do not name checkpoints that are there"]  # nor is any taken for needless
        (run / f"{name}.json").write_text(before)
    weights = (newest / "model.safetensors").read_bytes()
    (newest / "model.safetensors").write_bytes(weights[:-1])  # what goes on from it would go on from an older one
    assert len(waste_in(run)[1]) == 1
    (newest / "model.safetensors").write_bytes(weights)
    (run / "last.json").unlink()  # as of one that was trained elsewhere
    assert [one.path for one in waste_in(run)[0]] == [found[0].path]
    (run / "last.json").write_text(last)
    for place in (newest, places / "step-00000600"):  # by hand
        shutil.rmtree(place)
    assert [one.path for one in waste_in(run)[0]] == [found[0].path]


def test_what_a_mean_at_the_end_is_made_of_stays(runs: Path) -> None:
    """The newest two, one more that is not validated yet, the chosen one, and the best, of which no other is better."""
    run = runs / "mine"
    (run / "export.json").unlink()
    config = yaml.safe_load((run / "config.yaml").read_text())
    config["train"]["average_last"] = 2
    (run / "config.yaml").write_text(yaml.safe_dump(config))
    (newest,) = (run / "checkpoints").glob("step-*")
    for step in range(200, 1200, 200):
        shutil.copytree(newest, newest.with_name(f"step-{step:08d}"))
    pointer = (run / "best.json").read_text()
    (run / "last.json").write_text(pointer)
    (run / "best.json").write_text(pointer.replace(newest.name, "step-00000200"))
    older, state = newest.with_name("step-00000800"), json.loads((newest / "state.json").read_text())

    def fill(place: Path) -> None:
        shutil.copy(older / "model.safetensors", place)
        (place / "state.json").write_text(json.dumps(state | {"best_step": 400}))

    write_folder(newest, fill)
    assert [one.path.name for one in waste_in(run)[0][1:]] == ["step-00000600"]


def test_a_size_is_of_what_may_be_looked_at(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    forbid(monkeypatch, "is_file", runs / "mine" / "tokenizer" / "tokenizer.json")
    tokenizer = sum(path.stat().st_size for path in (runs / "theirs" / "tokenizer").iterdir())
    assert size_of(runs / "theirs") - tokenizer <= size_of(runs / "mine") < size_of(runs / "theirs")


def test_a_run_is_found_by_what_it_has_and_none_inside_another_or_hidden(tmp_path: Path) -> None:
    for place in ("b/deep", "a", "a/inside", "a/checkpoints/step-00000001", ".hidden", "c/.hidden"):
        (tmp_path / place / "tokenizer").mkdir(parents=True)
        (tmp_path / place / "config.yaml").touch()
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "config.yaml").touch()  # of something else
    (tmp_path / "e").mkdir()
    (tmp_path / "e" / "environment.json").touch()
    assert find_runs(tmp_path) == [tmp_path / "a", tmp_path / "b" / "deep"]
    assert find_runs(tmp_path / "a") == [tmp_path / "a"]


def test_where_epochs_decide_no_number_of_updates_is_told(runs: Path) -> None:
    config = runs / "mine" / "config.yaml"
    assert look_at(runs / "mine").steps == read_config(runs / "mine").train.steps
    config.write_text(re.sub(r"^  epochs: .*$", "  epochs: 3", config.read_text(), flags=re.MULTILINE))
    assert look_at(runs / "mine").steps is None


def test_updates_are_those_of_the_newest_checkpoint_or_of_the_chosen_one(runs: Path) -> None:
    assert look_at(runs / "mine").step == 1200  # only best.json says so
    (runs / "mine" / "last.json").write_text('{"step": 1300, "checkpoint": "step-00001300"}')
    assert look_at(runs / "mine").step == 1300
    (runs / "mine" / "last.json").write_text('{"step": "many"}')
    assert look_at(runs / "mine").step == 0
