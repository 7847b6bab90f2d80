"""The feed-forward layers: their equations by hand, and parameter counts that match across variants."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from pellucid.nn.feed_forward import ACTIVATIONS, FeedForward, GatedFeedForward

Close = Callable[..., None]
Randomize = Callable[[nn.Module], nn.Module]

EQUATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": lambda x: x.clamp(min=0),
    "gelu": lambda x: x * 0.5 * (1 + torch.erf(x / math.sqrt(2))),
    "gelu_tanh": lambda x: x * 0.5 * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "swish": lambda x: x / (1 + (-x).exp()),
}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations_are_their_equations(name: str, dtype: torch.dtype, close: Close) -> None:
    x = torch.linspace(-5, 5, 41, dtype=dtype)
    close(ACTIVATIONS[name](x), EQUATIONS[name](x))


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_equation_2(name: str, dtype: torch.dtype, close: Close, randomize: Randomize) -> None:
    layer = randomize(FeedForward(4, 9, ACTIVATIONS[name], 0.0).to(dtype))
    x = torch.randn(2, 3, 4, dtype=dtype)
    inner, outer = layer.inner, layer.outer
    close(layer(x), EQUATIONS[name](x @ inner.weight.T + inner.bias) @ outer.weight.T + outer.bias)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_the_gated_equation(name: str, dtype: torch.dtype, close: Close, randomize: Randomize) -> None:
    layer = randomize(GatedFeedForward(4, 9, ACTIVATIONS[name], 0.0).to(dtype))
    assert layer.inner.weight.shape == layer.gate.weight.shape == (6, 4)
    x = torch.randn(2, 3, 4, dtype=dtype)
    gate = EQUATIONS[name](x @ layer.gate.weight.T + layer.gate.bias)
    inner = x @ layer.inner.weight.T + layer.inner.bias
    close(layer(x), (gate * inner) @ layer.outer.weight.T + layer.outer.bias)


@pytest.mark.parametrize(("d_model", "d_ff"), [(64, 256), (256, 1024), (512, 2048), (128, 500)])
def test_variants_have_matched_parameter_counts(d_model: int, d_ff: int) -> None:
    plain = sum(p.numel() for p in FeedForward(d_model, d_ff, ACTIVATIONS["relu"], 0.0).parameters())
    gated = sum(p.numel() for p in GatedFeedForward(d_model, d_ff, ACTIVATIONS["swish"], 0.0).parameters())
    assert gated == pytest.approx(plain, rel=0.01)


def test_each_position_is_transformed_alone(dtype: torch.dtype, close: Close) -> None:
    layer, x = FeedForward(4, 9, ACTIVATIONS["gelu"], 0.0).to(dtype), torch.randn(2, 3, 4, dtype=dtype)
    close(layer(x)[1, 2], layer(x[1:, 2:])[0, 0])


@pytest.mark.parametrize("layer_class", [FeedForward, GatedFeedForward])
def test_dropout_falls_on_the_inner_features(layer_class: type[nn.Module], close: Close) -> None:
    layer = layer_class(3, 6, ACTIVATIONS["gelu"], 0.5)
    width = layer.inner.out_features
    layer.outer = nn.Identity()
    x = torch.randn(1, 400, 3)
    dropped = layer(x)
    whole = layer.eval()(x)
    assert dropped.shape == (1, 400, width)
    zero = dropped == 0
    assert 0.4 < zero.float().mean() < 0.6
    close(dropped[~zero], 2 * whole[~zero])
