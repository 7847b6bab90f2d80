r"""Macro-F₁ and its 95 % interval, for labels of which some have a single sentence.

With h hits and o sentences that have a label on one side alone, a label's :math:`F_1 = 2h / (2h + o) = 2J / (1 + J)`,
where :math:`J = h / (h + o)` is a share of N = h + o sentences, each a hit or none. A label that occurs once has J = 0
or 1 and would seem to vary by nothing; so the labels inform each other: their J are drawn from one beta distribution,
Beta(μs, (1 - μ)s), frequent and rare labels each from their own, of which μ and s are drawn from their posterior on a
grid (a hierarchical beta-binomial model; Gelman et al. 2013, "Bayesian Data Analysis", 5.3). Draws of all J give draws
of macro-F₁.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pellucid.evaluate.intervals import PERCENT, Bounds
from pellucid.evaluate.significance import DEFAULT_SEED

_DRAWS = 1000
_FREQUENT = 20  # sentences, from which a label is
_STEP = 0.025
_MEANS = np.arange(_STEP / 2, 1, _STEP)
_STRENGTHS = 2.0 ** np.arange(-1, 8)
_lgamma = np.vectorize(math.lgamma, otypes=[float])

Floats = NDArray[np.float64]


class Counts(NamedTuple):
    """Of each label that occurs: sentences that have it on both sides, and on one alone; and the errors that a label
    shares with another [true, predicted]."""

    hits: Floats
    others: Floats
    errors: Floats


def counts_of(confusion: Floats) -> Counts:
    """From sentences [true, predicted]; labels that neither side has are left out."""
    occurs = confusion.sum(0) + confusion.sum(1) > 0
    confusion = confusion[np.ix_(occurs, occurs)]
    hits = np.diag(confusion).copy()
    return Counts(hits, confusion.sum(0) + confusion.sum(1) - 2 * hits, confusion - np.diag(hits))


def macro_f1(confusion: Floats) -> float:
    """In 0 to 100: the mean F₁ of the labels that occur among the true or the predicted, as scikit-learn has it."""
    hits, others, _ = counts_of(confusion)
    return float(100 * (2 * hits / (2 * hits + others)).mean())


def macro_f1_interval(confusion: Floats) -> Bounds:
    """The middle 95 % of the draws, widened by what an error that two labels share adds; it contains the score. Counts
    may be effective ones, as of sentences that share their source."""
    counts, score = counts_of(confusion), macro_f1(confusion)
    shares = _draws(counts, np.random.default_rng(DEFAULT_SEED))
    drawn = np.clip(100 * (2 * shares / (1 + shares)).mean(axis=1), 1e-6, 100 - 1e-6)
    middle = PERCENT.to(float(np.median(drawn)))
    reach = _together(counts, shares.mean(axis=0))
    low, high = (PERCENT.back(middle + reach * (PERCENT.to(float(edge)) - middle))
                 for edge in np.quantile(drawn, [0.025, 0.975]))
    return min(low, score), max(high, score)


def _draws(counts: Counts, random: np.random.Generator) -> Floats:
    """J of each label, [draws, labels]."""
    hits, trials = counts.hits, counts.hits + counts.others
    shares = np.empty((_DRAWS, len(hits)))
    for group in (trials >= _FREQUENT, trials < _FREQUENT):
        if group.any():
            mean, strength = _common(hits[group], trials[group], random)
            shares[:, group] = random.beta(mean * strength + hits[group],
                                           (1 - mean) * strength + trials[group] - hits[group])
    return shares


def _common(hits: Floats, trials: Floats, random: np.random.Generator) -> tuple[Floats, Floats]:
    """Draws of μ and s [draws, 1] from their posterior, under which all on the grid are equally likely beforehand."""
    means, strengths = (grid.ravel() for grid in np.meshgrid(_MEANS, _STRENGTHS, indexing="ij"))
    a, b = means * strengths, (1 - means) * strengths
    kinds, counted = np.unique(np.stack([hits, trials - hits]), axis=1, return_counts=True)
    log = sum(n * (_log_beta(a + h, b + o) - _log_beta(a, b)) for h, o, n in zip(*kinds, counted, strict=True))
    weights = np.exp(log - np.max(log))
    chosen = random.choice(len(means), _DRAWS, p=weights / weights.sum())
    return (means[chosen] + _STEP * (random.random(_DRAWS) - 0.5))[:, None], strengths[chosen][:, None]


def _log_beta(a: Floats, b: Floats) -> Floats:
    found: Floats = _lgamma(a) + _lgamma(b) - _lgamma(a + b)
    return found


def _together(counts: Counts, shares: Floats) -> float:
    """By how much an error that counts for two labels makes macro-F₁ vary more than two errors would: the ratio of
    standard errors by the delta method, with one more error anywhere."""
    hits, others, errors = counts
    trials, slope = hits + others, 2 / (1 + shares) ** 2
    by_hit, by_error = slope * (1 - shares) / trials, slope * shares / trials
    anywhere = np.outer(errors.sum(1) + hits + 0.5, errors.sum(0) + hits + 0.5)
    np.fill_diagonal(anywhere, 0)
    errors = errors + (anywhere / anywhere.sum() if len(hits) > 1 else 0)
    alone = (hits * by_hit**2).sum()
    apart = (errors * (by_error[:, None] ** 2 + by_error**2)).sum()
    shared = (errors * (by_error[:, None] + by_error) ** 2).sum()
    return math.sqrt((alone + shared) / (alone + apart)) if alone + apart > 0 else 1.0
