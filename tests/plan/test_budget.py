"""What is reckoned of a whole run, and of all its workers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pellucid.config import ModelConfig, RunConfig, TrainConfig
from pellucid.data.sample import corpus_of
from pellucid.plan import budget
from pellucid.plan.budget import Budget, Machine, training
from pellucid.plan.plan import updates_of
from pellucid.plan.workload import Workload
from pellucid.precision import PRIMITIVES
from pellucid.train.length import updates_in

MACHINE = Machine("bf16", True, 0, 0, 300_000)


def planned(examples: int = 300, **train: Any) -> Budget:
    """Of a small model, on `examples` of lengths from 4 to 40."""
    lengths = np.random.default_rng(0).integers(4, 40, (examples, 2))
    source, target = ([np.full(n, 5) for n in lengths[:, side]] for side in (0, 1))
    workload = Workload(corpus_of(source, target), examples, 300, 300, True, 0, ())
    model = ModelConfig(d_model=32, n_heads=4, d_ff=64, encoder_layers=1, decoder_layers=1)
    keys = {"batch_tokens": 400, "average_last": 1, "workers": 1, "steps": 100} | train
    return training(RunConfig(model=model, train=TrainConfig(**keys)), workload, MACHINE)


def test_a_longer_run_leaves_more_holes_by_the_logarithm_of_its_batches() -> None:
    holes = [planned(steps=steps).holdings["holes"] for steps in (100, 1000, 10_000)]
    assert holes[0] < holes[1] < holes[2]
    assert holes[2] - holes[1] == pytest.approx(holes[1] - holes[0], rel=0.01)
    short, long = (planned(steps=None, epochs=epochs).total for epochs in (2, 50))
    assert long > short


@pytest.mark.parametrize(("allocator", "share"), [("glibc", 1.0), ("jemalloc", 1.0), ("tcmalloc", 0.5 / 3.0)])
def test_holes_are_those_that_the_allocator_leaves(monkeypatch: pytest.MonkeyPatch, allocator: str,
                                                   share: float) -> None:
    monkeypatch.setattr(budget, "in_use", lambda: "glibc")
    most = planned().holdings["holes"]
    monkeypatch.setattr(budget, "in_use", lambda: allocator)
    assert planned().holdings["holes"] == pytest.approx(share * most, rel=0.01)


@pytest.mark.parametrize(("batches", "accumulate", "epochs"), [(25, 3, 30), (29, 7, 7), (25, 6, 30), (7, 3, 1)])
def test_updates_of_epochs_are_those_of_training(batches: int, accumulate: int, epochs: int) -> None:
    """Not one more for a rounding of batches / accumulate."""
    rows = [np.full(4, 5)] * batches
    workload = Workload(corpus_of(rows, rows), batches, 300, 300, True, 0, ())
    config = RunConfig(train=TrainConfig(batch_sentences=1, steps=None, epochs=epochs, accumulate=accumulate))
    assert updates_of(config, workload).total == updates_in(config, batches, epochs) == -(-epochs * batches
                                                                                          // accumulate)


def test_micro_batches_are_batches() -> None:
    assert planned(accumulate=10).holdings["holes"] == pytest.approx(planned(steps=1000).holdings["holes"], rel=0.05)


def test_two_passes_of_a_sentence_leave_as_many_kernels_as_one() -> None:
    one, two = planned().holdings["kernels"], planned(r_drop=1.0).holdings["kernels"]
    assert two == pytest.approx(one, rel=0.1)


def test_no_more_kernels_are_counted_than_are_kept() -> None:
    assert planned(60_000, steps=None, epochs=1).holdings["kernels"] == PRIMITIVES * MACHINE.primitive


@pytest.mark.parametrize("steps", [50, 400])
def test_kernels_of_many_pairs_are_known_from_some_of_them(steps: int) -> None:
    """Sorted, a few pairs lie farther apart than many, and each batch has a shape of its own."""
    random = np.random.default_rng(0)
    sources = np.clip(np.rint(8 * random.lognormal(-0.125, 0.5, 60_000)), 2, 60).astype(int)
    targets = np.clip(np.rint(sources * random.lognormal(0, 0.2, 60_000)), 2, 60).astype(int)
    machine, kernels = Machine("bf16", True, 0, 0, 1), list[int]()
    model = ModelConfig(d_model=32, n_heads=4, d_ff=64, encoder_layers=1, decoder_layers=1)
    config = RunConfig(model=model, train=TrainConfig(batch_tokens=1000, average_last=1, workers=1, steps=steps))
    for known in (60_000, 2000):
        rows = corpus_of(*([np.full(n, 5) for n in side[:known]] for side in (sources, targets)))
        kernels.append(training(config, Workload(rows, 60_000, 300, 300, True, 0, ()), machine).holdings["kernels"])
    assert kernels[1] == pytest.approx(kernels[0], rel=0.15)


def test_each_worker_has_kernels_and_holes_and_the_weights_are_shared() -> None:
    one, two = planned(), planned(workers=2)
    for holder in ("weights", "optimizer"):
        assert two.holdings[holder] == one.holdings[holder]
    assert two.holdings["kernels"] == pytest.approx(2 * one.holdings["kernels"], rel=0.1)
    assert two.holdings["holes"] > one.holdings["holes"]
    assert two.total > one.total


def test_the_optimizer_and_the_moving_average_are_there_while_checkpoints_are_averaged() -> None:
    """As they are: the one moment of Muon, two of Adam's for the embedding."""
    rows, d, f, vocabulary = [np.full(2, 5)], 64, 128, 1000
    config = RunConfig(model=ModelConfig(d_model=d, n_heads=4, d_ff=f, encoder_layers=1, decoder_layers=1),
                       train=TrainConfig(optimizer="muon", ema_decay=0.9, average_last=3, workers=1, monitor="loss"))
    held = training(config, Workload(corpus_of(rows, rows), 1, vocabulary, vocabulary, True, 0, ()),
                    Machine("fp32", False, 0, 0, 0)).holdings
    assert held["average of checkpoints"] > 3 * held["weights"]
    assert held["optimizer"] == pytest.approx(8 * vocabulary * d + 4 * (12 * d * d + 4 * d * f), rel=0.03)
    assert held["moving average"] == held["weights"]
