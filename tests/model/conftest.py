"""What the tests of the assembled models share: small models of every kind, and batches for them."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from pellucid.config import ModelConfig
from pellucid.model.build import ATTENTIONS, POSITIONS, check

SMALL = ModelConfig(d_model=12, n_heads=3, d_ff=20, encoder_layers=2, decoder_layers=2, dropout=0.0, window=2,
                    max_length=40)


def allowed(**options: Any) -> bool:
    """Whether parts go together."""
    try:
        check(ModelConfig(d_model=12, n_heads=3, **options))
    except ValueError:
        return False
    return True


COMBINATIONS = [(p, a) for p, a in product(POSITIONS, ATTENTIONS) if allowed(position=p, attention=a)]


@pytest.fixture(scope="module", params=[torch.float32, torch.float64], ids=["fp32", "fp64"])
def dtype(request: pytest.FixtureRequest) -> torch.dtype:
    """Every truth holds in both precisions."""
    return request.param


@pytest.fixture(params=COMBINATIONS, ids=lambda pair: "-".join(pair))
def combination(request: pytest.FixtureRequest) -> dict[str, str]:
    """Every position with every attention that it goes with."""
    return dict(zip(("position", "attention"), request.param, strict=True))


@pytest.fixture(scope="session")
def small() -> ModelConfig:
    """A configuration that builds in a millisecond."""
    return SMALL


@pytest.fixture(scope="session")
def close() -> Callable[..., None]:
    """Asserts that two tensors are equal up to the rounding of their own dtype (or a looser `tolerance`)."""

    def check_close(actual: Tensor, expected: Tensor, tolerance: float = 0.0) -> None:
        tolerance = max(tolerance, 5e-5 if actual.dtype == torch.float32 else 1e-10)
        torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance)

    return check_close


@pytest.fixture(scope="session")
def randomize() -> Callable[[nn.Module], nn.Module]:
    """Moves every parameter off its starting value, so that gains and biases show where they are missing."""

    def move(module: nn.Module) -> nn.Module:
        with torch.no_grad():
            for parameter in module.parameters():
                parameter.add_(0.2 * torch.randn_like(parameter) + 0.05)
        return module

    return move


@pytest.fixture(autouse=True, scope="module")
def kernels_either_way(either_way: str) -> str:
    """Every test of this folder runs with the plain equations and with the compiled kernels."""
    return either_way
