"""The variance of few values by what many have in common, and the error of a mean whose variance has several parts.

Tests hold the error rates and the coverage of both against simulation.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from pellucid.evaluate.student import CONFIDENCE, root, two_sided_p

_SMALLEST = 1e-4  # of the mean variance: what no variance moves the common one by falling below
_SHARED = 0.25  # squared correlation of two differences to one baseline, where all cells vary alike
_TINY = 1e-300


@dataclass(frozen=True)
class Variance:
    """An estimate, and the degrees of freedom that it has."""

    value: float
    degrees: float


@dataclass(frozen=True)
class Error:
    """Of a mean whose variance is the sum of independent estimates.

    The chance of a deviation is the mean of what Student's t says for the degrees of freedom of each part, weighted by
    the parts. Satterthwaite's degrees of freedom for the sum err here: a part of three values that comes out small by
    chance makes itself seem well known, and of deviations that should happen once in 340 studies, five do.
    """

    parts: tuple[Variance, ...]

    @property
    def value(self) -> float:
        """The variance of the mean."""
        return sum(part.value for part in self.parts)

    def p(self, deviation: float) -> float:
        """The chance of one as large, to either side.

        Raises:
            ValueError: the variance is 0.
        """
        if not self.value > 0:
            raise ValueError("without variance there is no test")
        t = deviation / math.sqrt(self.value)
        return sum(part.value / self.value * two_sided_p(t, part.degrees) for part in self.parts if part.value > 0)

    def reach(self, confidence: float = CONFIDENCE) -> float:
        """How far the interval reaches to either side: the deviation whose p is 1 − `confidence`."""
        whole = math.sqrt(self.value)
        return whole and root(lambda deviation: 1 - self.p(deviation) - confidence, whole)


def moderated(samples: Sequence[Sequence[float]]) -> list[Variance | None]:
    """The variance of each cell's few values, moderated by what all cells have in common; None where there is but one.

    Smyth (2004, "Linear models and empirical Bayes methods for assessing differential expression"): variances are drawn
    around a common s₀² with ν₀ degrees of freedom, both found from the spread of log s², and each s² is shrunk to
    (ν₀ s₀² + ν s²) / (ν₀ + ν). Three things make it hold for few cells that are not alike:

    - the cells share a baseline, so they say less about s₀² than as many independent ones: ν₀ is at most what their
      correlation leaves of their degrees of freedom, and a quarter of those of the other cells;
    - no variance is shrunk below its cell's own;
    - the degrees of freedom are Satterthwaite's for the sum of both terms, ν at least: a cell louder than the others
      stands on its own few values.

    Args:
        samples: of each cell, its values in the order of the seeds; NaN for a seed that it lacks.
    """
    residuals = [np.asarray(sample, dtype=np.float64) for sample in samples]
    residuals = [_centred(values) for values in residuals]
    degrees = np.array([np.isfinite(values).sum() - 1 for values in residuals])
    known = [i for i, nu in enumerate(degrees) if nu > 0]
    if not known:
        return [None] * len(samples)
    table = np.nan_to_num(np.array([residuals[i] for i in known]))
    nu = degrees[known].astype(np.float64)
    own = (table**2).sum(axis=1) / nu
    common, prior = _common(own, nu, table)
    shrunk = (prior * common + nu * own) / (prior + nu)
    weights = np.maximum(prior * common**2 + nu * own**2, _TINY)
    freedom = np.maximum(nu, (prior * common + nu * own) ** 2 / weights)
    found: list[Variance | None] = [None] * len(samples)
    for place, i in enumerate(known):
        found[i] = Variance(float(max(shrunk[place], own[place])), float(freedom[place]))
    return found


def _centred(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Without their mean; equal ones are 0 and no dust of rounding, which would pass for a variance."""
    known = values[np.isfinite(values)]
    return values - known[0] - (known - known[0]).mean() if len(known) else values


def _common(own: NDArray[np.float64], nu: NDArray[np.float64], table: NDArray[np.float64]) -> tuple[float, float]:
    """s₀² and ν₀, by the moments of log s² (Smyth 2004, section 6.2)."""
    count, mean = len(own), float(own.mean())
    if count < 2 or mean == 0:
        return mean, 0.0
    logs = np.log(np.maximum(own, _SMALLEST * mean)) - _digamma(nu / 2) + np.log(nu / 2)
    spread = float(logs.var(ddof=1) - _trigamma(nu / 2).mean())
    few = min(_from_correlation(table, nu), float(nu.sum() - nu.mean()) / 4)
    if spread <= 0:
        return mean, few
    half = 1 / root(lambda x: float(_trigamma(np.array([1 / x]))[0]) - spread, 1.0)  # trigamma falls as it grows
    shift = float(_digamma(np.array([half]))[0]) - math.log(half)
    return math.exp(float(logs.mean()) + shift), min(2 * half, few)


def _from_correlation(table: NDArray[np.float64], nu: NDArray[np.float64]) -> float:
    """What other cells add to a cell's degrees of freedom: G ν / (1 + (G − 1) ρ²) − ν, with ρ² the mean squared
    correlation of the cells' residuals, less half of what chance puts into it."""
    alive = (table**2).sum(axis=1) > 0
    few, count = float(nu.mean()), len(nu)
    square = _SHARED
    if alive.sum() > 1:
        unit = table[alive] / np.sqrt((table[alive] ** 2).sum(axis=1, keepdims=True))
        pairs = alive.sum() * (alive.sum() - 1)
        seen = (float(((unit @ unit.T) ** 2).sum()) - alive.sum()) / pairs
        square = min(1.0, max(_SHARED, (few * seen - 0.5) / (few - 0.5)))
    return max(0.0, count * few / (1 + (count - 1) * square) - few)


def _digamma(x: NDArray[np.float64]) -> NDArray[np.float64]:
    return torch.digamma(torch.from_numpy(x)).numpy()


def _trigamma(x: NDArray[np.float64]) -> NDArray[np.float64]:
    return torch.polygamma(1, torch.from_numpy(x)).numpy()
