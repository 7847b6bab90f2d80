"""Adam and AdamW against the equations of their papers, written out."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import nn

from pellucid.config import ModelConfig, TrainConfig
from pellucid.model.build import build
from pellucid.train.optimizer import (
    clip_gradients,
    load_optimizer_state,
    make_optimizer,
    optimizer_state,
    scale_gradients,
    set_learning_rate,
)

B1, B2, EPS, DECAY = 0.8, 0.95, 1e-6, 0.1


def model_of(seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4), nn.Linear(4, 2))


def step(model: nn.Module, optimizer: Any, number: int) -> None:
    torch.manual_seed(100 + number)
    model(torch.randn(5, 3)).pow(2).sum().backward()
    set_learning_rate(optimizer, 0.01 * number)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)


def by_hand(kind: str, weight_decay: float, steps: int) -> list[torch.Tensor]:
    """m ← β₁m + (1-β₁)g, v ← β₂v + (1-β₂)g², θ ← θ - η m̂/(√v̂ + ε); decay on matrices, in g or (AdamW) beside it."""
    model = model_of()
    parameters = list(model.parameters())
    m = [torch.zeros_like(p) for p in parameters]
    v = [torch.zeros_like(p) for p in parameters]
    for number in range(1, steps + 1):
        torch.manual_seed(100 + number)
        gradients = torch.autograd.grad(model(torch.randn(5, 3)).pow(2).sum(), parameters)
        rate = 0.01 * number
        with torch.no_grad():
            for i, (p, g) in enumerate(zip(parameters, gradients, strict=True)):
                decay = weight_decay if p.dim() > 1 else 0.0
                if kind == "adam":
                    g = g + decay * p
                else:
                    p.mul_(1 - rate * decay)
                m[i] = B1 * m[i] + (1 - B1) * g
                v[i] = B2 * v[i] + (1 - B2) * g**2
                p -= rate * (m[i] / (1 - B1**number)) / ((v[i] / (1 - B2**number)).sqrt() + EPS)
    return parameters


def config(kind: Any, weight_decay: float = 0.0) -> TrainConfig:
    return TrainConfig(optimizer=kind, betas=(B1, B2), epsilon=EPS, weight_decay=weight_decay)


@pytest.mark.parametrize("kind", ["adam", "adamw"])
@pytest.mark.parametrize("weight_decay", [0.0, DECAY])
def test_it_is_the_plain_equation(kind: str, weight_decay: float) -> None:
    model = model_of()
    optimizer = make_optimizer(model, config(kind, weight_decay))
    for number in range(1, 7):
        step(model, optimizer, number)
    for p, expected in zip(model.parameters(), by_hand(kind, weight_decay, 6), strict=True):
        torch.testing.assert_close(p, expected, rtol=2e-5, atol=2e-6)


def test_nothing_moves_before_a_rate_is_set() -> None:
    model = model_of()
    optimizer = make_optimizer(model, config("adamw", DECAY))
    model(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    assert all(torch.equal(p, before) for p, before in zip(model.parameters(), model_of().parameters(), strict=True))


@pytest.mark.parametrize("kind", ["adam", "adamw", "muon"])
def test_what_has_no_gradient_stays_though_all_of_a_rule_have_none(kind: str) -> None:
    model, start = (build(ModelConfig(d_model=8, n_heads=2, d_ff=16, encoder_layers=1, decoder_layers=1), 9, 9)
                    for _ in range(2))
    optimizer = make_optimizer(model, config(kind, DECAY))
    set_learning_rate(optimizer, 0.1)
    model.source_embedding.weight.grad = torch.ones_like(model.source_embedding.weight)
    optimizer.step()
    before = dict(start.named_parameters())
    moved = {name for name, p in model.named_parameters() if not torch.equal(p, before[name])}
    assert moved == {"source_embedding.weight"}


def test_weight_decay_spares_vectors_and_no_parameter_is_forgotten() -> None:
    model = model_of()
    groups = make_optimizer(model, config("adamw", DECAY)).param_groups
    for group in groups:
        for p in group["params"]:
            assert group["weight_decay"] == (DECAY if p.dim() > 1 else 0.0)
    assert {id(p) for group in groups for p in group["params"]} == {id(p) for p in model.parameters()}


@pytest.mark.parametrize("kind", ["adam", "adamw"])
def test_its_state_comes_back_bit_for_bit(kind: str) -> None:
    one, other = model_of(), model_of(seed=1)
    a, b = (make_optimizer(model, config(kind, DECAY)) for model in (one, other))
    for number in range(1, 4):
        step(one, a, number)
    state = {name: tensor.clone() for name, tensor in optimizer_state(one, a).items()}
    assert {name.split(".", 1)[0] for name in state} == {"step", "exp_avg", "exp_avg_sq"}
    other.load_state_dict(one.state_dict())
    load_optimizer_state(other, b, state)
    for number in range(4, 7):
        step(one, a, number)
        step(other, b, number)
    assert all(torch.equal(p, q) for p, q in zip(one.parameters(), other.parameters(), strict=True))
    assert all(torch.equal(t, optimizer_state(other, b)[name]) for name, t in optimizer_state(one, a).items())


def test_the_state_of_a_parameter_that_had_no_gradient_comes_back_too() -> None:
    model = model_of()
    model[1].weight.requires_grad_(False)
    optimizer = make_optimizer(model, config("adamw", DECAY))
    before = model[1].weight.clone()
    step(model, optimizer, 1)
    other = make_optimizer(model, config("adamw", DECAY))
    load_optimizer_state(model, other, optimizer_state(model, optimizer))
    assert torch.equal(model[1].weight, before)
    model[1].weight.requires_grad_(True)
    step(model, other, 2)
    assert not torch.equal(model[1].weight, before)
    assert optimizer_state(model, other)["step.1.weight"] == 1  # its first


@pytest.mark.parametrize("key", ["step.0.weight", "exp_avg.2.bias", "exp_avg_sq.2.bias"])
@pytest.mark.parametrize("kind", ["missing", "of another shape"])
def test_a_state_that_does_not_fit_is_told_and_nothing_of_it_is_taken(kind: str, key: str) -> None:
    model = model_of()
    optimizer = make_optimizer(model, config("adamw"))
    step(model, optimizer, 1)
    state = {name: tensor + 1 for name, tensor in optimizer_state(model, optimizer).items()}
    before = {name: tensor.clone() for name, tensor in optimizer_state(model, optimizer).items()}
    if kind == "missing":
        del state[key]
    else:
        state[key] = torch.zeros(7)
    with pytest.raises(KeyError, match=key):
        load_optimizer_state(model, optimizer, state)
    assert all(torch.equal(tensor, before[name]) for name, tensor in optimizer_state(model, optimizer).items())


def test_its_state_comes_back_where_the_weights_are() -> None:
    model = model_of()
    optimizer = make_optimizer(model, config("adamw"))
    step(model, optimizer, 1)
    elsewhere = model_of().to("meta")  # stands for a GPU: a file is read on the CPU
    other = make_optimizer(elsewhere, config("adamw"))
    load_optimizer_state(elsewhere, other, optimizer_state(model, optimizer))
    assert {tensor.device.type for state in other.state.values() for tensor in state.values()} == {"meta"}


@pytest.mark.parametrize("most", [0.5, 50.0, math.inf])
def test_gradients_are_clipped_and_scaled_to_the_most_that_is_allowed_and_never_grow(most: float) -> None:
    """They are (6, 8): 10 long."""
    clipped, scaled = ([nn.Parameter(torch.zeros(1)) for _ in range(2)] for _ in range(2))
    for parameters in (clipped, scaled):
        for parameter, number in zip(parameters, (6.0, 8.0), strict=True):
            parameter.grad = torch.full((1,), number)
    assert clip_gradients(clipped, most).item() == pytest.approx(10)
    scale_gradients(scaled, 10.0, most)
    kept = min(1.0, most / 10)
    for parameters in (clipped, scaled):
        found = [float(parameter.grad) for parameter in parameters if parameter.grad is not None]
        assert found == pytest.approx([6 * kept, 8 * kept], rel=1e-5)
