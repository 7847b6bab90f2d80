"""A training arrives at a loss, or says that it did not."""

from __future__ import annotations

import math

import pytest

from benchmarks.worker import train_until


def test_a_training_ends_at_the_first_loss_that_is_low_enough() -> None:
    losses, trained = iter([5.0, 3.0, 1.9, 1.0]), []
    assert train_until(2.0, lambda number: trained.append(number) or 0.0, lambda number: next(losses), 7) == (30, 1.9)
    assert trained == [number % 6 for number in range(30)]


@pytest.mark.parametrize(("losses", "said"), [
    ([5.0, math.nan], "the loss is nan after 20 updates, and not 2"),
    ([5.0] * 301, "the loss is 5.000 after 3000 updates, and not 2")])
def test_a_loss_that_is_no_number_or_stays_too_high_is_no_arrival(losses: list[float], said: str) -> None:
    of_updates = iter(losses)
    with pytest.raises(SystemExit, match=said):
        train_until(2.0, lambda number: 0.0, lambda number: next(of_updates), 7)
