"""Gradients of gradients: those of the equations, in float64, and no wrong ones from what is computed fast."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from tests.seeds import reseed
from torch import Tensor

from pellucid.config import ModelConfig
from pellucid.kernels.chosen_rows import chosen_rows
from pellucid.model.build import build
from pellucid.nn.attention_pattern import AttentionPattern
from pellucid.nn.cross_entropy import linear_cross_entropy
from pellucid.nn.dropout import Dropout
from pellucid.nn.layer_norm import LayerNorm
from pellucid.nn.positional_encoding import RotaryPosition
from pellucid.nn.r_drop import linear_r_drop
from pellucid.nn.scaled_dot_product_attention import ScaledDotProductAttention

pytestmark = pytest.mark.usefixtures("compiled_kernels")

TARGETS = torch.tensor([1, 0, 5])


def attend(x: Tensor) -> Tensor:
    """[2, T, 8] as one sentence's queries, keys and values of two heads."""
    places = torch.arange(x.shape[1])
    return ScaledDotProductAttention()(x[None], x[None] * 2, x[None].sin(), AttentionPattern(places, places), None)


def norm(x: Tensor) -> Tensor:
    return LayerNorm(8).to(x.dtype)(x)


def turn(x: Tensor) -> Tensor:
    return RotaryPosition(8).rotate(x[None], torch.arange(x.shape[1])) ** 2


def drop(x: Tensor) -> Tensor:
    reseed(3)
    return Dropout(0.5)(x) ** 2


def add(x: Tensor) -> Tensor:
    reseed(3)
    return Dropout(0.5).add(x, x * 2) ** 2


def loss(x: Tensor) -> Tensor:
    return linear_cross_entropy(x[0], x[1].repeat(2, 1), TARGETS, 0.1)


def loss_of_two(x: Tensor) -> Tensor:
    return linear_r_drop(x, x[1].repeat(2, 1), TARGETS, 0.1, 1.0)


FUNCTIONS: list[Callable[[Tensor], Tensor]] = [attend, norm, turn, drop, add, loss, loss_of_two]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_what_is_computed_fast_refuses_them(function: Callable[[Tensor], Tensor]) -> None:
    x = torch.randn(2, 3, 8, requires_grad=True)
    value = function(x).sum()
    with pytest.raises(RuntimeError, match=r"no gradients of gradients .* float64"):
        torch.autograd.grad(value, x, create_graph=True)
    (gradient,) = torch.autograd.grad(function(x).sum(), x)
    assert gradient.isfinite().all()


def test_the_attention_of_long_sequences_refuses_them() -> None:
    x = torch.randn(2, 70, 8).bfloat16().requires_grad_()
    with pytest.raises(RuntimeError, match="no gradients of gradients"):
        torch.autograd.grad(attend(x).sum(), x, create_graph=True)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_the_equations_have_them(function: Callable[[Tensor], Tensor]) -> None:
    torch.autograd.gradgradcheck(function, torch.randn(2, 3, 8, dtype=torch.float64, requires_grad=True))


def test_chosen_rows_have_them() -> None:
    chosen = torch.tensor([True, False, True])
    x = torch.randn(3, 2, dtype=torch.float64, requires_grad=True)
    torch.autograd.gradgradcheck(lambda x: chosen_rows(x, chosen.nonzero()[:, 0], chosen) ** 3, x)


def test_a_part_of_a_model_is_never_left_out_of_them() -> None:
    """By inputs that are named, torch leaves out whatever says only in its own turn that it has none."""
    config = ModelConfig(d_model=32, n_heads=4, d_ff=32, encoder_layers=1, decoder_layers=1, dropout=0.0)
    model = build(config, 20, 20)
    source, target = torch.randint(4, 20, (3, 9)), torch.randint(4, 20, (3, 7))
    with pytest.raises(RuntimeError, match="no gradients of gradients"):
        torch.autograd.grad(model(source, target).square().mean(), model.output.weight, create_graph=True)
