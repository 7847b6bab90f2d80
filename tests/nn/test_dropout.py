"""Dropout: its rate, its scale, its gradients, and that it draws nothing when it drops nothing."""

from __future__ import annotations

import pytest
import torch

from pellucid.nn.dropout import Dropout

RATES = [0.017, 0.1, 0.5, 0.9]
COUNT = 400_000


@pytest.mark.parametrize("p", RATES)
def test_the_mean_is_kept(p: float, dtype: torch.dtype) -> None:
    torch.manual_seed(6)
    out = Dropout(p)(torch.ones(COUNT, dtype=dtype))
    kept = out[out != 0]
    assert (kept == kept[0]).all()
    assert float(kept[0]) == pytest.approx(1 / (1 - p), rel=1e-6)
    assert float(out.mean()) == pytest.approx(1, abs=5 * (p / (1 - p) / COUNT) ** 0.5)


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


def test_the_seed_decides(dtype: torch.dtype) -> None:
    def drawn(seed: int) -> torch.Tensor:
        torch.manual_seed(seed)
        return Dropout(0.3)(torch.ones(100, dtype=dtype))

    assert torch.equal(drawn(1), drawn(1))
    assert not torch.equal(drawn(1), drawn(2))


@pytest.mark.parametrize("dropout", [Dropout(0.5).eval(), Dropout(0.0)], ids=["evaluating", "p = 0"])
def test_nothing_is_drawn_where_nothing_is_dropped(dropout: Dropout, dtype: torch.dtype) -> None:
    """The next numbers of torch's generator do not depend on how often a model was evaluated."""
    x, y = torch.randn(3, 4, dtype=dtype), torch.randn(3, 4, dtype=dtype)
    before = torch.get_rng_state()
    assert torch.equal(dropout.add(x, y), x + y)
    assert dropout(x) is x
    assert torch.equal(torch.get_rng_state(), before)


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
