"""Muon against its equations, against the singular value decomposition it does without, and against torch's."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.seeds import generator
from torch import Tensor, nn

from pellucid.config import ModelConfig, TrainConfig
from pellucid.model.build import build, build_classifier
from pellucid.train.muon import COEFFICIENTS, ITERATIONS, muon, orthogonal
from pellucid.train.optimizer import make_optimizer, optimizer_state, set_learning_rate

SHAPES = [(3, 3), (2, 5), (5, 2), (5, 2), (1, 4)]


def matrices(seed: int) -> list[Tensor]:
    random = generator(seed)
    return [torch.randn(shape, generator=random) for shape in SHAPES]


def on_values(sigma: Tensor) -> Tensor:
    """What the iterations make of each singular value."""
    a, b, c = COEFFICIENTS
    for _ in range(ITERATIONS):
        sigma = a * sigma + b * sigma**3 + c * sigma**5
    return sigma


@settings(deadline=None, max_examples=30)
@given(rows=st.integers(1, 6), more=st.integers(0, 4), seed=st.integers(0, 99), scale=st.sampled_from([1e-4, 1.0, 1e3]))
def test_products_alone_change_the_singular_values_and_nothing_else(rows: int, more: int, seed: int,
                                                                    scale: float) -> None:
    x = scale * torch.randn(1, rows, rows + more, generator=generator(seed), dtype=torch.float64)
    u, sigma, v = torch.linalg.svd(x[0], full_matrices=False)
    expected = u @ torch.diag(on_values(sigma / sigma.norm())) @ v
    torch.testing.assert_close(orthogonal(x, "fp32")[0], expected, rtol=0, atol=1e-9)


def test_singular_values_become_nearly_one_and_those_of_nothing_stay() -> None:
    found = on_values(torch.linspace(0.01, 1, 10_000, dtype=torch.float64))
    assert found.min() > 0.65
    assert found.max() < 1.21
    assert orthogonal(torch.zeros(1, 2, 3), "fp32").abs().max() == 0
    assert [orthogonal(torch.ones(1, 2, 3), kind).dtype for kind in ("fp32", "bf16")] == [torch.float32, torch.bfloat16]


def test_a_matrix_is_moved_as_its_transpose_and_each_by_itself() -> None:
    weights = matrices(0)
    turned = [w.T.clone() for w in weights]
    for number in range(1, 4):
        gradients = matrices(number)
        muon(weights, gradients, [torch.zeros_like(w) for w in weights], 0.1, 0.0, 0.9, "fp32")
        for other, gradient in zip(turned, gradients, strict=True):
            muon([other], [gradient.T], [torch.zeros_like(other)], 0.1, 0.0, 0.9, "fp32")
    for one, other in zip(weights, turned, strict=True):
        torch.testing.assert_close(one, other.T)


def test_it_is_the_equation_of_its_docstring() -> None:
    weights, momenta = matrices(0), [torch.zeros(shape) for shape in SHAPES]
    expected, moment = matrices(0), [torch.zeros(shape) for shape in SHAPES]
    for number in range(1, 5):
        gradients, rate = matrices(number), 0.1 * number
        muon(weights, gradients, momenta, rate, 0.3, 0.9, "fp32")
        for i, g in enumerate(gradients):
            moment[i] = 0.9 * moment[i] + 0.1 * g
            u, sigma, v = torch.linalg.svd(0.9 * moment[i] + 0.1 * g, full_matrices=False)
            step = u @ torch.diag(on_values(sigma / sigma.norm())) @ v
            expected[i] = (1 - rate * 0.3) * expected[i] - rate * 0.2 * math.sqrt(max(g.shape)) * step
    for one, other in zip(weights + momenta, expected + moment, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_it_is_torchs(precision: str) -> None:
    """Which always multiplies in bf16: within its rounding of a step."""
    ours, theirs = matrices(0), [nn.Parameter(w) for w in matrices(0)]
    momenta = [torch.zeros_like(w) for w in ours]
    other = torch.optim.Muon(theirs, lr=0.1, weight_decay=0.3, momentum=0.95, adjust_lr_fn="match_rms_adamw")
    for number in range(1, 6):
        for parameter, gradient in zip(theirs, matrices(number), strict=True):
            parameter.grad = gradient
        other.step()
        muon(ours, matrices(number), momenta, 0.1, 0.3, 0.95, precision)
    for mine, parameter, start in zip(ours, theirs, matrices(0), strict=True):
        assert (mine - parameter).norm() < 0.02 * (parameter - start).norm()


def test_the_projections_of_the_layers_are_moved_by_it_and_all_else_by_adam() -> None:
    model = build(ModelConfig(d_model=8, n_heads=2, d_ff=16, encoder_layers=1, decoder_layers=1, position="t5"), 9, 9)
    optimizer = make_optimizer(model, TrainConfig(optimizer="muon", weight_decay=0.1))
    names = {parameter: name for name, parameter in model.named_parameters()}
    by = {group["rule"]: set[str]() for group in optimizer.param_groups}
    for group in optimizer.param_groups:
        by[group["rule"]] |= {names[p] for p in group["params"]}
        assert all(group["weight_decay"] == (0.1 if p.dim() > 1 else 0.0) for p in group["params"])
    assert by["adam"] | by["muon"] == set(names.values())
    assert not by["adam"] & by["muon"]
    words = ("query", "key", "value", "output", "inner", "outer")
    assert by["muon"] == {name for name in names.values()
                          if name.split(".")[-2] in words and ".layers." in name and name.endswith("weight")}
    head = build_classifier(ModelConfig(d_model=8, n_heads=2, d_ff=16, encoder_layers=1), 9, 2)
    muon_of_head = make_optimizer(head, TrainConfig(optimizer="muon")).param_groups[-1]
    assert len(muon_of_head["params"]) == 6


def test_the_optimizer_moves_them_so() -> None:
    model = build(ModelConfig(d_model=8, n_heads=2, d_ff=16, encoder_layers=1, decoder_layers=1), 9, 9)
    optimizer = make_optimizer(model, TrainConfig(optimizer="muon", weight_decay=0.1, precision="fp32"))
    mine, theirs = ([p for group in optimizer.param_groups if (group["rule"] == "muon") == is_muons
                     for p in group["params"]] for is_muons in (True, False))
    weights, momenta = [p.detach().clone() for p in mine], [torch.zeros_like(p) for p in mine]
    others = [nn.Parameter(p.detach().clone()) for p in theirs]
    adam = torch.optim.AdamW([{"params": [p for p in others if p.dim() > 1], "weight_decay": 0.1},
                              {"params": [p for p in others if p.dim() == 1], "weight_decay": 0.0}],
                             betas=TrainConfig().betas, eps=TrainConfig().epsilon)
    for number in range(1, 4):
        for parameter in [*mine, *theirs]:
            parameter.grad = torch.randn(parameter.shape, generator=generator(number))
        for parameter, other in zip(theirs, others, strict=True):
            other.grad = parameter.grad
        for each in (optimizer, adam):
            set_learning_rate(each, 0.01 * number)
            each.step()
        muon(weights, [p.grad for p in mine if p.grad is not None], momenta, 0.01 * number, 0.1, 0.95, "fp32")
    for parameter, expected in zip([*mine, *theirs], [*weights, *others], strict=True):
        torch.testing.assert_close(parameter, expected)


def test_a_rate_of_nothing_moves_nothing_and_states_are_named() -> None:
    model = build(ModelConfig(d_model=8, n_heads=2, d_ff=16, encoder_layers=1, decoder_layers=1), 9, 9)
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    optimizer = make_optimizer(model, TrainConfig(optimizer="muon", weight_decay=0.1))
    source = torch.tensor([[4, 5, 3]])
    model(source, source).pow(2).sum().backward()
    set_learning_rate(optimizer, 0.0)
    optimizer.step()
    assert all(torch.equal(p, before[name]) for name, p in model.named_parameters())
    kept = optimizer_state(model, optimizer)
    assert "momentum_buffer.encoder.layers.0.feed_forward.inner.weight" in kept
    assert "exp_avg.source_embedding.weight" in kept
    assert "exp_avg.encoder.layers.0.feed_forward.inner.weight" not in kept
