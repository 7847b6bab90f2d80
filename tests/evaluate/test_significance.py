"""The paired test: sacreBLEU's on the same resamples, and truths that hold for any metric."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.significance import PairedTest

from pellucid.evaluate.significance import (
    SentenceStatistics,
    approximate_randomisation,
    corpus_score,
    difference_interval,
    least_p,
    mean_percentage,
    of_sentences,
    paired_bootstrap,
    resampled_scores,
    with_sources,
)
from pellucid.evaluate.translation import translation_statistics

WORDS = "the a small old cat dog house river sees finds near under quickly and then green door opens".split()


def damaged(lines: list[str], rate: float, seed: int) -> list[str]:
    """The lines with a share of their words replaced by others."""
    generator = np.random.default_rng(seed)
    return [
        " ".join(str(generator.choice(WORDS)) if generator.random() < rate else word for word in line.split())
        for line in lines
    ]


def corpus(n: int) -> list[str]:
    generator = np.random.default_rng(0)
    return [" ".join(generator.choice(WORDS, size=generator.integers(5, 15))) for _ in range(n)]


def mean_metric(values: NDArray[np.float64]) -> SentenceStatistics:
    return SentenceStatistics("mean", np.stack([values, np.ones(len(values))], axis=1), mean_percentage)


def test_some_of_the_sentences_are_still_taken_together_by_source() -> None:
    metric = with_sources(mean_metric(np.array([1.0, 2.0, 3.0, 4.0])), ["x", "y", "x", "y"])
    assert of_sentences(metric, np.array([True, True, True, False])).by_source.tolist() == [[4, 2], [2, 1]]


@pytest.mark.parametrize("rate", [0.2, 0.22, 0.24, 0.3])
def test_p_is_about_twice_sacrebleus_one_sided_one(rate: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SACREBLEU_SEED", "12345")
    references = corpus(80)
    baseline, system = damaged(references, 0.2, seed=2), damaged(references, rate, seed=3)
    metrics = {"bleu": BLEU(), "chrf": CHRF()}
    theirs = PairedTest([("a", baseline), ("b", system)], metrics, [references], test_type="bs", n_samples=1000)()[1]
    ours_a, ours_b = translation_statistics(baseline, references), translation_statistics(system, references)
    for name, key in (("bleu", "BLEU"), ("chrf", "chrF2")):
        comparison = paired_bootstrap(ours_a[name], ours_b[name])
        one_sided = theirs[key][1].p_value
        assert one_sided - 0.003 <= comparison.p <= 2.5 * one_sided + 0.01  # the same sentences are drawn
        assert comparison.difference == pytest.approx(theirs[key][0].score - theirs[key][1].score)


def test_a_system_does_not_differ_from_itself() -> None:
    references = corpus(30)
    hypotheses = damaged(references, 0.3, seed=4)
    for metric in translation_statistics(hypotheses, references).values():
        comparison = paired_bootstrap(metric, metric, names=("runs/x", "runs/y"), resamples=100)
        assert (comparison.difference, comparison.p) == (0.0, 1.0)
        assert (comparison.score, comparison.a, comparison.b) == (metric.name, "runs/x", "runs/y")


def test_a_clearly_better_system_is_significant() -> None:
    references = corpus(100)
    worse = translation_statistics(damaged(references, 0.5, seed=5), references)
    better = translation_statistics(damaged(references, 0.1, seed=6), references)
    for name in ("bleu", "bleu_lowercase", "chrf", "ter", "meteor", "exact"):
        comparison = paired_bootstrap(better[name], worse[name], resamples=500)
        assert comparison.p < 0.01
        assert (comparison.difference > 0) == (name != "ter")


def test_equally_good_systems_fall_below_p_as_often_as_documented() -> None:
    generator = np.random.default_rng(8)
    trials = 1000
    below = 0
    for _ in range(trials):
        a, b = mean_metric(generator.normal(size=60)), mean_metric(generator.normal(size=60))
        below += paired_bootstrap(a, b, resamples=150).p < 0.05
    assert 0.03 < below / trials < 0.08


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=20), st.integers(0, 2**32))
@settings(max_examples=50, deadline=None)
def test_swapping_the_systems_turns_the_difference_and_keeps_p(pairs: list[tuple[float, float]], seed: int) -> None:
    a, b = (mean_metric(np.array(column)) for column in zip(*pairs, strict=True))
    forth, back = paired_bootstrap(a, b, ("x", "y"), 40, seed), paired_bootstrap(b, a, ("y", "x"), 40, seed)
    assert (forth.difference, forth.p) == (-back.difference, back.p)
    assert 0 < forth.p <= 1


@pytest.mark.parametrize("n", [5, 8, 10])
def test_few_sentences_do_not_make_it_bolder(n: int) -> None:
    """Without the factor for few sentences one pair of equal systems in nine fell below 0.05 at n = 5."""
    generator = np.random.default_rng(11)
    below = sum(paired_bootstrap(mean_metric(generator.normal(size=n)), mean_metric(generator.normal(size=n)),
                                 resamples=150, seed=i).p <= 0.05 for i in range(1000))
    assert below / 1000 <= 0.055 + 2 * 0.007


def test_rows_of_one_source_are_one() -> None:
    """Each sentence three times tells what it tells once; taken for independent, the difference seemed to be one."""
    generator = np.random.default_rng(12)
    a, b = generator.normal(0.25, 1, size=40), generator.normal(size=40)
    once = paired_bootstrap(mean_metric(a), mean_metric(b))
    names = [f"source {i}" for i in range(40) for _ in range(3)]
    thrice = [with_sources(mean_metric(values.repeat(3)), names) for values in (a, b)]
    assert paired_bootstrap(*thrice).p == pytest.approx(once.p)
    assert approximate_randomisation(*thrice) == approximate_randomisation(mean_metric(a), mean_metric(b))
    assert paired_bootstrap(mean_metric(a.repeat(3)), mean_metric(b.repeat(3))).p < once.p / 2
    with pytest.raises(ValueError, match="different sources"):
        paired_bootstrap(thrice[0], mean_metric(b.repeat(3)))


def test_one_sentence_tells_nothing() -> None:
    one, other = mean_metric(np.array([0.1])), mean_metric(np.array([0.9]))
    assert paired_bootstrap(one, other, resamples=50).p == 1
    assert approximate_randomisation(one, other, trials=50) == 1


@pytest.mark.parametrize(("n", "differ"), [(2, 2), (3, 3), (5, 5), (6, 6), (40, 3), (40, 40)])
def test_sources_that_differ_by_as_much_say_no_more_than_an_exact_test(n: int, differ: int) -> None:
    """Resamples of three times +1 are all +1, so that the bootstrap alone was sure. 0 is left out of the interval only
    where that test can reject it: from six sources on."""
    hard = np.random.default_rng(13).uniform(0.3, 0.6, n)
    for rise in (0.01, 0.01 + 1e-6 * hard):
        better, worse = mean_metric(hard + rise * (np.arange(n) < differ)), mean_metric(hard)
        for a, b in ((better, worse), (worse, better)):
            assert paired_bootstrap(a, b).p >= 2 ** (1 - differ)
            assert paired_bootstrap(a, b, resamples=199).p <= max(2 ** (1 - differ), 0.25 if n > differ else 0.005)
            low, high = difference_interval(a, b)
            assert low <= 100 * (a.by_source - b.by_source)[:, 0].mean() <= high
            if differ < 6:
                assert low <= 0 <= high
    assert least_p(3) == 0.25
    low, high = difference_interval(mean_metric(hard + 0.01 + 1e-6 * hard), mean_metric(hard))
    assert (low > 0) == (n > 5)


def test_resamples_are_the_same_sentences_for_every_metric_of_that_length() -> None:
    values = np.random.default_rng(10).normal(size=25)
    once, twice = resampled_scores(mean_metric(values), 30), resampled_scores(mean_metric(2 * values), 30)
    np.testing.assert_allclose(twice, 2 * once)


@pytest.mark.parametrize("table", [np.zeros((0, 2)), np.zeros(3), np.zeros((2, 2, 2))])
def test_a_table_of_the_wrong_shape_is_refused(table: NDArray[np.float64]) -> None:
    with pytest.raises(ValueError, match="at least one sentence"):
        SentenceStatistics("mean", table, mean_percentage)


def test_a_number_that_is_not_finite_is_refused_with_its_sentence() -> None:
    with pytest.raises(ValueError, match="mean: the statistics of sentence 2 are not finite"):
        mean_metric(np.array([0.0, np.nan, 1.0]))


def test_wrong_pairs_and_no_resamples_are_refused() -> None:
    three, four = mean_metric(np.ones(3)), mean_metric(np.ones(4))
    with pytest.raises(ValueError, match="runs/x has 3 sentences and runs/y has 4"):
        paired_bootstrap(three, four, ("runs/x", "runs/y"))
    with pytest.raises(ValueError, match="cannot compare mean with other"):
        paired_bootstrap(three, SentenceStatistics("other", three.statistics, mean_percentage))
    with pytest.raises(ValueError, match="at least one resample, got 0"):
        paired_bootstrap(three, three, resamples=0)
    assert corpus_score(three) == 100.0


def test_no_difference_of_percentages_is_beyond_100() -> None:
    hits, misses = np.ones(9), np.zeros(9)
    hits[0], misses[1] = 0, 1
    for a, b in ((hits, misses), (misses, hits)):
        low, high = difference_interval(mean_metric(a), mean_metric(b))
        assert -100 <= low < high <= 100
        assert max(-low, high) == 100  # Student's would go on
