"""A run that has ended goes on for more updates as if they had been asked for at first, or says what stands in the
way."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pellucid.errors import ConfigError
from pellucid.runs.folder import environment, read_config
from pellucid.train import train as train_run
from pellucid.train.length import schedule_of, steps_of, updates_in

Through = Callable[..., dict[str, Any]]
FALLING = ("linear", "cosine")


def events(out: Path, kind: str) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    return [line for line in lines if line["event"] == kind]


def test_an_update_takes_its_batches_from_one_epoch_or_two(tiny: Any) -> None:
    """Five batches an epoch, and two an update."""
    assert updates_in(tiny(), 5) == 3
    assert [steps_of(tiny(train={"epochs": epochs}), 5) for epochs in (1, 2, 3, 4)] == [3, 5, 8, 10]
    assert steps_of(tiny(train={"steps": 7}), 5) == 7


def test_without_a_learning_rate_it_is_the_papers(tiny: Any) -> None:
    rate, given = (schedule_of(tiny(train={"learning_rate": peak, "warmup_steps": 4}), 50) for peak in (None, 0.3))
    for step in range(1, 51):
        assert rate(step) == pytest.approx(8**-0.5 * min(step**-0.5, step * 4**-1.5))
    assert given(4) == 0.3


@pytest.mark.parametrize(("keys", "short", "long"), [
    ({}, 6, 9),  # ends where a validation and a line are due
    ({}, 5, 9),  # and where neither is
    ({"average_last": 3, "patience": 9}, 7, 11),
    ({"validate_every": 50}, 3, 6),  # the end of each is its one validation
    ({"ema_decay": 0.8, "schedule": "constant"}, 4, 8),
    ({"validate_every": None, "workers": 2}, 5, 40),
    ({"schedule": "linear", "warmup_steps": 6}, 5, 12),  # within the warm-up the end of the schedule is far
    ({"schedule": "cosine", "warmup_steps": 6}, 6, 12),
])
def test_extended_is_byte_for_byte_as_if_asked_for_at_first(keys: dict[str, Any], short: int, long: int, tmp_path: Path,
                                                            tiny: Any, train_through: Through, snapshot: Any) -> None:
    whole, out = tiny(train={**keys, "steps": long}), tmp_path / "run"
    train_through(whole, tmp_path / "whole")
    train_through(tiny(train={**keys, "steps": short}), out)
    assert train_through(whole, out)["step"] == long
    assert snapshot(out) == snapshot(tmp_path / "whole")


def test_a_better_end_that_was_not_due_does_not_stay_the_best(tmp_path: Path, tiny: Any, train_through: Through,
                                                             snapshot: Any) -> None:
    """Step 5 is the best of a run of 5, and nothing in a run of 9; the best before it is still there."""
    short, long = (tiny(train={"steps": steps, "average_last": 1}) for steps in (5, 9))
    train_through(short, tmp_path / "run")
    assert json.loads((tmp_path / "run/best.json").read_text())["step"] == 5
    assert [event["step"] for event in events(tmp_path / "run", "validation")] == [3, 5]
    train_through(long, tmp_path / "run", (6,))
    train_through(long, tmp_path / "whole")
    assert snapshot(tmp_path / "run") == snapshot(tmp_path / "whole")


def test_epochs_and_steps_are_extended_by_each_other(tmp_path: Path, tiny: Any, train_through: Through,
                                                     snapshot: Any) -> None:
    made = train_through(tiny(train={"epochs": 1}), tmp_path / "run")["step"]
    for config in (tiny(train={"steps": made}), tiny(train={"epochs": 2}), tiny(train={"steps": 30})):
        train_through(config, tmp_path / "run")
    train_through(tiny(train={"steps": 30}), tmp_path / "whole")
    assert snapshot(tmp_path / "run") == snapshot(tmp_path / "whole")


def test_an_interrupted_run_may_have_less_to_do(tmp_path: Path, tiny: Any, train_through: Through, snapshot: Any,
                                                stop_at: Any) -> None:
    with pytest.raises(train_run.Interrupted):
        train_run.train(tiny(), tmp_path / "run", stop_at((5,)))
    train_through(tiny(train={"steps": 6}), tmp_path / "run")
    train_through(tiny(train={"steps": 6}), tmp_path / "whole")
    assert snapshot(tmp_path / "run") == snapshot(tmp_path / "whole")
    before = snapshot(tmp_path / "run")
    with pytest.raises(ConfigError, match="has made 6 updates, and is to make 4"):
        train_through(tiny(train={"steps": 4}), tmp_path / "run")
    assert snapshot(tmp_path / "run") == before


def test_what_a_run_was_made_with_stands_until_it_goes_on(tmp_path: Path, tiny: Any, train_through: Through,
                                                         monkeypatch: pytest.MonkeyPatch) -> None:
    out, short = tmp_path / "run", tiny(train={"steps": 6, "schedule": "constant"})
    train_through(short, out)
    before = (out / "environment.json").read_bytes()
    elsewhere = environment() | {"processor": "another one"}
    monkeypatch.setattr("pellucid.runs.folder.environment", lambda: elsewhere)
    with pytest.raises(ConfigError, match="has made 6 updates, and is to make 4"):
        train_through(tiny(train={"steps": 4, "schedule": "constant", "workers": 2}), out)
    train_through(short, out)
    assert (out / "environment.json").read_bytes() == before
    train_through(tiny(train={"steps": 8, "schedule": "constant"}), out)
    assert json.loads((out / "environment.json").read_text())["processor"] == "another one"


@pytest.mark.parametrize("schedule", FALLING)
def test_a_schedule_that_has_ended_asks_for_a_choice(schedule: str, tmp_path: Path, tiny: Any, train_through: Through,
                                                     snapshot: Any, stop_at: Any) -> None:
    short, long = (tiny(train={"schedule": schedule, "steps": steps}) for steps in (6, 9))
    out = tmp_path / "run"
    train_through(short, out)
    before = snapshot(out)
    with pytest.raises(ConfigError, match="cannot come out as if") as error:
        train_through(long, out)
    assert f"train.schedule {schedule}" in error.value.why
    assert "--extend" in error.value.fix
    assert snapshot(out) == before
    assert read_config(out) == short

    def extended(place: Path, *stops: int) -> Any:
        shutil.copytree(out, place)
        for step in stops:
            with pytest.raises(train_run.Interrupted):
                train_run.train(long, place, stop_at((step,)), extend=True)
        assert train_run.train(long, place, stop_at())["step"] == 9 if stops else True
        return train_run.train(long, place, stop_at(), extend=True)

    assert extended(tmp_path / "a")["step"] == 9
    extended(tmp_path / "b", 8)
    assert snapshot(tmp_path / "a") == snapshot(tmp_path / "b")  # and stopped, it goes on as it would have
    told = [{key: event[key] for key in ("step", "from", "to")} for event in events(tmp_path / "a", "extended")]
    assert told == [{"step": 6, "from": 6, "to": 9}]
    card = (tmp_path / "a/README.md").read_text()
    assert "At step 6 it was extended from 6 to 9 updates" in card
    assert "other weights, since the run was extended" in card


def test_a_crash_neither_spoils_nor_doubles_what_is_told_of_an_extension(
        tmp_path: Path, tiny: Any, train_through: Through, snapshot: Any, stop_at: Any,
        monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed while it wrote a line, then between the line that tells of the extension and config.yaml."""
    short, long = (tiny(train={"schedule": "linear", "steps": steps}) for steps in (6, 9))
    for name in ("whole", "run"):
        train_through(short, tmp_path / name)
    train_run.train(long, tmp_path / "whole", stop_at(), extend=True)
    with (tmp_path / "run/metrics.jsonl").open("a") as file:
        file.write('{"event": "train", "st')

    def killed(*arguments: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("pellucid.train.length.write_config", killed)
        with pytest.raises(KeyboardInterrupt):
            train_run.train(long, tmp_path / "run", stop_at(), extend=True)
    train_run.train(long, tmp_path / "run", stop_at(), extend=True)
    assert snapshot(tmp_path / "run") == snapshot(tmp_path / "whole")


def test_a_run_that_stopped_early_goes_on_with_more_patience(tmp_path: Path, tiny: Any, train_through: Through,
                                                             snapshot: Any) -> None:
    """The learning rate is so high that nothing is ever better than the first validation."""
    def config(patience: int | None) -> Any:
        return tiny(train={"steps": 24, "learning_rate": 5.0, "validate_every": 2, "patience": patience})

    first = train_through(config(1), tmp_path / "run")
    assert first["ended"] == "patience"
    assert train_through(config(3), tmp_path / "run")["step"] > first["step"]
    train_through(config(3), tmp_path / "whole")
    assert snapshot(tmp_path / "run") == snapshot(tmp_path / "whole")
    with pytest.raises(ConfigError, match=r"more train\.patience, not less"):
        train_through(config(2), tmp_path / "run")
    assert train_through(config(None), tmp_path / "run")["ended"] == "steps"


def test_why_a_run_has_ended_is_kept_until_it_goes_on(tmp_path: Path, tiny: Any, train_through: Through,
                                                      stop_at: Any) -> None:
    summary = train_through(tiny(), tmp_path)
    assert (summary["ended"], summary["why"]) == ("steps", "all 9 updates were made")
    record = {"ended": "steps", "why": "all 9 updates were made", "step": 9}
    assert json.loads((tmp_path / "ended.json").read_text()) == record
    assert "The run has ended: all 9 updates were made." in (tmp_path / "README.md").read_text()
    with pytest.raises(train_run.Interrupted):
        train_run.train(tiny(train={"steps": 12}), tmp_path, stop_at((11,)))
    assert not (tmp_path / "ended.json").exists()


@pytest.mark.parametrize("key", [{"model": {"dropout": 0.2}}, {"seed": 7}, {"train": {"warmup_steps": 4}},
                                 {"train": {"schedule": "constant"}}, {"train": {"validate_every": 2}},
                                 {"train": {"average_last": 5}}, {"train": {"steps": 12, "clip_norm": 2.0}}])
def test_nothing_else_of_a_run_may_change(key: dict[str, Any], tmp_path: Path, tiny: Any,
                                          train_through: Through, snapshot: Any) -> None:
    train_through(tiny(train={"steps": 3}), tmp_path / "run")
    before = snapshot(tmp_path / "run")
    with pytest.raises(ConfigError, match="belongs to another configuration"):
        train_through(tiny(**{**key, "train": {"steps": 3, **key.get("train", {})}}), tmp_path / "run")
    assert snapshot(tmp_path / "run") == before
