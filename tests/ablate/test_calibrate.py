"""What is timed before a study."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pellucid.ablate import calibrate
from pellucid.ablate.calibrate import Measured, measure, middle
from pellucid.config import RunConfig
from pellucid.config.mapping import from_mapping
from pellucid.errors import NumericalError
from pellucid.train import objective


def config(**train: Any) -> RunConfig:
    return from_mapping({
        "task": "seq2seq", "data": {"generated": {"task": "copy", "train": 40, "validation": 4, "test": 4}},
        "tokenizer": {"kind": "word"}, "model": {"d_model": 16, "n_heads": 2, "d_ff": 16, "encoder_layers": 1,
                                               "decoder_layers": 1, "max_length": 32},
        "train": {"steps": 1000, "batch_tokens": 64, "workers": 1, **train}})


def test_of_several_looks_the_median_speed_counts_at_the_mean_tokens() -> None:
    """1, 5 and 2 seconds a token, of 8, 10 and 12 tokens."""
    looks = [Measured(7, 8.0, 8.0, 0.5), Measured(7, 10.0, 50.0, 0.1), Measured(7, 12.0, 24.0, 0.3)]
    assert middle(looks) == Measured(7, 10.0, 20.0, 0.3)


@pytest.mark.parametrize("last", [0, 1, 4])
def test_a_cell_that_diverges_is_timed_until_then(last: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = list[int]()
    real = calibrate.update

    def diverges(learner: Any) -> Any:
        if len(steps) == last:
            raise NumericalError("the loss is not finite")
        steps.append(1)
        return real(learner)

    monkeypatch.setattr(calibrate, "update", diverges)
    measured = measure(config(), tmp_path)
    assert len(steps) == last
    assert 0 < measured.seconds < 60
    assert measured.tokens > 0


@pytest.mark.parametrize(("seconds", "updates"), [(2.0, 4), (0.125, 8)])
def test_the_clock_runs_from_the_third_update_for_a_second_and_four_updates(
        seconds: float, updates: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the first ones prepare, a run of thousands does not notice."""
    clock, costs = [50.0], list[float]()

    def update(learner: Any) -> None:
        costs.append(seconds if len(costs) > 1 else 100.0)
        clock[0] += costs[-1]
        learner.progress.source_tokens += 6
        learner.progress.target_tokens += 4

    monkeypatch.setattr(calibrate, "update", update)
    monkeypatch.setattr(calibrate, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    measured = measure(config(), tmp_path)
    assert measured.seconds / measured.tokens == pytest.approx(seconds / 10)
    assert costs == [100.0] * 2 + [seconds] * updates
    assert measured.preparation == 0
    assert 32 < measured.tokens <= 2 * 64  # of a batch, on both sides
    assert measure(config(accumulate=3), tmp_path).tokens == 3 * measured.tokens


@pytest.mark.parametrize("alpha", [0.0, 1.0])
def test_r_drop_that_begins_late_is_timed(alpha: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = list[int]()
    twice = objective.r_drop_loss

    def counted(*given: Any) -> Any:
        calls.append(1)
        return twice(*given)

    monkeypatch.setattr(objective, "r_drop_loss", counted)
    monkeypatch.setattr("pellucid.ablate.calibrate.SECONDS", 0.0)
    measured = measure(config(r_drop=alpha, r_drop_after=500), tmp_path)
    assert measured.seconds > 0
    assert bool(calls) == bool(alpha)
