"""The residual connections: each equation, where dropout falls, and DeepNorm's scales as published."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from pellucid.nn.layer_norm import LayerNorm, NoNorm
from pellucid.nn.residual_connection import (
    NoResidual,
    PostNormResidual,
    PreNormResidual,
    deepnorm_decoder,
    deepnorm_encoder,
)

Close = Callable[..., None]
Randomize = Callable[[nn.Module], nn.Module]


def f(x: Tensor) -> Tensor:
    """A sub-layer that is not linear, not odd and not a function of one feature."""
    return (x.flip(-1) * 2 + 1).tanh() * 3


@pytest.fixture
def norm(dtype: torch.dtype, randomize: Randomize) -> nn.Module:
    return randomize(LayerNorm(6).to(dtype))


@pytest.fixture
def x(dtype: torch.dtype) -> Tensor:
    return torch.randn(2, 3, 6, dtype=dtype)


def test_post_norm(norm: nn.Module, x: Tensor, close: Close) -> None:
    close(PostNormResidual(norm, 0.0)(x, f), norm(x + f(x)))


def test_pre_norm(norm: nn.Module, x: Tensor, close: Close) -> None:
    close(PreNormResidual(norm, 0.0)(x, f), x + f(norm(x)))


def test_deep_norm(norm: nn.Module, x: Tensor, close: Close) -> None:
    close(PostNormResidual(norm, 0.0, alpha=1.7)(x, f), norm(1.7 * x + f(x)))


def test_none(norm: nn.Module, x: Tensor, close: Close) -> None:
    close(NoResidual(norm, 0.0)(x, f), norm(f(x)))


def test_only_pre_norm_leaves_the_stream_to_be_closed() -> None:
    assert PreNormResidual.needs_closing_norm
    assert not PostNormResidual.needs_closing_norm
    assert not NoResidual.needs_closing_norm


@pytest.mark.parametrize(("residual_class", "stream"), [(PostNormResidual, 1), (PreNormResidual, 1), (NoResidual, 0)])
def test_dropout_falls_on_what_the_sub_layer_gives(residual_class: Callable[[nn.Module, float], nn.Module],
                                                   stream: int) -> None:
    torch.manual_seed(3)
    x = torch.randn(2, 50, 6, dtype=torch.float64)
    residual = residual_class(NoNorm(6), 0.25)
    added = residual(x, f) - stream * x
    dropped = added.abs() < 1e-12
    assert 0.15 < dropped.double().mean() < 0.35
    torch.testing.assert_close(added[~dropped], (f(x) / 0.75)[~dropped])


def test_deepnorm_scales_are_those_of_figure_2() -> None:
    """Wang et al. 2022, figure 2, for 6 encoder and 6 decoder layers: α, β worked out by hand."""
    # Encoder: 0.81·(6⁴·6)^(1/16) and 0.87·(6⁴·6)^(-1/16), with 7776^(1/16) = 1.750541.
    assert deepnorm_encoder(6, 6) == pytest.approx((1.417938, 0.496989), abs=2e-6)
    # Decoder: 18^(1/4) and 72^(-1/4).
    assert deepnorm_decoder(6) == pytest.approx((2.059767, 0.343295), abs=2e-6)


def test_deepnorm_scales_of_an_encoder_alone() -> None:
    """(2N)^(1/4) and (8N)^(-1/4): for two layers √2 and ½."""
    assert deepnorm_encoder(2, 0) == (pytest.approx(2**0.5), pytest.approx(0.5))
