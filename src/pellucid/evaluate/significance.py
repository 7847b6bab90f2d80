"""Every corpus score, its 95 % interval and its paired tests, from one table of per-sentence statistics.

A corpus metric is written as ``score(Σᵢ statistics[i])``: BLEU's statistics are n-gram counts, perplexity's are nats
and tokens, accuracy's are hits and sentences. What is drawn anew, left out or exchanged is a source with all its rows:
sentences with one source share its difficulty, and n of them tell less than n sources do. No text is read twice.
Paired bootstrap: Koehn (2004), "Statistical Significance Tests for Machine Translation Evaluation". Approximate
randomisation: Riezler and Maxwell (2005), "On Some Pitfalls in Automatic Evaluation and Significance Testing for MT".
"""

import itertools
import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from pellucid.evaluate.intervals import (
    LIKELIHOOD,
    PERCENT,
    RATE,
    Bounds,
    bonett_price,
    by_jackknife,
    jackknife_error,
    sums_by,
    wilson,
)
from pellucid.evaluate.student import CONFIDENCE, NORMAL, critical_value

DEFAULT_RESAMPLES = 1000
DEFAULT_TRIALS = 2000  # of approximate randomisation
DEFAULT_SEED = 12345  # sacreBLEU's, so that its resamples and ours are the same sentences
_ROUNDING = 1e-9  # by which equal differences may differ, in how they were summed

Sums = NDArray[np.float64]
Score = Callable[[Sums], float]


def smooth_interval(metric: "SentenceStatistics") -> Bounds:
    """Of a score that is smooth in the sums."""
    scale = PERCENT if metric.highest == 100 else LIKELIHOOD if metric.is_likelihood else RATE
    return by_jackknife(metric.by_source, metric.score, scale)


def share_interval(metric: "SentenceStatistics") -> Bounds:
    """Of `mean_percentage` where every sentence is a hit or none."""
    return wilson(*metric.by_source.T)


@final
@dataclass(frozen=True, eq=False)
class SentenceStatistics:
    """A metric over a corpus of n sentences, ready to be scored on any resample of them.

    Args:
        name: the score's key in reports, such as ``bleu``.
        statistics: ``[n, k]`` finite numbers whose column sums are all that `score` needs.
        score: from the column sums ``[k]`` to the score, in the score's own unit.
        interval: the 95 % interval of the score, over sources like these.
        highest: score that there can be; the lowest is 0.
        tested: in place of `score`, what two systems are tested by; for scores that may be infinite.
        sources: ``[n]``, the number of each sentence's source, from 0; without it each has its own.
        is_smooth: a single source changes it little; by a bootstrap of what is not, equal systems differ too often.
        is_likelihood: of what the model thinks, not of what it wrote: two that agree on all of it are one model.

    Raises:
        ValueError: if the table is not two-dimensional, has no row, or holds a number that is not finite.
    """

    name: str
    statistics: NDArray[np.float64]
    score: Score
    interval: Callable[["SentenceStatistics"], Bounds] = smooth_interval
    highest: float = 100.0
    tested: Score | None = None
    sources: NDArray[np.int64] | None = None
    is_smooth: bool = True
    is_likelihood: bool = False
    resampled: dict[tuple[int, int], Sums] = field(default_factory=dict, init=False, repr=False)
    """what `resampled_scores` has found, by the number of resamples and the seed"""

    def __post_init__(self) -> None:
        if self.statistics.ndim != 2 or len(self.statistics) == 0:
            shape = self.statistics.shape
            raise ValueError(f"{self.name} needs statistics [n, k] of at least one sentence, got {shape}")
        if not np.isfinite(self.statistics).all():
            row = int(np.argmin(np.isfinite(self.statistics).all(axis=1)))
            raise ValueError(f"{self.name}: the statistics of sentence {row + 1} are not finite")

    @cached_property
    def by_source(self) -> Sums:
        """The statistics summed by source, [G, k]."""
        return self.statistics if self.sources is None else sums_by(self.statistics, self.sources)


def with_sources(metric: SentenceStatistics, sources: Sequence[Hashable]) -> SentenceStatistics:
    """The same metric, sentences with equal sources taken together.

    Raises:
        ValueError: not as many sources as sentences.
    """
    if len(sources) != len(metric.statistics):
        raise ValueError(f"{len(metric.statistics)} sentences but {len(sources)} sources")
    numbers: dict[Hashable, int] = {}
    places = [numbers.setdefault(source, len(numbers)) for source in sources]
    return replace(metric, sources=None if len(numbers) == len(places) else np.array(places, dtype=np.int64))


def of_sentences(metric: SentenceStatistics, chosen: NDArray[np.bool_]) -> SentenceStatistics:
    """The same metric of the chosen sentences alone."""
    part = replace(metric, statistics=metric.statistics[chosen], sources=None)
    return part if metric.sources is None else with_sources(part, metric.sources[chosen].tolist())


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


def interval_of(metric: SentenceStatistics) -> Bounds:
    """The 95 % interval (low, high) of the metric over sources like these, in its own unit."""
    return metric.interval(metric)


def as_report(statistics: Mapping[str, SentenceStatistics]) -> dict[str, Any]:
    """Every score by its name, and under "interval" the intervals of all, as plain data."""
    scores = {name: corpus_score(metric) for name, metric in statistics.items()}
    return {**scores, "interval": {name: list(interval_of(metric)) for name, metric in statistics.items()}}


def resampled_scores(metric: SentenceStatistics, resamples: int, seed: int = DEFAULT_SEED) -> NDArray[np.float64]:
    """What is tested of the metric, ``[resamples]``, on corpora of G sources drawn with replacement.

    Under one seed, resample i draws the same sources for every metric of G sources: that is what pairs two systems.

    Raises:
        ValueError: if `resamples` is below 1.
    """
    if resamples < 1:
        raise ValueError(f"a bootstrap needs at least one resample, got {resamples}")
    if (resamples, seed) not in metric.resampled:  # it takes long, and each run is compared with all others
        generator, score, n = np.random.default_rng(seed), metric.tested or metric.score, len(metric.by_source)
        scores = np.empty(resamples)
        for i in range(resamples):
            # How often each source was drawn: [G] @ [G, k] is the resample's sum, without a [resamples, G, k] table.
            drawn = np.bincount(generator.integers(n, size=n), minlength=n).astype(np.float64)
            scores[i] = score(drawn @ metric.by_source)
        scores.flags.writeable = False
        metric.resampled[resamples, seed] = scores
    return metric.resampled[resamples, seed]


def paired_bootstrap(a: SentenceStatistics, b: SentenceStatistics, names: tuple[str, str] = ("a", "b"),
                     resamples: int = DEFAULT_RESAMPLES, seed: int = DEFAULT_SEED) -> Comparison:
    """Tests whether systems `a` and `b` differ: the paired bootstrap (Koehn 2004), two-sided.

    With d the observed difference and dᵢ that of resample i, ``p = (1 + #{c|dᵢ − mean d| ≥ |d|}) / (1 + resamples)``:
    the resampled differences, moved to mean zero as if the systems were equal, against the observed one. The factor
    ``c = √(G / (G − 1)) · t / z`` makes up for what a bootstrap of G sources is too narrow by (Hesterberg 2015, "What
    Teachers Should Know About the Bootstrap"). sacreBLEU drops the sign of dᵢ before the move, which makes its p the
    one-sided one, about half of this, and one pair in ten of equal systems comes out below 0.05.

    p is never below `least_p`: sources that all differ by as much have no spread to draw from, however few they are.

    Raises:
        ValueError: if the two are different metrics or differ in their sentences, or `resamples` is below 1.
    """
    _check_paired(a, b, names)
    difference, tested, n = corpus_score(a) - corpus_score(b), abs(_tested(a) - _tested(b)), len(a.by_source)
    resampled = resampled_scores(a, resamples, seed) - resampled_scores(b, resamples, seed)
    least = least_p(_differing(a, b))
    if n == 1:
        return Comparison(a.name, names[0], names[1], difference, least)
    moved = math.sqrt(n / (n - 1)) * critical_value(n - 1) / NORMAL * np.abs(resampled - resampled.mean())
    extreme = int(np.sum(~(moved < tested)))  # a NaN tells nothing
    return Comparison(a.name, names[0], names[1], difference, max((extreme + 1) / (resamples + 1), least))


def least_p(differ: int) -> float:
    """The least p that the exact test over all exchanges can have, where so many sources differ: 2 of 2ᵈ exchanges, all
    and none, make the difference as large as it is. Three sources that all say the same have 0.25."""
    return 2.0 ** (1 - max(differ, 1))


def approximate_randomisation(
        a: SentenceStatistics, b: SentenceStatistics, trials: int = DEFAULT_TRIALS, seed: int = DEFAULT_SEED) -> float:
    """p of the hypothesis that it does not matter which system an output is from, two-sided.

    In each trial every source's outputs change places between the systems with probability ½;
    ``p = (1 + #{|dᵢ| ≥ |d|}) / (1 + trials)``. It asks nothing of the score's distribution, and converges to the exact
    permutation test; where the sources that differ can be exchanged in no more ways than `trials`, it is that test.

    Raises:
        ValueError: as in `paired_bootstrap`; or `trials` is below 1.
    """
    _check_paired(a, b, ("a", "b"))
    if trials < 1:
        raise ValueError(f"approximate randomisation needs at least one trial, got {trials}")
    generator = np.random.default_rng(seed)
    score, of_a, of_b = a.tested or a.score, a.statistics.sum(axis=0), b.statistics.sum(axis=0)
    moved = b.by_source - a.by_source
    difference = abs(score(of_a) - score(of_b))

    def is_extreme(change: Sums) -> bool:
        other = abs(score(of_a + change) - score(of_b - change))
        return not other < difference - _ROUNDING * (1 + difference)  # a NaN, of infinite scores, tells nothing

    differ = moved[moved.any(axis=1)]
    if 2 ** (len(differ) - 1) <= trials:  # all ways; to exchange the others than these makes as large a difference
        ways = itertools.product((0.0, 1.0), repeat=max(len(differ) - 1, 0))
        return float(np.mean([is_extreme(np.array(way) @ differ[1:]) for way in ways]))
    extreme = sum(is_extreme(generator.integers(2, size=len(moved)).astype(np.float64) @ moved) for _ in range(trials))
    return (extreme + 1) / (trials + 1)


def difference_interval(a: SentenceStatistics, b: SentenceStatistics) -> Bounds:
    """The 95 % interval (low, high) of score(a) − score(b).

    Of shares of sentences, `bonett_price`. Of other scores, Student's t on the standard error of leaving out one source
    of both at once, with as many degrees of freedom as sources differ, G − 1 at most; where no source changes it, both
    scores' intervals are combined (Newcombe 1998, method 10). That no sentence differs does not make two systems equal:
    what is in percent has the interval of as many shares then. Likelihoods that are equal are of one model. Where so
    few sources differ that no exact test could reject it (`least_p`), 0 is in the interval.
    """
    _check_paired(a, b, ("a", "b"))
    differ = _differing(a, b)
    low, high = _interval_of_difference(a, b, differ)
    return (min(low, 0.0), max(high, 0.0)) if least_p(differ) > 1 - CONFIDENCE else (low, high)


def _interval_of_difference(a: SentenceStatistics, b: SentenceStatistics, differ: int) -> Bounds:
    if a.interval is share_interval or (not differ and not a.is_likelihood):
        apart = a.statistics[:, 0] - b.statistics[:, 0]
        rows = np.stack([apart > 0, apart < 0, np.ones_like(apart)], axis=1)
        return bonett_price(*(rows if a.sources is None else sums_by(rows, a.sources)).T)
    if not differ:
        return 0.0, 0.0
    both, width = np.concatenate([a.by_source, b.by_source], axis=1), a.statistics.shape[1]
    of_a, of_b = corpus_score(a), corpus_score(b)
    error = jackknife_error(both, lambda s: a.score(s[:width]) - b.score(s[width:])) if len(both) > 1 else 0.0
    if error > _ROUNDING:
        reach = critical_value(min(differ, len(both) - 1)) * error
        return max(of_a - of_b - reach, -a.highest), min(of_a - of_b + reach, a.highest)
    (low_a, high_a), (low_b, high_b) = interval_of(a), interval_of(b)
    below, above = math.hypot(of_a - low_a, high_b - of_b), math.hypot(high_a - of_a, of_b - low_b)
    return of_a - of_b - below, of_a - of_b + above


def _differing(a: SentenceStatistics, b: SentenceStatistics) -> int:
    """Sources on which two systems do not have the same statistics."""
    return int((a.by_source != b.by_source).any(axis=1).sum())


def _tested(metric: SentenceStatistics) -> float:
    return (metric.tested or metric.score)(metric.statistics.sum(axis=0))


def _check_paired(a: SentenceStatistics, b: SentenceStatistics, names: tuple[str, str]) -> None:
    if a.name != b.name:
        raise ValueError(f"cannot compare {a.name} with {b.name}: a paired test needs one metric")
    if len(a.statistics) != len(b.statistics):
        raise ValueError(f"{names[0]} has {len(a.statistics)} sentences and {names[1]} has {len(b.statistics)}: "
                         "a paired test needs the same sentences")
    of_a, of_b = (np.arange(len(m.statistics)) if m.sources is None else m.sources for m in (a, b))
    if not np.array_equal(of_a, of_b):
        raise ValueError(f"{names[0]} and {names[1]} have different sources: a paired test needs the same")
