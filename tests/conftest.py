"""What all tests share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """These matrices are tiny: threads would only wait for each other."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(autouse=True)
def seeded() -> None:
    """Each test draws the same numbers, whichever tests run before it."""
    import torch

    torch.manual_seed(0)


@pytest.fixture(scope="module", params=["plain", "compiled"])
def either_way(request: pytest.FixtureRequest) -> Iterator[str]:
    """The plain equations, then the compiled kernels: what holds for the one holds for the other."""
    import torch

    from pellucid.compiled import use_kernels

    state = use_kernels(torch.device("cpu"), request.param == "compiled")
    if request.param == "compiled" and state != "compiled":
        pytest.skip(state)
    yield request.param
    use_kernels(torch.device("cpu"), False)
