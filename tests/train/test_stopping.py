"""Early stopping, the best checkpoint, and which checkpoints stay."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from itertools import chain, repeat
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from pellucid.errors import ConfigError
from pellucid.train import loop
from pellucid.train import train as train_run
from pellucid.train.checkpoint import CheckpointStore
from pellucid.train.flow import Flow
from pellucid.train.journal import Metrics, Reporter
from pellucid.train.loop import Session, how_ended, is_better, log, show_progress, train_until_done
from pellucid.train.parallel import Objective
from pellucid.train.tracking import Tracking
from pellucid.train.update import Learner, Update


class OneWeight(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1))


@pytest.fixture
def start(tmp_path: Path, tiny: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A session whose updates count, each with its step for a loss, and whose validations give the scores they are
    told."""

    def quick_update(learner: Learner, stop_requested: Callable[[], bool]) -> tuple[Update, float]:
        learner.progress.step += 1
        learner.progress.loss_sum += learner.progress.step
        learner.progress.loss_tokens += 1
        with torch.no_grad():
            next(learner.model.parameters()).fill_(learner.progress.step)
        return Update(loss=1.0, gradient_norm=1.0, source_tokens=1, target_tokens=1, waited=0.0, stops=False), 0.1

    monkeypatch.setattr(loop, "update", quick_update)

    def make(scores: list[float], monitor: str = "loss", keep: int = 1, patience: int | None = None,
             stop_after: int | None = None, warmup: int = 0) -> Session:
        task = "classification" if monitor in ("accuracy", "macro_f1") else "seq2seq"
        config = tiny(task=task, train={"monitor": monitor, "patience": patience, "validate_every": 2,
                                        "warmup_steps": warmup})
        model: Any = OneWeight()
        batches: Any = SimpleNamespace(per_epoch=1)
        steps = 2 * len(scores)
        coming = iter(scores)
        learner = Learner(config=config, model=model, objective=Objective(model, config.train),
                          optimizer=torch.optim.SGD(model.parameters()), average=None,
                          batches=batches, schedule=lambda step: 0.1, precision="fp32", device=torch.device("cpu"))
        return Session(
            learner=learner, steps=steps, validate_every=2,
            store=CheckpointStore(tmp_path, keep, lambda step: step % 2 == 0 or step == steps),
            metrics=Metrics(tmp_path / "metrics.jsonl"), reporter=Reporter(io.StringIO(), seconds_between_lines=0.0),
            validate=lambda average: {"loss": 1.0, monitor: next(coming)}, tracking=Tracking({}, tmp_path, {}, print),
            stop_requested=lambda: learner.progress.step == stop_after)

    return make


def steps_in(folder: Path) -> list[int]:
    return sorted(int(path.name[5:]) for path in (folder / "checkpoints").iterdir())


def best_of(folder: Path) -> tuple[str, int, str, float]:
    best = json.loads((folder / "best.json").read_text())
    return best["checkpoint"], best["step"], best["monitor"], best["score"]


@pytest.mark.parametrize(("monitor", "scores", "best", "last"), [
    ("loss", [5.0, 4.0, 4.0, 4.5, 1.0, 0.0], 4, 8),
    ("loss", [1.0, 2.0, 0.5, 2.0, 2.0, 0.0], 6, 10),
    ("bleu", [5.0, 6.0, 6.0, 4.5, 9.0, 9.0], 4, 8),
    ("accuracy", [5.0, 4.0, 6.0, 4.5, 6.0, 9.0], 6, 10),
])
def test_it_stops_after_so_many_validations_without_gain(monitor: str, scores: list[float], best: int, last: int,
                                                        start: Any, tmp_path: Path) -> None:
    session = start(scores, monitor, patience=2)
    assert train_until_done(session)
    assert session.learner.progress.step == last
    assert best_of(tmp_path) == (f"step-{best:08d}", best, monitor, scores[best // 2 - 1])
    assert steps_in(tmp_path) == sorted({best, last})
    assert train_until_done(session)  # once it is out of patience it stays so
    assert session.learner.progress.step == last


@pytest.mark.parametrize(("warmup", "last"), [(0, 6), (3, 6), (4, 8), (7, 10), (8, 12)])
def test_patience_counts_from_the_end_of_the_warm_up(warmup: int, last: int, start: Any) -> None:
    session = start([1.0, *[2.0] * 9], patience=2, warmup=warmup)
    assert train_until_done(session)
    assert session.learner.progress.step == last
    ended, why = how_ended(session)
    assert ended == "patience"
    assert why == (f"stopped early at step {last}: validation loss has not fallen for 2 validations "
                   "(best at step 2)")


def test_a_score_that_should_rise_is_told_so(start: Any) -> None:
    session = start([9.0, 8.0, 7.0, 7.0], "bleu", patience=1)
    assert train_until_done(session)
    assert "validation bleu has not risen for 1 validation (best at step 2)" in how_ended(session)[1]


def test_without_patience_it_goes_to_the_end(start: Any, tmp_path: Path) -> None:
    session = start([1.0, *[2.0] * 9])
    assert train_until_done(session)
    assert session.learner.progress.step == 20
    assert best_of(tmp_path)[1] == 2


@pytest.mark.parametrize("keep", [0, 1, 2, 4, 9])
def test_the_newest_the_best_and_the_last_milestones_stay(keep: int, start: Any, tmp_path: Path) -> None:
    assert train_until_done(start([4.0, 1.0, 3.0, 3.0, 3.0, 3.0, 3.0], keep=keep))
    assert steps_in(tmp_path) == sorted({4, 14, *[step for step in range(2, 16, 2) if step > 14 - 2 * keep]})


def test_pointing_to_a_checkpoint_removes_none(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path, 1, lambda step: True)
    for step in (1, 2, 3, 4):
        store.path(step).mkdir(parents=True)
    store.point_best(store.path(1).name, 1, "loss", 0.5)
    store.point_last(3)
    assert steps_in(tmp_path) == [1, 2, 3, 4]
    store.prune(3)
    assert steps_in(tmp_path) == [1, 3, 4]


def test_a_request_to_stop_saves_at_any_step(start: Any, tmp_path: Path) -> None:
    session = start([4.0, 1.0, 3.0], stop_after=5)
    assert not train_until_done(session)
    assert session.learner.progress.step == 5
    assert steps_in(tmp_path) == [4, 5]
    assert json.loads((tmp_path / "last.json").read_text()) == {"checkpoint": "step-00000005", "step": 5}
    assert best_of(tmp_path)[1] == 4


def test_a_request_at_a_validation_saves_once(start: Any, tmp_path: Path) -> None:
    assert not train_until_done(start([4.0, 1.0, 3.0], stop_after=4))
    assert steps_in(tmp_path) == [4]


@pytest.mark.parametrize("noes", range(6))
def test_a_request_that_comes_between_any_two_looks_finds_everything_saved(noes: int, start: Any,
                                                                           tmp_path: Path) -> None:
    session, answers = start([4.0, 1.0, 3.0]), chain(repeat(False, noes), repeat(True))
    session.stop_requested = lambda: next(answers)
    assert not train_until_done(session)
    step = session.learner.progress.step
    assert step in steps_in(tmp_path)
    assert json.loads((tmp_path / "last.json").read_text())["step"] == step


def test_the_loss_that_is_told_is_the_mean_since_the_line_before(start: Any, tmp_path: Path) -> None:
    session = start([4.0, 1.0, 3.0])
    assert train_until_done(session)
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert [line["loss"] for line in lines if line["event"] == "train"] == [(1 + 2) / 2, (3 + 4) / 2, (5 + 6) / 2]
    shown = [line.split("loss ")[1].split()[0] for line in session.reporter.stream.getvalue().splitlines()
             if "rate" in line]
    assert shown == ["1.000", "1.500", "3.000", "3.500", "5.000", "5.500"]


def test_the_epoch_that_is_told_is_that_of_the_last_batch(start: Any, tmp_path: Path) -> None:
    """An update has two batches, and an epoch three."""
    session = start([4.0, 1.0, 3.0])
    session.learner.batches.per_epoch = 3
    assert train_until_done(session)
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert [line["epoch"] for line in lines if line["event"] == "train"] == [2, 3, 4]


def test_telling_changes_nothing_that_is_counted(start: Any) -> None:
    session = start([1.0])
    progress = session.learner.progress
    progress.step, progress.loss_sum, progress.loss_tokens = 1, 6.0, 3
    before = asdict(progress)
    log(session, 2.0, 1.0, 0.1, Flow())
    show_progress(session, 2.0, 0.1)
    assert asdict(progress) == before


def test_better_is_lower_for_a_loss_and_higher_for_all_else() -> None:
    assert is_better("loss", 1.0, 2.0)
    assert not is_better("loss", 2.0, 2.0)
    for monitor in ("bleu", "exact", "accuracy", "macro_f1"):
        assert is_better(monitor, 2.0, 1.0)
        assert not is_better(monitor, 2.0, 2.0)


@pytest.mark.parametrize(("changed", "where"), [
    ({"learning_rate": -1.0}, "train.learning_rate"), ({"steps": 0}, "train.steps"),
    ({"monitor": "f1"}, "train.monitor"), ({"precision": "FP32"}, "train.precision")])
def test_a_configuration_made_in_python_is_checked_before_anything_is_written(changed: dict[str, Any], where: str,
                                                                              tiny: Any, tmp_path: Path) -> None:
    config = tiny()
    with pytest.raises(ConfigError) as error:
        train_run.train(replace(config, train=replace(config.train, **changed)), str(tmp_path / "run"),
                        Reporter(io.StringIO()))
    assert error.value.where == where
    assert not (tmp_path / "run").exists()


def test_in_another_thread_it_trains_to_the_end(tiny: Any, tmp_path: Path) -> None:
    """Only the main one is told of signals."""
    config = tiny()
    with ThreadPoolExecutor(1) as pool:
        made = pool.submit(train_run.train, config, str(tmp_path / "run"), Reporter(io.StringIO())).result()
    assert made["step"] == config.train.steps
