"""Every corpus score, its 95 % interval and its paired test, from one table of per-sentence statistics.

A corpus metric is written as ``score(Σᵢ statistics[i])``: BLEU's statistics are n-gram counts, perplexity's are nats
and tokens, accuracy's are hits and sentences. A bootstrap resample is a weighted sum of rows: no text is read twice.
Bootstrap and paired test: Koehn (2004), "Statistical Significance Tests for Machine Translation Evaluation".
Approximate randomisation: Riezler and Maxwell (2005), "On Some Pitfalls in Automatic Evaluation and Significance
Testing for MT".
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

DEFAULT_RESAMPLES = 1000
DEFAULT_TRIALS = 2000  # of approximate randomisation
DEFAULT_SEED = 12345  # sacreBLEU's, so that its resamples and ours are the same sentences
_ROUNDING = 1e-9  # by which equal differences may differ, in how they were summed


@final
@dataclass(frozen=True, eq=False)
class SentenceStatistics:
    """A metric over a corpus of n sentences, ready to be scored on any resample of them.

    Args:
        name: the score's key in reports, such as ``bleu``.
        statistics: ``[n, k]`` finite numbers whose column sums are all that `score` needs.
        score: from the column sums ``[k]`` to the score, in the score's own unit.

    Raises:
        ValueError: if the table is not two-dimensional, has no row, or holds a number that is not finite.
    """

    name: str
    statistics: NDArray[np.float64]
    score: Callable[[NDArray[np.float64]], float]

    def __post_init__(self) -> None:
        if self.statistics.ndim != 2 or len(self.statistics) == 0:
            shape = self.statistics.shape
            raise ValueError(f"{self.name} needs statistics [n, k] of at least one sentence, got {shape}")
        if not np.isfinite(self.statistics).all():
            row = int(np.argmin(np.isfinite(self.statistics).all(axis=1)))
            raise ValueError(f"{self.name}: the statistics of sentence {row + 1} are not finite")


@final
@dataclass(frozen=True)
class Comparison:
    """One score of two systems on the same sentences.

    `difference` is score(a) − score(b), in the score's unit; `p` is the paired bootstrap's probability of a
    difference at least as large if the systems were equal. `a` and `b` are the systems' names.
    """

    score: str
    a: str
    b: str
    difference: float
    p: float


def corpus_score(metric: SentenceStatistics) -> float:
    """The metric over all its sentences, in its own unit."""
    return metric.score(metric.statistics.sum(axis=0))


def mean_percentage(sums: NDArray[np.float64]) -> float:
    """The score of metrics that are a mean over sentences: from ``[sum, sentences]`` to 100 · sum / sentences."""
    return 100.0 * float(sums[0]) / float(sums[1])


def resampled_scores(metric: SentenceStatistics, resamples: int = DEFAULT_RESAMPLES,
                     seed: int = DEFAULT_SEED) -> NDArray[np.float64]:
    """Scores ``[resamples]`` of corpora of n sentences drawn with replacement.

    Under one seed, resample i draws the same sentences for every metric of n sentences: that is what pairs two systems.

    Raises:
        ValueError: if `resamples` is below 1.
    """
    if resamples < 1:
        raise ValueError(f"a bootstrap needs at least one resample, got {resamples}")
    generator = np.random.default_rng(seed)
    n = len(metric.statistics)
    scores = np.empty(resamples)
    for i in range(resamples):
        # How often each sentence was drawn: [n] @ [n, k] is the resample's sum, without a [resamples, n, k] table.
        drawn = np.bincount(generator.integers(n, size=n), minlength=n).astype(np.float64)
        scores[i] = metric.score(drawn @ metric.statistics)
    return scores


def bootstrap_interval(metric: SentenceStatistics, resamples: int = DEFAULT_RESAMPLES,
                       seed: int = DEFAULT_SEED) -> tuple[float, float]:
    """The 95 % percentile interval (low, high) of the metric, in its own unit.

    One resample in forty is cut off at each end; the bounds are themselves resampled scores, so an infinite one stays
    infinite. Errors as in `resampled_scores`.
    """
    scores = np.sort(resampled_scores(metric, resamples, seed))
    cut = resamples // 40
    return float(scores[cut]), float(scores[resamples - 1 - cut])


def paired_bootstrap(a: SentenceStatistics, b: SentenceStatistics, names: tuple[str, str] = ("a", "b"),
                     resamples: int = DEFAULT_RESAMPLES, seed: int = DEFAULT_SEED) -> Comparison:
    """Tests whether systems `a` and `b` differ: the paired bootstrap (Koehn 2004), two-sided.

    With d the observed difference and dᵢ that of resample i, ``p = (1 + #{|dᵢ − mean d| ≥ |d|}) / (1 + resamples)``:
    the resampled differences, moved to mean zero as if the systems were equal, against the observed one. Of systems
    that are equally good, one pair in twenty comes out below 0.05. sacreBLEU drops the sign of dᵢ before the move,
    which makes its p the one-sided one, about half of this, and one pair in ten of equal systems comes out below 0.05.

    Raises:
        ValueError: if the two are different metrics or differ in their number of sentences, or `resamples` is below 1.
    """
    _check_paired(a, b, names)
    difference = corpus_score(a) - corpus_score(b)
    resampled = resampled_scores(a, resamples, seed) - resampled_scores(b, resamples, seed)
    extreme = int(np.sum(np.abs(resampled - resampled.mean()) >= abs(difference)))
    return Comparison(a.name, names[0], names[1], difference, (extreme + 1) / (resamples + 1))


def approximate_randomisation(
        a: SentenceStatistics, b: SentenceStatistics, trials: int = DEFAULT_TRIALS, seed: int = DEFAULT_SEED) -> float:
    """p of the hypothesis that it does not matter which system an output is from, two-sided.

    In each trial every sentence's outputs change places between the systems with probability ½;
    ``p = (1 + #{|dᵢ| ≥ |d|}) / (1 + trials)``. It asks nothing of the score's distribution, and converges to the exact
    permutation test.

    Raises:
        ValueError: as in `paired_bootstrap`; or `trials` is below 1.
    """
    _check_paired(a, b, ("a", "b"))
    if trials < 1:
        raise ValueError(f"approximate randomisation needs at least one trial, got {trials}")
    generator = np.random.default_rng(seed)
    of_a, of_b = a.statistics.sum(axis=0), b.statistics.sum(axis=0)
    moved = b.statistics - a.statistics
    difference = abs(a.score(of_a) - b.score(of_b))
    extreme = 0
    for _ in range(trials):
        change = generator.integers(2, size=len(moved)).astype(np.float64) @ moved
        other = abs(a.score(of_a + change) - b.score(of_b - change))
        extreme += not other < difference - _ROUNDING * (1 + difference)  # a NaN, of infinite scores, tells nothing
    return (extreme + 1) / (trials + 1)


def difference_interval(
    a: SentenceStatistics, b: SentenceStatistics, resamples: int = DEFAULT_RESAMPLES, seed: int = DEFAULT_SEED
) -> tuple[float, float]:
    """The 95 % percentile interval (low, high) of score(a) − score(b), over sentences drawn for both at once."""
    _check_paired(a, b, ("a", "b"))
    scores = np.sort(resampled_scores(a, resamples, seed) - resampled_scores(b, resamples, seed))
    cut = resamples // 40
    return float(scores[cut]), float(scores[resamples - 1 - cut])


def _check_paired(a: SentenceStatistics, b: SentenceStatistics, names: tuple[str, str]) -> None:
    if a.name != b.name:
        raise ValueError(f"cannot compare {a.name} with {b.name}: a paired test needs one metric")
    if len(a.statistics) != len(b.statistics):
        raise ValueError(f"{names[0]} has {len(a.statistics)} sentences and {names[1]} has {len(b.statistics)}: "
                         "a paired test needs the same sentences")
