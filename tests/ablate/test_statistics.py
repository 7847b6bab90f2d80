"""The statistics of studies: equal to scipy's, right in cases done by hand, and honest in simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from pellucid.ablate.statistics import (
    Interval,
    PairedTest,
    central_probability,
    critical_value,
    holm,
    mean_interval,
    paired_test,
    two_sided_p,
)

values = st.floats(-1e3, 1e3).map(lambda x: round(x, 3))


@settings(deadline=None)
@given(st.floats(-50, 50), st.integers(1, 60))
def test_students_t_is_scipys(t: float, degrees: int) -> None:
    assert two_sided_p(t, degrees) == pytest.approx(2 * stats.t.sf(abs(t), degrees), abs=1e-12)
    assert central_probability(t, degrees) == central_probability(-t, degrees)


def test_students_t_by_hand() -> None:
    assert central_probability(1, 1) == pytest.approx(0.5)  # Cauchy: half lies within ±1
    assert central_probability(math.sqrt(2), 2) == pytest.approx(math.sqrt(2) / 2)  # t / √(t² + 2)
    assert critical_value(2) == pytest.approx(4.302653, abs=1e-6)
    with pytest.raises(ValueError, match="degree"):
        central_probability(1, 0)


@pytest.mark.parametrize("degrees", [1, 2, 3, 4, 5, 9, 30, 101])
@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.95, 0.999])
def test_critical_values_are_scipys(degrees: int, confidence: float) -> None:
    assert critical_value(degrees, confidence) == pytest.approx(stats.t.ppf((1 + confidence) / 2, degrees), rel=1e-9)


@settings(deadline=None)
@given(st.lists(values, min_size=2, max_size=12))
def test_intervals_are_scipys(sample: list[float]) -> None:
    found = mean_interval(sample)
    assert found.mean == pytest.approx(np.mean(sample))
    error = stats.sem(sample)
    if error > 1e-9:
        low, high = stats.t.interval(0.95, len(sample) - 1, loc=np.mean(sample), scale=error)
        assert (found.low, found.high) == (pytest.approx(low), pytest.approx(high))


@settings(deadline=None)
@given(st.lists(st.tuples(values, values), min_size=2, max_size=12))
def test_the_paired_test_is_scipys(pairs: list[tuple[float, float]]) -> None:
    a, b = zip(*pairs, strict=True)
    found = paired_test(a, b)
    if np.ptp(np.subtract(a, b)) > 1e-6:
        assert found.p == pytest.approx(stats.ttest_rel(a, b).pvalue, abs=1e-9)


def test_one_seed_has_neither_interval_nor_test() -> None:
    assert mean_interval([3.5]) == Interval(3.5, None, None)
    assert paired_test([3.0], [1.0]) == PairedTest(Interval(2.0, None, None), None)


def test_differences_without_variation() -> None:
    assert paired_test([100.0] * 3, [100.0] * 3) == PairedTest(Interval(0.0, 0.0, 0.0), 1.0)
    assert paired_test([1.0, 2.0], [0.0, 1.0]).p is None


def test_holm_by_hand() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.5, None, 0.9]) == [1.0, None, 1.0]
    assert holm([]) == []


@settings(deadline=None)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=10))
def test_holm_keeps_the_order_and_raises_every_p(ps: list[float]) -> None:
    adjusted = holm(ps)
    assert all(p <= a <= min(1, p * len(ps)) or a == max(adjusted) for p, a in zip(ps, adjusted))
    order = sorted(range(len(ps)), key=lambda i: ps[i])
    assert [adjusted[i] for i in order] == sorted(adjusted)
    rejected = {i for i, a in enumerate(adjusted) if a <= 0.05}
    assert rejected >= {i for i, p in enumerate(ps) if p * len(ps) <= 0.05}  # never weaker than Bonferroni


def test_the_interval_holds_the_truth_in_95_of_100_studies() -> None:
    """1,000 studies of a few seeds each, the seeds' scores normal around a known mean."""
    random = np.random.default_rng(7)
    for seeds in (3, 5):
        hits = 0
        for _ in range(1000):
            found = mean_interval(random.normal(2.0, 0.3, seeds).tolist())
            assert found.low is not None
            assert found.high is not None
            hits += found.low <= 2.0 <= found.high
        assert 930 <= hits <= 970


def test_studies_of_nothing_find_nothing_in_95_of_100() -> None:
    """1,000 studies of six cells that all equal their baseline; cells share seeds, and so some of their noise."""
    random = np.random.default_rng(11)
    false_alarms, uncorrected = 0, 0
    for _ in range(1000):
        shared = random.normal(0, 1, 3)
        cells = shared + random.normal(0, 1, (7, 3))
        ps = [paired_test(cell.tolist(), cells[0].tolist()).p for cell in cells[1:]]
        false_alarms += any(p is not None and p <= 0.05 for p in holm(ps))
        uncorrected += any(p is not None and p <= 0.05 for p in ps)
    assert false_alarms <= 50 + 2 * math.sqrt(1000 * 0.05 * 0.95)
    assert uncorrected > 100  # what the correction is for
