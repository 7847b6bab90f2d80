"""What is told of a metric: possible intervals, tests of the largest effects, sentences beside seeds."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pellucid.ablate.effects import Interval, PairedTest, Sample, compare, intervals
from pellucid.ablate.results import is_lower_better
from pellucid.ablate.scales import scale_of
from pellucid.ablate.study import TEST_SCORES

RANGES = {"test.exact": (0.0, 100.0), "test.bleu": (0.0, 100.0), "validation.loss": (0.0, math.inf),
          "test.perplexity": (1.0, math.inf), "seconds": (0.0, math.inf), "test.ter": (0.0, math.inf)}


def sample(*values: float, sentences: int = 500) -> Sample:
    """Seeds 1, 2, …; of percentages, so many of the first sentences right."""
    right = [np.arange(sentences) < value / 100 * sentences for value in values]
    return Sample(dict(enumerate(values, start=1)), {i: 100.0 * (row - row.mean()) for i, row in enumerate(right, 1)},
                  sentences)


@settings(deadline=None)
@given(st.sampled_from(sorted(RANGES)), st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=2, max_size=5))
def test_no_interval_leaves_the_range_of_its_score(metric: str, pairs: list[tuple[float, float]]) -> None:
    low, high = RANGES[metric]
    scaled = [[low + value * min(high - low, 100) for value in column] for column in zip(*pairs, strict=True)]
    a, b = (Sample(dict(enumerate(column)), {}, 500) for column in scaled)
    for cell, found in zip((a, b), intervals(metric, [a, b]), strict=True):
        assert found is not None
        if found.low is None or found.high is None:
            assert len({scale_of(metric, 500).to(value) for value in cell.values.values()}) == 1
        else:
            assert low <= found.low <= found.mean <= found.high <= high
    (test,) = compare(metric, [(a, b)])
    assert test is not None
    difference = test.difference
    if difference.low is None or difference.high is None:
        assert test.p in (None, 1.0)
        return
    assert difference.low <= difference.mean <= difference.high
    if high == 100:
        assert difference.low >= -100
        assert difference.high <= 100


def test_what_the_sentences_add_by_hand() -> None:
    """They move the cell by (3, −3, 0) under one seed and by (1, −1, 0) under the other, and the baseline by nothing.
    The means vary by 4, of which 2 / 2 is there as the seeds differ, by 2; a mean over three sentences by 3 / 3."""
    a = Sample({1: 1.0, 2: 1.0}, {1: np.array([3.0, -3.0, 0.0]), 2: np.array([1.0, -1.0, 0.0])}, 3)
    b = Sample({1: 1.0, 2: 1.0}, dict.fromkeys((1, 2), np.zeros(3)), 3)
    (test,) = compare("test.loss", [(a, b)])
    assert test is not None
    assert test.error is not None
    assert [(part.value, part.degrees) for part in test.error.parts[1:]] == [(pytest.approx(1.0), 2)]


def test_to_compare_the_other_way_round_turns_the_interval_round() -> None:
    a, b = sample(90, 91, 89.5), sample(40, 55, 30)  # which vary differently
    (one,), (other,) = compare("test.exact", [(a, b)]), compare("test.exact", [(b, a)])
    assert one is not None
    assert other is not None
    turned = Interval(-other.difference.mean, -(other.difference.high or 0), -(other.difference.low or 0))
    assert vars(one.difference) == pytest.approx(vars(turned))


def test_the_largest_effect_has_a_test() -> None:
    everything, nothing = sample(100, 100, 100), sample(0, 0, 0)
    (test,) = compare("test.exact", [(nothing, everything)])
    assert test is not None
    assert test.p is not None
    assert test.p < 1e-6
    assert test.difference.mean == -100
    assert test.difference.low == -100
    assert -100 < (test.difference.high or 0) < -98
    (same,) = compare("test.exact", [(everything, everything)])
    assert same is not None
    assert same.p == 1
    of_all, of_none = intervals("test.exact", [everything, nothing])
    assert of_all is not None
    assert of_none is not None
    assert 98 < (of_all.low or 0) < 99.9  # 500 of 500 is not everything there is
    assert of_all.high == 100
    assert of_none.low == 0


def test_one_sentence_more_is_no_difference() -> None:
    (test,) = compare("test.exact", [(sample(99.8, 100, 100), sample(100, 100, 100))])
    assert test is not None
    assert (test.p or 0) > 0.2


def test_three_seeds_find_what_is_large_among_seventeen() -> None:
    """One cell lies ten standard deviations of a difference away: nearly always found, where a test of each cell by its
    own three values finds it in one study of two."""
    random, found = np.random.default_rng(0), 0
    for _ in range(20):
        table = np.log(0.7) + random.normal(0, 0.03, (18, 3))
        table[1] += 10 * math.sqrt(2) * 0.03
        baseline, *others = (Sample(dict(enumerate(np.exp(row).tolist())), {}) for row in table)
        ps = [test.p for test in compare("validation.loss", [(cell, baseline) for cell in others]) if test is not None]
        found += ps[0] is not None and ps[0] * 17 <= 0.05
    assert found >= 17


def test_the_interval_of_a_difference_leaves_out_zero_where_the_test_says_so() -> None:
    random = np.random.default_rng(3)
    for _ in range(200):
        a, b = (Sample(dict(enumerate(row.tolist())), {}, 500) for row in random.uniform(20, 40, (2, 4)))
        (test,) = compare("test.bleu", [(a, b)])
        assert test is not None
        assert test.p is not None
        assert test.difference.low is not None
        assert test.difference.high is not None
        if abs(test.p - 0.05) > 1e-3:
            assert (test.difference.low > 0 or test.difference.high < 0) == (test.p < 0.05)


@settings(deadline=None)
@given(st.floats(0.1, 3), st.floats(0.1, 3), st.integers(2, 7))
def test_where_nothing_varies_nothing_tells_how_far_an_interval_reaches(x: float, y: float, seeds: int) -> None:
    a, b = (Sample(dict.fromkeys(range(seeds), value), {}) for value in (x, y))
    (found,) = intervals("validation.loss", [a])
    assert found is not None
    assert (found.low, found.high) == (None, None)
    (test,) = compare("validation.loss", [(a, b)])
    assert test is not None
    assert (test.difference.low, test.difference.high) == (None, None)
    assert test.p == (1.0 if math.isclose(x, y, rel_tol=1e-9) else None)


def test_one_wild_seed_does_not_turn_round_what_the_test_says() -> None:
    """Five of six seeds are far better and one is lost: better on the scale, where it is tested, and worse in the mean.
    """
    cell, baseline = [1.7, 279.0, 1.5, 1.8, 1.9, 1.8], [25.4, 25.5, 25.4, 25.3, 25.3, 25.2]
    (test,) = compare("test.perplexity", [(Sample(dict(enumerate(cell)), {}), Sample(dict(enumerate(baseline)), {}))])
    assert test is not None
    assert test.p is not None
    assert test.p < 0.05
    assert test.on_scale is not None
    assert test.on_scale < 0
    assert test.difference.low is not None
    assert test.difference.high is not None
    assert test.difference.low <= test.difference.mean <= test.difference.high < 0


def test_seeds_that_agree_do_not_hide_that_there_are_few_sentences() -> None:
    """40 against 50 of 100 in every seed: by the seeds alone, it would be certain."""
    few = compare("test.exact", [(sample(40, 40, 40.0001, sentences=100), sample(50, 50, 50, sentences=100))])[0]
    assert few is not None
    right = np.random.default_rng(1).permuted(np.tile(np.arange(100) < 40, (1, 1)), axis=1)
    shuffled = Sample({1: 40.0, 2: 40.0, 3: 40.0001}, dict.fromkeys((1, 2, 3), 100.0 * (right[0] - 0.4)), 100)
    other = compare("test.exact", [(shuffled, sample(50, 50, 50, sentences=100))])[0]
    assert other is not None
    assert (few.p or 1) < (other.p or 1)  # the same sentences, or others
    assert (other.p or 0) > 0.05


def test_one_seed_has_neither_interval_nor_test() -> None:
    assert intervals("test.exact", [sample(50)]) == [Interval(50, None, None)]
    assert compare("test.exact", [(sample(50), sample(40))]) == [PairedTest(Interval(10, None, None), None)]
    assert intervals("test.exact", [sample()]) == [None]
    assert compare("test.exact", [(sample(), sample(40))]) == [None]


@settings(deadline=None)
@given(st.sampled_from(sorted(RANGES)), st.floats(0.01, 1))
def test_scales_come_back(metric: str, share: float) -> None:
    low, high = RANGES[metric]
    score = low + share * min(high - low, 100)
    scale = scale_of(metric, 500)
    if score > scale.least:
        assert float(scale.back(np.array(scale.to(score)))) == pytest.approx(score, rel=1e-6)
        step = 1e-5 * score
        if score + step < high:
            assert scale.slope(score) == pytest.approx((scale.to(score + step) - scale.to(score)) / step, rel=1e-2)


@pytest.mark.parametrize("score", TEST_SCORES["seq2seq"])
def test_a_score_that_disregards_case_has_the_scale_of_the_one_that_regards_it(score: str) -> None:
    twin = score.removesuffix("_lowercase")
    assert scale_of(f"test.{score}", 500) == scale_of(f"test.{twin}", 500)
    assert is_lower_better(f"test.{score}") == is_lower_better(f"test.{twin}")
