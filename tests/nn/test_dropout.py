"""Dropout: its rate, its scale, and that the four features of one draw are independent."""

from __future__ import annotations

import itertools

import pytest
import torch

from pellucid.nn.dropout import Dropout, keep_mask

RATES = [0.017, 0.1, 0.5, 0.9]
COUNT = 400_000


def draws(p: float, seed: int = 5) -> torch.Tensor:
    """[COUNT / 4, 4], true where dropped: a row is one 64-bit draw, a column one of its lanes."""
    torch.manual_seed(seed)
    return (keep_mask(torch.Size([COUNT]), p, torch.empty(0)) == 0).view(-1, 4)


@pytest.mark.parametrize("p", RATES)
def test_every_lane_drops_at_its_rate(p: float) -> None:
    lanes = draws(p).double()
    sigma = (p * (1 - p) / len(lanes)) ** 0.5
    assert (lanes.mean(0) - p).abs().max() < 5 * sigma + 2**-17
    assert abs(lanes.mean() - p) < 5 * sigma / 2 + 2**-17


@pytest.mark.parametrize("p", RATES)
def test_lanes_and_neighbours_are_uncorrelated(p: float) -> None:
    lanes = (draws(p).double() - p) / (p * (1 - p)) ** 0.5
    limit = 5 / len(lanes) ** 0.5
    for a, b in itertools.combinations(range(4), 2):
        assert abs((lanes[:, a] * lanes[:, b]).mean()) < limit
    for lag in (1, 2, 3):
        assert (lanes[lag:] * lanes[:-lag]).mean(0).abs().max() < limit


@pytest.mark.parametrize("p", RATES)
def test_the_mean_is_kept(p: float, dtype: torch.dtype) -> None:
    torch.manual_seed(6)
    out = Dropout(p)(torch.ones(COUNT, dtype=dtype))
    kept = out[out != 0]
    assert (kept == kept[0]).all()
    assert float(kept[0]) == pytest.approx(1 / (1 - p), rel=2e-4)  # p in steps of 1/65,536
    assert float(out.mean()) == pytest.approx(1, abs=5 * (p / (1 - p) / COUNT) ** 0.5)


@pytest.mark.parametrize("levels", [1, 6554, 65535])
def test_the_expectation_is_exact_for_the_p_really_used(levels: int) -> None:
    """(1 - p)·scale is 1 to the last bit of a float, at both ends of the range too."""
    torch.manual_seed(7)
    mask = keep_mask(torch.Size([2_000_000]), levels / 65536, torch.empty(0, dtype=torch.float64))
    assert float(mask.max()) * (65536 - levels) / 65536 == pytest.approx(1, rel=1e-15)


@pytest.mark.parametrize("size", [(), (1,), (3,), (4,), (5,), (2, 3, 7), (0, 4)])
def test_any_size(size: tuple[int, ...]) -> None:
    out = Dropout(0.5)(torch.ones(size))
    assert out.shape == size
    assert ((out == 0) | (out == 2)).all()


def test_survivors_are_scaled_and_so_are_gradients(dtype: torch.dtype) -> None:
    x = torch.randn(5, 7, dtype=dtype, requires_grad=True)
    out = Dropout(0.5)(x)
    out.sum().backward()
    assert x.grad is not None
    assert torch.equal(out, x * x.grad)
    assert set(x.grad.unique().tolist()) <= {0.0, 2.0}


def test_it_is_the_identity_when_not_training_or_when_p_is_0() -> None:
    x = torch.randn(3, 4)
    assert Dropout(0.5).eval()(x) is x
    assert Dropout(0.0)(x) is x


def test_the_seed_decides() -> None:
    assert torch.equal(draws(0.3, seed=1), draws(0.3, seed=1))
    assert not torch.equal(draws(0.3, seed=1), draws(0.3, seed=2))


def test_it_works_in_bfloat16() -> None:
    out = Dropout(0.5)(torch.ones(1000, dtype=torch.bfloat16))
    assert out.dtype == torch.bfloat16
    assert set(out.unique().tolist()) == {0.0, 2.0}


@pytest.mark.parametrize("p", [0.9999999, 0.99999])
def test_a_rate_just_below_1_stays_finite(p: float) -> None:
    assert Dropout(p)(torch.ones(100_000)).isfinite().all()


@pytest.mark.parametrize("p", [-0.1, 1.0, 1.5, float("nan")])
def test_impossible_rates_are_refused(p: float) -> None:
    with pytest.raises(ValueError, match="dropout"):
        Dropout(p)
