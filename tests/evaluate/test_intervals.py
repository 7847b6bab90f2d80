"""The 95 % intervals: known values, bounds that hold, and their coverage by simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from benchmarks.coverage import coverage, labels_of, of_share
from pellucid.evaluate.classification import classification_statistics
from pellucid.evaluate.finite import finite
from pellucid.evaluate.intervals import PERCENT, RATE, by_jackknife, design_effect, jackknife_error, wilson
from pellucid.evaluate.macro_f1 import macro_f1, macro_f1_interval
from pellucid.evaluate.significance import (
    SentenceStatistics,
    corpus_score,
    difference_interval,
    interval_of,
    mean_percentage,
    of_sentences,
    share_interval,
    with_sources,
)
from pellucid.evaluate.student import critical_value
from pellucid.evaluate.translation import translation_statistics


def shares(hits: list[float]) -> SentenceStatistics:
    return SentenceStatistics("exact", np.stack([hits, np.ones(len(hits))], axis=1), mean_percentage, share_interval)


def test_wilson_by_hand() -> None:
    """1,000 of 1,000 are 99.6 to 100, none of ten 0 to 27.8, 8 of 10 49.0 to 94.3."""
    assert interval_of(shares([1.0] * 1000)) == pytest.approx((99.617, 100), abs=1e-3)
    assert interval_of(shares([0.0] * 10)) == pytest.approx((0, 27.753), abs=1e-3)
    assert interval_of(shares([1.0] * 8 + [0.0] * 2)) == pytest.approx((49.016, 94.332), abs=1e-3)


@given(st.lists(st.booleans(), min_size=1, max_size=30), st.integers(2, 4))
@settings(max_examples=50, deadline=None)
def test_the_same_rows_again_make_it_no_narrower(hits: list[bool], times: int) -> None:
    """Rows of one source that are all alike count once."""
    once = shares([float(hit) for hit in hits])
    again = with_sources(shares([float(hit) for hit in hits] * times), list(range(len(hits))) * times)
    for a, b in zip(interval_of(once), interval_of(again), strict=True):  # (G − 1) / G in the variance between sources
        assert a == pytest.approx(b, abs=0.1 + 30 / len(hits))
    low, high = interval_of(again)
    assert 0 <= low <= mean_percentage(once.statistics.sum(axis=0)) <= high <= 100


def test_the_design_effect_is_that_of_equal_rows() -> None:
    """Four equal rows a source tell as much as one; independent ones as much as four."""
    random = np.random.default_rng(0)
    same = 4.0 * (random.random(5000) < 0.3)
    assert design_effect(same, np.full(5000, 4.0)) == pytest.approx(4, rel=0.01)
    independent = (random.random((5000, 4)) < 0.3).sum(axis=1).astype(float)
    assert design_effect(independent, np.full(5000, 4.0)) == pytest.approx(1, abs=0.1)
    # Three sources of two rows, 2, 1 and 0 of them hits: between sources 3/2 · (1 + 0 + 1) / 6², of rows alone 1/4 / 6
    assert design_effect(np.array([2.0, 1.0, 0.0]), np.full(3, 2.0)) == pytest.approx(2)


def test_the_jackknife_of_a_mean_is_students() -> None:
    """Of a mean, the standard error is s / √n."""
    values = np.random.default_rng(1).normal(50, 5, size=30)
    sums = np.stack([values, np.ones(30)], axis=1)
    low, high = by_jackknife(sums, lambda s: float(s[0] / s[1]), RATE)
    mean, error = values.mean(), values.std(ddof=1) / math.sqrt(30)
    assert low == pytest.approx(mean * math.exp(-2.0452 * error / mean), rel=1e-4)
    assert high == pytest.approx(mean * math.exp(2.0452 * error / mean), rel=1e-4)


def test_of_many_sources_there_are_as_many_degrees_of_freedom_as_groups_but_one() -> None:
    values = np.random.default_rng(2).normal(50, 5, size=2000)
    sums = np.stack([values, np.ones(2000)], axis=1)
    low, high = by_jackknife(sums, lambda s: float(s[0] / s[1]), RATE)
    error = jackknife_error(sums, lambda s: float(s[0] / s[1])) / values.mean()
    assert math.log(high / low) / 2 == pytest.approx(critical_value(499) * error, rel=1e-9)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20))
@settings(max_examples=100, deadline=None)
def test_it_contains_the_score_and_stays_in_bounds(values: list[float]) -> None:
    sums = np.stack([values, np.ones(len(values))], axis=1)
    low, high = by_jackknife(sums, mean_percentage, PERCENT)
    assert -1e-9 <= low <= mean_percentage(sums.sum(axis=0)) + 1e-6
    assert mean_percentage(sums.sum(axis=0)) - 1e-6 <= high <= 100 + 1e-9


def test_perfect_outputs_are_not_certain() -> None:
    lines = ["a b c d e f g"] * 40
    found = translation_statistics(lines, lines)
    for name in ("bleu", "chrf", "exact"):
        assert interval_of(found[name]) == pytest.approx((91.24, 100), abs=0.01)
    assert interval_of(found["ter"]) == pytest.approx((0, 8.76), abs=0.01)


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 1.0])
def test_a_score_that_all_sources_share_is_not_certain(share: float) -> None:
    """Of none in ten Wilson's bound is 27.75 %: so many others may be lost, or perfect. Rows of one source are one."""
    lost = 0.277533
    few = SentenceStatistics("f1", np.tile([share, 1.0], (10, 1)), mean_percentage)
    wanted = (100 * share * (1 - lost), 100 * share + lost * (100 - 100 * share))
    assert interval_of(few) == pytest.approx(wanted, abs=1e-3)
    rows = SentenceStatistics("f1", np.tile([share, 1.0], (40, 1)), mean_percentage)
    assert interval_of(with_sources(rows, [i // 4 for i in range(40)])) == pytest.approx(wanted, abs=1e-3)
    half = translation_statistics(["a b"] * 10, ["a c"] * 10)
    assert interval_of(half["ter"]) == pytest.approx((50 * (1 - lost), 50 / (1 - lost)), abs=1e-3)
    for name in ("chrf", "meteor", "bleu"):
        low, high = interval_of(half[name])
        assert low < 0.8 * corpus_score(half[name])
        assert high > corpus_score(half[name]) + 10


def test_macro_f1_of_rare_labels_lies_in_its_interval() -> None:
    """Two common labels and ten that occur once: the mean over the labels of each resample excluded the score."""
    labels = ["a", "b", *(f"rare {i}" for i in range(10))]
    true, predicted = ["a"] * 30 + ["b"] * 30 + labels[2:], ["a"] * 25 + ["b"] * 35 + ["a"] * 10
    metric = classification_statistics(predicted, true, labels)["macro_f1"]
    low, high = interval_of(metric)
    assert low <= corpus_score(metric) <= high
    assert low < 13
    assert 30 < high < 60


@pytest.mark.parametrize("table", [[[22, 3, 0, 1], [2, 13, 1, 0], [0, 1, 3, 0], [1, 0, 0, 1]],
                                   [[8, 0, 0], [1, 6, 0], [0, 0, 7]], [[4]]])
def test_the_interval_of_macro_f1_is_that_of_its_model(table: list[list[int]], monkeypatch: pytest.MonkeyPatch) -> None:
    """By scipy's beta-binomial distribution, loops, and slopes from small steps; of four labels, the second has 20
    sentences."""
    draws, random, labels = 80_000, np.random.default_rng(1), range(len(table))
    hits, true, told = [table[i][i] for i in labels], [sum(row) for row in table], np.sum(table, axis=0).tolist()
    trials = [true[i] + told[i] - hits[i] for i in labels]
    shares = np.empty((draws, len(labels)))
    grid = np.array([(0.0125 + 0.025 * i, 2.0**j) for i in range(40) for j in range(-1, 8)])
    for group in filter(None, ([i for i in labels if trials[i] >= 20], [i for i in labels if trials[i] < 20])):
        chances = np.prod([stats.betabinom.pmf(hits[i], trials[i], grid[:, 0] * grid[:, 1],
                                               (1 - grid[:, 0]) * grid[:, 1]) for i in group], axis=0)
        mean, strength = grid[random.choice(len(grid), draws, p=chances / chances.sum())].T
        mean += random.uniform(-0.0125, 0.0125, draws)
        for i in group:
            shares[:, i] = random.beta(mean * strength + hits[i], (1 - mean) * strength + trials[i] - hits[i])

    def slope(i: int, hit: float, other: float) -> float:
        """Of a label's F1, for one sentence more."""
        h, o = shares[:, i].mean() * trials[i], (1 - shares[:, i].mean()) * trials[i]
        return float(2 * (h + hit) / (2 * (h + hit) + o + other) - 2 * h / (2 * h + o)) / (hit + other)

    anywhere = {(i, j): (true[i] + 0.5) * (told[j] + 0.5) for i in labels for j in labels if i != j}
    together = apart = sum(hits[i] * slope(i, 1e-6, 0) ** 2 for i in labels)
    for (i, j), chance in anywhere.items():
        errors, a, b = table[i][j] + chance / sum(anywhere.values()), slope(i, 0, 1e-6), slope(j, 0, 1e-6)
        together, apart = together + errors * (a + b) ** 2, apart + errors * (a**2 + b**2)
    scale = np.clip(100 * (2 * shares / (1 + shares)).mean(axis=1), 1e-6, 100 - 1e-6)
    low, middle, high = (math.log(x / (100 - x)) for x in np.quantile(scale, [0.025, 0.5, 0.975]))
    wanted = [100 / (1 + math.exp(-middle - math.sqrt(together / apart) * (end - middle))) for end in (low, high)]
    monkeypatch.setattr("pellucid.evaluate.macro_f1._DRAWS", draws)
    assert macro_f1_interval(np.array(table, dtype=np.float64)) == pytest.approx(wanted, abs=0.3)


def test_macro_f1_of_some_sentences_has_their_interval() -> None:
    """A group by length is told by its own errors: all that are wrong are elsewhere."""
    labels = ["a", "b"]
    true, predicted = labels * 50, labels * 25 + ["a"] * 50
    right = np.arange(100) < 50
    group = of_sentences(classification_statistics(predicted, true, labels)["macro_f1"], right)
    alone = classification_statistics(predicted[:50], true[:50], labels)["macro_f1"]
    assert interval_of(group) == interval_of(alone)
    low, high = difference_interval(group, group)
    assert -15 < low < 0 < high < 15


@given(st.lists(st.lists(st.integers(0, 12), min_size=4, max_size=4), min_size=4, max_size=4))
@settings(max_examples=40, deadline=None)
def test_macro_f1_lies_in_its_interval(rows: list[list[int]]) -> None:
    confusion = np.array(rows, dtype=np.float64)
    confusion[0, 0] += 1
    low, high = macro_f1_interval(confusion)
    assert 0 <= low <= macro_f1(confusion) <= high <= 100


def test_intervals_cover_the_truth_as_often_as_they_say() -> None:
    """A little of what benchmarks/coverage.py does; 400 test sets are ± 2.2 points."""
    random = np.random.default_rng(2)
    scores = [(of_share("exact", 0.8), 20, 1), (of_share("exact", 0.3), 80, 4)]
    scores += [(labels_of(200, random)[place], 200, 1) for place in (0, 7)]
    for score, n, rows in scores:
        assert 91 <= coverage(score, n, rows, 400, random) <= 99, score.name


def test_wilson_of_sources_with_one_row_is_the_plain_one() -> None:
    hits = np.array([1.0, 0, 1, 1])
    assert wilson(hits, np.ones(4)) == pytest.approx((30.06, 95.44), abs=0.01)


def test_what_json_does_not_have_is_none_in_it() -> None:
    rows = {"interval": (1.0, math.inf), "rows": [{"p": -math.inf, "n": 3, "name": "a"}, math.nan]}
    assert finite(rows) == {"interval": [1.0, None], "rows": [{"p": None, "n": 3, "name": "a"}, None]}
