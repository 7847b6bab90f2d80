"""The statistics of studies: equal to scipy's, right in cases done by hand, and honest in simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from benchmarks.coverage_of_studies import simulate
from pellucid.ablate.power import found_with
from pellucid.ablate.statistics import Error, Variance, moderated
from pellucid.evaluate.student import central_probability, critical_value, two_sided_p

samples = st.lists(st.lists(st.floats(-1e3, 1e3).map(lambda x: round(x, 3)), min_size=3, max_size=3), min_size=1,
                   max_size=8)


@settings(deadline=None)
@given(st.floats(-50, 50), st.floats(0.1, 5e4))
def test_students_t_is_scipys(t: float, degrees: float) -> None:
    expected = 2 * stats.t.sf(abs(t), degrees)
    assert two_sided_p(t, degrees) == pytest.approx(expected, rel=1e-6, abs=1e-300)
    assert central_probability(t, degrees) == pytest.approx(1 - expected, abs=1e-9)


def test_students_t_by_hand() -> None:
    assert central_probability(1, 1) == pytest.approx(0.5)  # Cauchy: half lies within ±1
    assert central_probability(math.sqrt(2), 2) == pytest.approx(math.sqrt(2) / 2)  # t / √(t² + 2)
    assert critical_value(2) == pytest.approx(4.302653, abs=1e-6)
    assert critical_value(3.7, 0.999) == pytest.approx(stats.t.ppf(0.9995, 3.7))
    with pytest.raises(ValueError, match="degrees"):
        central_probability(1, 0)


def test_an_error_of_one_part_is_students() -> None:
    error = Error((Variance(0.04, 2.0), Variance(0.0, 9.0)))
    assert error.p(0.5) == pytest.approx(2 * stats.t.sf(2.5, 2))
    assert error.reach() == pytest.approx(0.2 * stats.t.ppf(0.975, 2))
    assert error.p(error.reach(0.999)) == pytest.approx(0.001)
    with pytest.raises(ValueError, match="no test"):
        Error((Variance(0.0, 2.0),)).p(1.0)


def test_two_parts_of_few_degrees_hold_at_every_level() -> None:
    """A part of three values beside one that is well known: Satterthwaite's degrees fail here, one alarm in 70 at the
    level of one in 340."""
    random = np.random.default_rng(1)
    for known in (0.05, 0.25, 1.0):
        deviations = random.normal(0, math.sqrt(1 + known), 3000)
        ps = np.array([Error((Variance(seen, 2.0), Variance(known, 499.0))).p(deviation)
                       for seen, deviation in zip(random.chisquare(2, 3000) / 2, deviations, strict=True)])
        assert (ps <= 0.05).mean() <= 0.06
        assert (ps <= 0.05 / 17).mean() <= 0.006


def test_alike_cells_lend_each_other_degrees_of_freedom() -> None:
    random = np.random.default_rng(2)
    table = random.normal(0, 1, (18, 3))
    found = moderated((table[1:] - table[0]).tolist())
    own = (table[1:] - table[0]).var(axis=1, ddof=1)
    assert all(one is not None and one.degrees >= 2 for one in found)
    assert np.median([one.degrees for one in found if one is not None]) > 3
    assert all(one is not None and one.value >= s2 - 1e-12 for one, s2 in zip(found, own, strict=True))


def test_a_cell_alone_is_as_students_paired_test_has_it() -> None:
    assert moderated([[1.0, 2.0, 4.0]]) == [Variance(pytest.approx(7 / 3), 2.0)]
    assert moderated([[1.0], [math.nan, 2.0]]) == [None, None]
    assert moderated([[1.0, math.nan, 3.0], [math.nan] * 3])[1] is None


@settings(deadline=None, max_examples=50)
@given(samples)
def test_no_variance_is_shrunk_and_no_degree_lost(cells: list[list[float]]) -> None:
    for values, found in zip(cells, moderated(cells), strict=True):
        assert found is not None
        assert found.value >= np.var(values, ddof=1) - 1e-9 * (1 + np.var(values))
        assert found.degrees >= 2


def test_the_smallest_effect_is_found_four_times_in_five() -> None:
    for degrees, confidence in ((4, 0.95), (9, 1 - 0.05 / 6)):
        effect = found_with(Error((Variance(0.25, float(degrees)),)), confidence)
        critical = stats.t.ppf((1 + confidence) / 2, degrees)
        power = stats.nct.sf(critical, degrees, 2 * effect) + stats.nct.cdf(-critical, degrees, 2 * effect)
        assert power == pytest.approx(0.8, abs=1e-3)


@pytest.mark.parametrize("kind", ["loss, alike", "loss, unequal", "loss, twins", "exact, 25 %", "exact, 99 %"])
@pytest.mark.parametrize(("cells", "seeds"), [(1, 5), (6, 3), (17, 3)])
def test_studies_of_nothing_find_nothing_and_intervals_hold_the_truth(kind: str, cells: int, seeds: int) -> None:
    """Few studies; benchmarks/coverage_of_studies.py has many."""
    studies = 200 if cells == 1 else 40
    row = simulate(kind, cells, seeds, studies, np.random.default_rng(4))
    assert row.false_alarms <= 100 * (0.05 + 2.6 * math.sqrt(0.05 * 0.95 / studies))
    assert row.covered >= 90
    assert row.differences_covered >= 90
