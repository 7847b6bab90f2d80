"""The rehearsal allocates what the real thing allocates."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from tests.plan.allocations import most_allocated
from torch.utils.flop_counter import FlopCounterMode

from pellucid.config import DecodeConfig, ModelConfig, RunConfig, TrainConfig
from pellucid.data.sample import corpus_of
from pellucid.kernels.compiled import use_kernels
from pellucid.plan.learner import blank, learner_of, model_of
from pellucid.plan.memory import (
    Operations,
    largest_shapes,
    rehearse_average,
    rehearse_decoding,
    rehearse_operations,
    rehearse_updates,
)
from pellucid.plan.rehearsal import rehearsal
from pellucid.plan.workload import Shape, Workload
from pellucid.train.update import update

SMALL = ModelConfig(d_model=64, n_heads=4, d_ff=96, encoder_layers=2, decoder_layers=1, max_length=128)
SHAPE = Shape(12, 24, 20)


def workload(classes: int = 0, words: int = 300) -> Workload:
    rows = [np.full(10, 5), np.full(20, 6)]
    targets = [np.full(1, 1) if classes else row for row in rows]
    return Workload(corpus_of(rows, targets), 2, words, words, not classes, classes, ())


def config_of(train: dict[str, Any] | None = None, classes: int = 0, **model: Any) -> RunConfig:
    return RunConfig(task="classification" if classes else "seq2seq", model=replace(SMALL, **model),
                     train=replace(TrainConfig(), **(train or {})), decode=DecodeConfig(beam_size=3))


def test_bytes_by_hand() -> None:
    with rehearsal(compiled=False) as ledger:
        with ledger.holding("weights"):
            weight = torch.empty(100, 50)
        x = torch.empty(7, 100)
        y = x @ weight
        view = y[:3]
        del y
        assert view.shape == (3, 50)
        del view
        doubled = weight + weight
        assert sum(size for _, size in ledger.events) == 4 * (2 * 5000 + 700)
        del x, doubled
    assert ledger.peak(0) == {"weights": 20_000, "activations": 20_000 + 2800}
    assert len(ledger.products) == 1


def test_nothing_is_computed_and_numbers_can_be_asked_for() -> None:
    with rehearsal(compiled=True):
        huge = torch.empty(1_000_000, 1_000_000)  # four terabytes
        assert (huge.sum().item(), int(huge.argmax()), bool((huge > 0).any())) == (1.0, 1, True)


@pytest.mark.parametrize(("model", "train", "classes"), [
    ({}, {}, 0), ({"tie_embeddings": False}, {}, 0), ({"position": "t5", "norm": "rmsnorm"}, {}, 0),
    ({"position": "rotary", "feed_forward": "swiglu", "residual": "post"}, {}, 0), ({"attention": "linear"}, {}, 0),
    ({"dropout": 0.0}, {"r_drop": 1.0}, 0), ({"pooling": "max"}, {}, 3)])
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_an_update_allocates_what_its_rehearsal_says(model: dict[str, Any], train: dict[str, Any], classes: int,
                                                     precision: str, either_way: str) -> None:
    config, shape = config_of(train, classes, **model), Shape(SHAPE.sentences, SHAPE.source, 1) if classes else SHAPE
    learner = learner_of(config, model_of(config, workload(classes)), [blank(shape)], precision)
    update(learner)  # the optimizer's state
    real = most_allocated(lambda: update(learner))
    [(held, _)] = rehearse_updates(config, workload(classes), [shape], precision, either_way == "compiled")
    parameters = sum(p.numel() for p in learner.model.parameters())
    assert held["weights"] == 4 * parameters
    assert held["optimizer"] == pytest.approx(8 * parameters, rel=0.01)
    beside = sum(held.values()) - held["weights"] - held["optimizer"]
    assert beside == pytest.approx(real, rel=0.1)


def test_a_larger_batch_takes_more_and_the_rest_stays() -> None:
    shapes = [SHAPE._replace(sentences=n) for n in (20, 40)]
    small, large = (held for held, _ in rehearse_updates(config_of(), workload(), shapes, "bf16", True))
    assert large["activations"] > 1.8 * small["activations"]
    assert {key: small[key] for key in ("weights", "optimizer")} == {
        key: large[key] for key in ("weights", "optimizer")}


def test_micro_batches_keep_gradients_and_an_average_keeps_weights() -> None:
    plain, both = (rehearse_updates(config_of(train), workload(), [SHAPE], "fp32", False)[0][0]
                   for train in ({}, {"accumulate": 3, "ema_decay": 0.9}))
    assert both["moving average"] == plain["weights"]
    assert both["gradients"] > plain.get("gradients", 0)


def test_averaging_holds_fp64_sums() -> None:
    held = rehearse_average(config_of(), workload())
    assert held["average of checkpoints"] >= 3 * held["weights"]


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("at_once", [1, 3])
def test_the_cache_of_a_search_grows_with_its_length(compiled: bool, at_once: int) -> None:
    short, long = (rehearse_decoding(config_of(), workload(), Shape(60, 10, steps), "fp32", compiled, compiled, at_once)
                   for steps in (10, 40))
    rows, keys_and_values = 60 * 3 * (at_once if compiled else 1), 2 * SMALL.d_model * 4
    assert long["cache"] - short["cache"] >= 30 * rows * keys_and_values
    assert long["weights"] == short["weights"]
    assert ("packed weights" in long) == compiled


@pytest.mark.usefixtures("compiled_kernels")
@pytest.mark.parametrize("precision", ["fp32", "bf16", "int8"])
def test_the_engine_allocates_what_its_rehearsal_says(precision: str) -> None:
    """Weights, keys and values by hand; and as much in a real search as in the rehearsed one."""
    shape, beam = Shape(60, 10, 40), 3
    config = config_of()
    held = rehearse_decoding(config, workload(), shape, precision, True, True, 1)
    matrices = sum(p.numel() for p in model_of(config_of(), workload()).parameters() if p.dim() == 2)
    width = {"fp32": 4, "bf16": 2, "int8": 1}[precision]
    assert held["packed weights"] >= matrices * width
    cached = (shape.sentences * shape.source + shape.sentences * beam * shape.target) * 2 * SMALL.d_model
    assert held["cache"] >= cached * (4 if precision == "fp32" else 2)
    assert "logits" not in held  # ranked part by part, all steps in one call
    by_steps = replace(config, decode=replace(config.decode, no_repeat_ngram=2))
    held = rehearse_decoding(by_steps, workload(), shape, precision, True, True, 1)
    assert held["logits"] == shape.sentences * beam * 300 * 4


def test_operations_by_hand() -> None:
    """A classifier of one layer: every product 2·rows·inner·columns, and twice that in the backward pass."""
    config = config_of(classes=3, encoder_layers=1)
    d, f, length = SMALL.d_model, SMALL.d_ff, 15
    layer = 2 * length * (d * 3 * d + d * d + 2 * d * f) + 2 * 2 * length * length * d
    head = 2 * (d * d + d * 3)
    token, step = rehearse_operations(config, workload(classes=3))
    assert token * (length + 1) == pytest.approx(3 * (layer + head), rel=0.01)  # the label is a token
    assert step == 0


def test_operations_are_those_that_torch_counts() -> None:
    for train in ({}, {"r_drop": 5.0}, {"optimizer": "muon", "r_drop": 1.0}):
        shape, config = Shape(2, 15, 15), config_of(train, position="transformer_xl")
        with rehearsal(compiled=False):
            learner = learner_of(config, model_of(config, workload()), [blank(shape)], "bf16")
            with FlopCounterMode(display=False) as counted:
                update(learner)
        assert rehearse_operations(config, workload()).of_update(2 * 30) == counted.get_total_flops()


def test_a_step_of_muon_is_counted_once_an_update() -> None:
    """Five times X Xᵀ, its square, and their product with X, for each matrix of a layer; of the tokens, the rest."""
    muon, adam = (rehearse_operations(config_of({"optimizer": name}, classes=3, encoder_layers=1), workload(classes=3))
                  for name in ("muon", "adamw"))
    d, f = SMALL.d_model, SMALL.d_ff
    square, wide = 2 * (3 * d**3), 2 * (2 * d * d * f + d**3)
    assert muon == Operations(adam.token, 5 * (4 * square + 2 * wide))
    assert muon.of_update(1000) == 1000 * adam.token + muon.step


def test_the_batches_that_may_take_most() -> None:
    many, long, both = Shape(100, 10, 10), Shape(10, 90, 90), Shape(3, 20, 20)
    assert largest_shapes([many, long, both], (2, 2)) == [long, many]


def test_the_kernels_are_as_before_afterwards() -> None:
    state = use_kernels(torch.device("cpu"))
    from pellucid.kernels import calls

    before = dict(calls._functions)
    with rehearsal(compiled=True):
        assert calls.serve(torch.empty(2))
    assert dict(calls._functions) == before
    assert (state == "compiled") == bool(before)
    use_kernels(torch.device("cpu"), False)


def test_products_of_transposed_matrices_are_others() -> None:
    with rehearsal(compiled=False) as ledger:
        x, y = torch.empty(2, 5, 3), torch.empty(2, 5, 7)
        torch.bmm(x.mT, y), torch.bmm(y.mT, x), torch.bmm(x, torch.empty(2, 3, 7))
    assert ledger.products == {("bmm tn", ((2, 3, 5), (2, 5, 7))), ("bmm tn", ((2, 7, 5), (2, 5, 3))),
                               ("bmm nn", ((2, 5, 3), (2, 3, 7)))}
