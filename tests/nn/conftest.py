"""What the tests of the equations share."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

Close = Callable[..., None]


@pytest.fixture(scope="module", params=[torch.float32, torch.float64], ids=["fp32", "fp64"])
def dtype(request: pytest.FixtureRequest) -> torch.dtype:
    """Every equation holds in both precisions."""
    return request.param


@pytest.fixture(scope="module")
def close() -> Close:
    """Asserts that two tensors are equal up to the rounding of their own dtype (or a looser `tolerance`)."""

    def check(actual: Tensor, expected: Tensor, tolerance: float = 0.0) -> None:
        tolerance = max(tolerance, 2e-5 if actual.dtype == torch.float32 else 1e-11)
        torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance)

    return check


@pytest.fixture(scope="module")
def randomize() -> Callable[[nn.Module], nn.Module]:
    """Gives every parameter, gains and biases too, a value that would show if it were missing."""

    def fill(module: nn.Module) -> nn.Module:
        with torch.no_grad():
            for parameter in module.parameters():
                parameter.normal_(0.1, 0.4)
        return module

    return fill


@pytest.fixture(autouse=True, scope="module")
def kernels_either_way(either_way: str) -> str:
    """Every test of this folder runs with the plain equations and with the compiled kernels."""
    return either_way
