"""Approximate randomisation: the exact permutation test on small sets, sacreBLEU's test, and how often it is wrong."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from numpy.typing import NDArray
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.significance import PairedTest

from benchmarks.coverage import coverage_of_difference
from pellucid.evaluate.per_character import per_character_statistics
from pellucid.evaluate.perplexity import perplexity_statistics
from pellucid.evaluate.significance import (
    SentenceStatistics,
    approximate_randomisation,
    corpus_score,
    difference_interval,
    mean_percentage,
    share_interval,
    with_sources,
)
from pellucid.evaluate.translation import translation_statistics

WORDS = "the a small old cat dog house river sees finds near under quickly and then green door opens".split()


def mean_metric(values: NDArray[np.float64]) -> SentenceStatistics:
    return SentenceStatistics("mean", np.stack([values, np.ones(len(values))], axis=1), mean_percentage)


def damaged(lines: list[str], rate: float, seed: int) -> list[str]:
    random = np.random.default_rng(seed)
    return [" ".join(str(random.choice(WORDS)) if random.random() < rate else word for word in line.split())
            for line in lines]


def corpus(n: int) -> list[str]:
    random = np.random.default_rng(0)
    return [" ".join(random.choice(WORDS, size=random.integers(5, 15))) for _ in range(n)]


def exact_p(a: SentenceStatistics, b: SentenceStatistics) -> float:
    """Over all 2ⁿ ways to exchange outputs."""
    observed = abs(corpus_score(a) - corpus_score(b))
    extreme = 0
    for swaps in itertools.product([False, True], repeat=len(a.statistics)):
        chosen = np.array(swaps)[:, None]
        one, other = np.where(chosen, b.statistics, a.statistics), np.where(chosen, a.statistics, b.statistics)
        extreme += abs(a.score(one.sum(0)) - b.score(other.sum(0))) >= observed - 1e-9
    return extreme / 2 ** len(a.statistics)


@pytest.mark.parametrize("seed", range(6))
def test_p_is_that_of_all_exchanges(seed: int) -> None:
    """Drawn by 200 trials; where there are no more exchanges than trials, or half of them, the exact one."""
    random = np.random.default_rng(seed)
    a, b = mean_metric(random.normal(size=9) + 0.4 * seed), mean_metric(random.normal(size=9))
    exact = exact_p(a, b)
    error = 4 * np.sqrt(exact * (1 - exact) / 200) + 1 / 200  # of a share in as many trials
    assert approximate_randomisation(a, b, trials=200) == pytest.approx(exact, abs=error)
    assert approximate_randomisation(a, b, trials=256) == approximate_randomisation(b, a, trials=4000) == exact


def test_only_sources_that_differ_count_among_the_exchanges() -> None:
    """Nine of thirty sentences; in pairs of one source, five of fifteen."""
    random = np.random.default_rng(7)
    values = random.normal(size=30)
    a, b = mean_metric(values), mean_metric(values + np.r_[random.normal(size=9), np.zeros(21)])
    few = [mean_metric(metric.statistics[:9, 0]) for metric in (a, b)]
    assert approximate_randomisation(a, b, trials=300) == exact_p(*few)
    names = [i // 2 for i in range(30)]
    pairs = [mean_metric(metric.statistics[:10].reshape(5, 2, 2)[:, :, 0].sum(axis=1)) for metric in (a, b)]
    assert approximate_randomisation(with_sources(a, names), with_sources(b, names), trials=20) == exact_p(*pairs)


def test_p_of_a_score_that_is_no_mean_is_that_of_all_exchanges() -> None:
    references = corpus(10)
    statistics = [translation_statistics(damaged(references, rate, seed), references)["bleu"]
                  for rate, seed in ((0.1, 1), (0.35, 2))]
    exact = exact_p(*statistics)
    assert 0 < exact < 0.9
    assert approximate_randomisation(*statistics, trials=2000) == pytest.approx(exact, abs=0.045)


def test_p_of_three_sentences_by_hand() -> None:
    """a is better by 1 in each of three sentences: of eight exchanges two give a difference as large."""
    a, b = mean_metric(np.ones(3)), mean_metric(np.zeros(3))
    assert exact_p(a, b) == approximate_randomisation(a, b) == 0.25


def test_no_p_is_below_that_of_the_trials_made() -> None:
    """What was seen is one of the exchanges, so that p is never 0."""
    assert approximate_randomisation(mean_metric(np.ones(100)), mean_metric(np.zeros(100)), trials=9) == 0.1


@pytest.mark.parametrize("rate", [0.2, 0.23, 0.26])
def test_p_is_sacrebleus(rate: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SACREBLEU_SEED", "12345")
    references = corpus(80)
    baseline, system = damaged(references, 0.2, seed=2), damaged(references, rate, seed=3)
    metrics = {"bleu": BLEU(), "chrf": CHRF()}
    theirs = PairedTest([("a", baseline), ("b", system)], metrics, [references], test_type="ar", n_samples=2000)()[1]
    ours_a, ours_b = translation_statistics(baseline, references), translation_statistics(system, references)
    for name, key in (("bleu", "BLEU"), ("chrf", "chrF2")):
        p = theirs[key][1].p_value
        both = 4 * np.sqrt(2 * p * (1 - p) / 2000) + 2 / 2000  # two shares of as many trials, other exchanges in each
        assert approximate_randomisation(ours_a[name], ours_b[name], trials=2000) == pytest.approx(p, abs=both)


def test_equally_good_systems_are_told_apart_in_one_of_twenty_at_most() -> None:
    """Sentences differ in difficulty, which both systems share; that is what pairing takes out."""
    random = np.random.default_rng(1)
    below, trials = 0, 600
    for _ in range(trials):
        difficulty = random.normal(size=40)
        a, b = (mean_metric(difficulty + 0.5 * random.standard_t(3, size=40)) for _ in range(2))
        below += approximate_randomisation(a, b, trials=199) <= 0.05
    assert below / trials <= 0.05 + 2 * np.sqrt(0.05 * 0.95 / trials)


def test_a_system_does_not_differ_from_itself_and_order_does_not_matter() -> None:
    random = np.random.default_rng(2)
    a, b = mean_metric(random.normal(size=30)), mean_metric(random.normal(size=30))
    assert approximate_randomisation(a, a, trials=50) == 1
    assert approximate_randomisation(a, b, trials=500) == approximate_randomisation(b, a, trials=500)


def test_infinite_scores_tell_nothing() -> None:
    endless = SentenceStatistics("endless", np.ones((3, 1)), lambda _: float("inf"))
    assert approximate_randomisation(endless, endless, trials=20) == 1


def test_the_interval_of_a_difference_is_near_the_normal_one() -> None:
    random = np.random.default_rng(3)
    values = random.normal(size=(2, 400))
    low, high = difference_interval(mean_metric(values[0]), mean_metric(values[1]))
    gap = 100 * (values[0] - values[1])
    error = gap.std() / np.sqrt(400)
    assert low == pytest.approx(gap.mean() - 1.96 * error, abs=0.25 * error)
    assert high == pytest.approx(gap.mean() + 1.96 * error, abs=0.25 * error)


def test_the_interval_of_a_difference_is_of_pairs() -> None:
    """What both systems find hard is no part of it: sentences vary by 20, differences by 1."""
    random = np.random.default_rng(4)
    hard, apart = random.normal(0.5, 0.2, 200), random.normal(0, 0.01, (2, 200))
    low, high = difference_interval(mean_metric(hard + apart[0]), mean_metric(hard + apart[1]))
    assert high - low == pytest.approx(200 * 1.972 * np.std(apart[0] - apart[1], ddof=1) / np.sqrt(200), rel=1e-3)


def test_the_largest_difference_has_an_interval_too() -> None:
    """All of ten mean words against none: Wilson's 72.2 to 100 and 0 to 27.8 combined."""
    right, wrong = (mean_metric(np.full(10, hit)) for hit in (1.0, 0.0))
    assert difference_interval(right, wrong) == pytest.approx((100 - np.hypot(27.753, 27.753), 100), abs=0.01)


def shares(*hits: float) -> SentenceStatistics:
    return SentenceStatistics("exact", np.stack([hits, np.ones(len(hits))], axis=1), mean_percentage, share_interval)


def test_the_interval_of_a_difference_of_shares_by_hand() -> None:
    """Bonett and Price: of 10, one system has 4 alone and the other 1, so that (5 - 2) / 12 is the middle."""
    a, b = shares(*[1] * 4, 0, *[1] * 5), shares(*[0] * 4, 1, *[1] * 5)
    reach = 1.959964 * np.sqrt((7 / 12 - (3 / 12) ** 2) / 12)
    assert difference_interval(a, b) == pytest.approx((100 * (0.25 - reach), 100 * (0.25 + reach)), abs=1e-3)


def test_what_does_not_differ_here_may_differ_elsewhere() -> None:
    """Of 98 sentences that two systems do equally well: 2 in 100 that differ, one each way, are not out of the way."""
    reach = 100 * 1.959964 * np.sqrt(2 / 100 / 100)
    half = shares(*[1, 0] * 49)
    assert difference_interval(half, half) == pytest.approx((-reach, reach), abs=1e-3)
    smooth = mean_metric(np.tile([0.2, 0.7], 49))
    assert difference_interval(smooth, smooth) == pytest.approx((-reach, reach), abs=1e-3)
    twice = with_sources(half, [i // 2 for i in range(98)])
    assert difference_interval(twice, twice)[1] == pytest.approx(100 * 1.959964 * np.sqrt(2) / 51, abs=1e-3)
    rate = translation_statistics(["a b c"] * 97 + ["a"], ["a b d"] * 98)["ter"]
    assert difference_interval(rate, rate) == pytest.approx((-reach, reach), abs=1e-3)
    for likelihood in (perplexity_statistics([3.0, 2.0], [2, 3]), per_character_statistics([3.0, 2.0], [2, 3])):
        assert difference_interval(likelihood, likelihood) == (0, 0)


def test_few_sentences_that_differ_are_few_degrees_of_freedom() -> None:
    """One of 50 by half a point: as wide as Student's t with one degree of freedom says, not with 49."""
    values = np.random.default_rng(6).uniform(0.2, 0.8, 50)
    low, high = difference_interval(mean_metric(values), mean_metric(values - np.eye(50)[7] * 0.25))
    assert (high - low) / 2 == pytest.approx(12.706 * 0.5, rel=1e-3)
    assert (high + low) / 2 == pytest.approx(0.5)


@pytest.mark.parametrize(("alone", "n", "rows"), [((0.02, 0.005), 200, 1), ((0.1, 0.05), 50, 1), ((0.2, 0.2), 200, 4)])
def test_the_interval_of_a_difference_of_shares_covers_the_truth(alone: tuple[float, float], n: int, rows: int) -> None:
    """400 test sets are ± 2.2 points; where few differ, the interval is a little too wide."""
    assert coverage_of_difference(*alone, n, rows, 400, np.random.default_rng(2)) >= 92


def test_wrong_pairs_and_no_trials_are_refused() -> None:
    three, four = mean_metric(np.ones(3)), mean_metric(np.ones(4))
    with pytest.raises(ValueError, match="the same sentences"):
        approximate_randomisation(three, four)
    with pytest.raises(ValueError, match="at least one trial, got 0"):
        approximate_randomisation(three, three, trials=0)
