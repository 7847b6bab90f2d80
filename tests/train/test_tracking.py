"""Trackers hear what metrics.jsonl gets, once each, whatever happens to the run; and nothing that happens to them stops
it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from pellucid.errors import ConfigError
from pellucid.train import train as train_run
from pellucid.train.trackers import TRACKERS, make_trackers
from pellucid.train.tracking import Event, Tracked, Tracker, scalars

Through = Callable[..., dict[str, Any]]


def lines(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]


class Heard(Tracker):
    """Writes down what it hears, over all processes."""

    def __init__(self, fails: str = "", name: str = "the first") -> None:
        self.name = name
        self.events: list[Event] = []
        self.calls: list[str] = []
        self.runs: list[Tracked] = []
        self.fails = fails

    def hear(self, call: str) -> None:
        self.calls.append(call)
        if call == self.fails:
            raise OSError("no space left on device")

    def begin(self, run: Tracked) -> str:
        self.runs.append(run)
        self.hear("begin")
        return run.id or self.name

    def train(self, event: Event) -> None:
        self.events.append(event)
        self.hear("train")

    def validation(self, event: Event) -> None:
        self.events.append(event)
        self.hear("validation")

    def end(self, summary: Event | None) -> None:
        self.hear("end" if summary is None else f"end by {summary['ended']}")


def test_a_tracker_hears_each_line_once(tmp_path: Path, tiny: Any, stop_at: Any) -> None:
    heard, stops = Heard(), stop_at((4,))
    with pytest.raises(train_run.Interrupted):
        train_run.train(tiny(), tmp_path, stops, trackers=[heard])
    assert heard.calls == ["begin", "train", "validation", "train", "end"]
    train_run.train(tiny(), tmp_path, stop_at(), trackers=[heard])
    assert heard.calls[-1] == "end by steps"
    assert [dict(event) for event in heard.events] == lines(tmp_path)
    assert [(run.step, run.id) for run in heard.runs] == [(0, None), (4, "the first")]
    assert heard.runs[0].config["train"]["steps"] == 9


def test_two_trackers_of_one_class_are_two(tmp_path: Path, tiny: Any, stop_at: Any) -> None:
    """Each hears all, and keeps its own id when the run goes on."""
    both = Heard(), Heard(name="the second")
    with pytest.raises(train_run.Interrupted):
        train_run.train(tiny(), tmp_path, stop_at((4,)), trackers=both)
    again = Heard(), Heard()
    train_run.train(tiny(), tmp_path, stop_at(), trackers=again)
    for first, second in zip(both, again, strict=True):
        assert [dict(event) for event in (*first.events, *second.events)] == lines(tmp_path)
    assert [one.runs[0].id for one in again] == ["the first", "the second"]


class Loud(Heard):
    """Prints what it hears, as trackio does."""

    def hear(self, call: str) -> None:
        super().hear(call)
        print(f"* {call}")


def test_what_a_tracker_prints_is_no_answer(tmp_path: Path, tiny: Any, stop_at: Any,
                                            capsys: pytest.CaptureFixture[str]) -> None:
    """So that the summary of train --json stands alone on standard output."""
    train_run.train(tiny(), tmp_path, stop_at(), trackers=[loud := Loud()])
    told = capsys.readouterr()
    assert told.out == ""
    assert [line for line in told.err.splitlines() if line.startswith("* ")] == [f"* {call}" for call in loud.calls]


class Dying(Heard):
    """Ends its process, with all that others have not saved, when it hears of a step."""

    def __init__(self, step: int) -> None:
        super().__init__()
        self.step = step

    def train(self, event: Event) -> None:
        super().train(event)
        if event["step"] == self.step:
            raise KeyboardInterrupt


def test_what_was_heard_before_a_crash_is_not_heard_again(tmp_path: Path, tiny: Any, stop_at: Any) -> None:
    """It ends at step 8, two updates after the last checkpoint, and before it could say that it had heard of 8."""
    first, second = Dying(8), Dying(0)
    with pytest.raises(KeyboardInterrupt):
        train_run.train(tiny(train={"log_every": 1}), tmp_path, stop_at(), trackers=[first])
    train_run.train(tiny(train={"log_every": 1}), tmp_path, stop_at(), trackers=[second])
    heard = [[event["step"] for event in each.events if event["event"] == "train"] for each in (first, second)]
    assert heard == [[1, 2, 3, 4, 5, 6, 7, 8], [8, 9]]
    assert [event["step"] for event in second.events if event["event"] == "validation"] == [9]
    assert second.runs[0].step == 6


@pytest.mark.parametrize("fails", ["begin", "train", "validation", "end by steps"])
def test_a_tracker_that_fails_stops_nothing(fails: str, tmp_path: Path, tiny: Any, stop_at: Any, snapshot: Any,
                                            train_through: Through) -> None:
    broken, other, said = Heard(fails), Heard(), stop_at()
    train_run.train(tiny(), tmp_path / "run", said, trackers=[broken, other])
    assert said.told.count("Heard failed, and will not be told of this training any more: OSError: no space left") == 1
    assert broken.calls[-1] == fails  # nothing after it
    assert other.calls[-1] == "end by steps"
    train_through(tiny(), tmp_path / "plain")
    assert snapshot(tmp_path / "run") == snapshot(tmp_path / "plain")


@pytest.mark.parametrize(("ended", "train"), [("steps", {}),
                                              ("patience", {"steps": 60, "patience": 2, "learning_rate": 5.0})])
def test_a_run_that_is_finished_tells_nobody(ended: str, train: dict[str, Any], tmp_path: Path, tiny: Any,
                                             stop_at: Any) -> None:
    """And was made where it was made, wherever it is done again."""
    assert train_run.train(tiny(train=train), tmp_path, stop_at())["ended"] == ended
    place = tmp_path / "environment.json"
    place.write_text(json.dumps(json.loads(place.read_text()) | {"processor": "another"}))
    heard, said = Heard(), stop_at()
    train_run.train(tiny(train=train), tmp_path, said, trackers=[heard])
    assert not heard.calls
    assert json.loads(place.read_text())["processor"] == "another"
    assert "note: " not in said.told


def test_a_damaged_record_is_begun_anew(tmp_path: Path, tiny: Any, stop_at: Any) -> None:
    with pytest.raises(train_run.Interrupted):
        train_run.train(tiny(), tmp_path, stop_at((4,)), trackers=[Heard()])
    for text in ("{", "[]", '{"Heard": 3}', '{"Heard": {"id": "x", "last": []}}'):
        (tmp_path / "tracking.json").write_text(text)
        with pytest.raises(train_run.Interrupted):
            train_run.train(tiny(), tmp_path, stop_at((5,)), trackers=[Heard()])
        (tmp_path / "checkpoints/step-00000005/manifest.json").unlink()


def test_numbers_by_name() -> None:
    event = {"event": "train", "step": 3, "loss": 1.5, "epoch": 1, "gradient_norms": {"encoder": 2.0}}
    assert scalars(event) == {"train/loss": 1.5, "train/epoch": 1.0, "train/gradient_norms/encoder": 2.0}


def test_trackers_that_do_not_exist_or_are_not_installed(tmp_path: Path, tiny: Any, stop_at: Any,
                                                         monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="no tracker 'tensorbord'") as error:
        train_run.train(tiny(train={"track": ["tensorbord"]}), tmp_path / "run", stop_at())
    assert "tensorboard, trackio, mlflow, wandb" in error.value.fix
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(ConfigError, match="needs a package") as error:
        train_run.train(tiny(train={"track": ["wandb"]}), tmp_path / "run", stop_at())
    assert "pip install wandb" in error.value.fix
    assert not (tmp_path / "run").exists()


def test_one_of_ones_own_by_name(tmp_path: Path, tiny: Any, stop_at: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    heard = Heard()
    monkeypatch.setitem(TRACKERS, "mine", lambda: heard)
    train_run.train(tiny(train={"track": ["mine"]}), tmp_path, stop_at())
    assert heard.calls[-1] == "end by steps"
    train_run.train(tiny(), tmp_path, stop_at())  # who is told is no part of what a run is


def read_tensorboard(out: Path) -> dict[str, list[tuple[int, float]]]:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    found = EventAccumulator(str(out / "tensorboard"), size_guidance={"scalars": 0})
    found.Reload()
    return {tag: [(point.step, point.value) for point in found.Scalars(tag)] for tag in found.Tags()["scalars"]}


@pytest.mark.parametrize("stops", [(), (4,), (1, 5, 8)])
def test_tensorboards_own_reader_finds_each_point_once(stops: tuple[int, ...], tmp_path: Path, tiny: Any,
                                                       train_through: Through) -> None:
    pytest.importorskip("tensorboard", reason="pellucid[track] is not installed")
    config = tiny(train={"track": ["tensorboard"]})
    train_through(config, tmp_path, stops)
    expected: dict[str, list[tuple[int, float]]] = {}
    for line in lines(tmp_path):
        for tag, value in scalars(line).items():
            expected.setdefault(tag, []).append((line["step"], pytest.approx(value, rel=1e-6)))
    assert read_tensorboard(tmp_path) == expected
    assert [step for step, _ in expected["train/loss"]] == [2, 4, 6, 8, 9]


def test_tensorboard_forgets_what_a_crash_undid(tmp_path: Path, tiny: Any, stop_at: Any) -> None:
    """The process ends at step 8, its last checkpoint being that of step 6."""
    pytest.importorskip("tensorboard", reason="pellucid[track] is not installed")
    config = tiny(train={"track": ["tensorboard"]})

    with pytest.raises(KeyboardInterrupt):
        train_run.train(config, tmp_path, stop_at(), trackers=[Dying(8)])
    assert [step for step, _ in read_tensorboard(tmp_path)["train/loss"]] == [2, 4, 6, 8]
    train_run.train(config, tmp_path, stop_at())
    assert [step for step, _ in read_tensorboard(tmp_path)["train/loss"]] == [2, 4, 6, 8, 9]


class Fake(ModuleType):
    """A module that writes down what it is asked."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.asked: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)

        def ask(*arguments: Any, **named: Any) -> Any:
            self.asked.append((name, arguments, named))
            return SimpleNamespace(id="run-1", info=SimpleNamespace(run_id="run-1"), log=self.log, finish=self.finish)

        return ask


def begun_as(name: str, out: Path) -> list[dict[str, Any]]:
    """What a run begins as, and goes on as: in one project, under one name, and none of another run."""
    if name == "trackio":
        return [{"project": "pellucid", "name": str(out), "resume": resume} for resume in ("never", "allow")]
    if name == "mlflow":
        return [{"run_id": known, "run_name": out.name} for known in (None, "run-1")]
    return [{"project": "pellucid", "name": out.name, "dir": str(out), "id": known, "resume": "allow",
             "mode": "offline"} for known in (None, "run-1")]


@pytest.mark.parametrize(("name", "begins", "logs", "ends"), [
    ("trackio", "init", "log", "finish"), ("mlflow", "start_run", "log_metrics", "end_run"),
    ("wandb", "init", "log", "finish")])
def test_the_others_are_told_the_same(name: str, begins: str, logs: str, ends: str, tmp_path: Path, tiny: Any,
                                      train_through: Through, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = Fake(name)
    monkeypatch.setitem(sys.modules, name, fake)
    train_through(tiny(train={"track": [name]}), tmp_path, (4,))
    logged = [(named["step"], arguments[0]) for call, arguments, named in fake.asked if call == logs]
    assert logged == [(line["step"], scalars(line)) for line in lines(tmp_path)]
    begun = [named for call, _, named in fake.asked if call == begins]
    configs = [arguments[0] for call, arguments, _ in fake.asked if call == "log_dict"]  # MLflow's: once a run
    if name != "mlflow":
        configs = [named.pop("config") for named in begun]
    assert [config["train"]["steps"] for config in configs] == [9] * (1 if name == "mlflow" else 2)
    assert begun == begun_as(name, tmp_path)
    ended = [arguments for call, arguments, _ in fake.asked if call == ends]
    assert ended == ([("KILLED",), ("FINISHED",)] if name == "mlflow" else [(), ()])
    experiments = [arguments for call, arguments, _ in fake.asked if call == "set_experiment"]
    assert experiments == [("pellucid",)] * (2 if name == "mlflow" else 0)


def test_every_tracker_that_ships_has_a_test_here() -> None:
    ships = {name for name, make in TRACKERS.items() if make.__module__.startswith("pellucid.")}  # a page adds its own
    assert ships == {"tensorboard", "trackio", "mlflow", "wandb"}
    assert make_trackers([]) == {}
