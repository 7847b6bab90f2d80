"""The schedules against the equations they are named after."""

from __future__ import annotations

import itertools
import math

import pytest

from pellucid.train.learning_rate import SCHEDULES, learning_rate, paper_peak


@pytest.mark.parametrize(("d_model", "warmup"), [(512, 4000), (32, 100), (7, 1)])
def test_the_papers_equation_3_is_inverse_sqrt_with_its_peak(d_model: int, warmup: int) -> None:
    for step in range(1, 5 * warmup + 10):
        paper = d_model**-0.5 * min(step**-0.5, step * warmup**-1.5)
        assert learning_rate(step, "inverse_sqrt", paper_peak(d_model, warmup), warmup, 10**6) == pytest.approx(paper)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_warm_up_is_a_straight_line_to_the_peak(schedule: str) -> None:
    rates = [learning_rate(step, schedule, 0.3, 10, 50) for step in range(1, 11)]
    assert rates == pytest.approx([0.03 * step for step in range(1, 11)])
    after = [learning_rate(step, schedule, 0.3, 10, 50) for step in range(10, 51)]
    assert all(0 <= b <= a for a, b in itertools.pairwise(after))


def test_cosine_and_linear_end_at_nothing_and_constant_stays() -> None:
    for warmup in (0, 10, 49):
        assert learning_rate(50, "cosine", 0.3, warmup, 50) == pytest.approx(0, abs=1e-12)
        assert learning_rate(50, "linear", 0.3, warmup, 50) == 0
        assert {learning_rate(s, "constant", 0.3, warmup, 50) for s in range(warmup + 1, 51)} == {0.3}
    assert learning_rate(30, "cosine", 0.3, 10, 50) == pytest.approx(0.15)
    assert learning_rate(30, "linear", 0.3, 10, 50) == pytest.approx(0.15)


def test_without_warm_up_inverse_sqrt_begins_at_the_peak() -> None:
    assert learning_rate(1, "inverse_sqrt", 0.3, 0, 50) == 0.3
    assert learning_rate(4, "inverse_sqrt", 0.3, 0, 50) == pytest.approx(0.15)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(("warmup", "steps"), [(0, 1), (1, 1), (5, 3), (3, 3), (2, 3)])
def test_short_runs_have_finite_rates_between_nothing_and_the_peak(schedule: str, warmup: int, steps: int) -> None:
    for step in range(1, steps + 1):
        rate = learning_rate(step, schedule, 0.3, warmup, steps)
        assert math.isfinite(rate)
        assert 0 <= rate <= 0.3
