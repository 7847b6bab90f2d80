"""Dropout's draws on a CPU without compiled kernels: one 64-bit number decides two features."""

from __future__ import annotations

import pytest
import torch
from tests.seeds import reseed

from pellucid.kernels.dropout import keep_mask

RATES = [0.017, 0.1, 0.5, 0.9]
COUNT = 400_000


def draws(p: float, seed: int = 5) -> torch.Tensor:
    """[COUNT / 2, 2], true where dropped: a row is one 64-bit draw, a column one of its lanes."""
    reseed(seed)
    return (keep_mask(torch.Size([COUNT]), p, torch.empty(0)) == 0).view(-1, 2)


@pytest.mark.parametrize("p", RATES)
def test_every_lane_drops_at_its_rate(p: float) -> None:
    lanes = draws(p).double()
    sigma = (p * (1 - p) / len(lanes)) ** 0.5
    assert (lanes.mean(0) - p).abs().max() < 5 * sigma + 2**-30
    assert abs(lanes.mean() - p) < 5 * sigma / 2**0.5 + 2**-30


@pytest.mark.parametrize("p", RATES)
def test_lanes_and_neighbours_are_uncorrelated(p: float) -> None:
    lanes = (draws(p).double() - p) / (p * (1 - p)) ** 0.5
    limit = 5 / len(lanes) ** 0.5
    assert abs((lanes[:, 0] * lanes[:, 1]).mean()) < limit
    for lag in (1, 2, 3):
        assert (lanes[lag:] * lanes[:-lag]).mean(0).abs().max() < limit


@pytest.mark.parametrize("levels", [1, 429_496_730, 2**32 - 1])
def test_the_expectation_is_exact_for_the_p_really_used(levels: int) -> None:
    """(1 - p)·scale is 1 to the last bit of a float, at both ends of the range too."""
    reseed(7)
    mask = keep_mask(torch.Size([20_000]), levels / 2**32, torch.empty(0, dtype=torch.float64))
    if levels < 2**31:  # else hardly one feature is kept
        assert float(mask.max()) * (2**32 - levels) / 2**32 == pytest.approx(1, rel=1e-15)


def test_the_seed_decides() -> None:
    assert torch.equal(draws(0.3, seed=1), draws(0.3, seed=1))
    assert not torch.equal(draws(0.3, seed=1), draws(0.3, seed=2))
