"""Student's t for any degrees of freedom, the variance of few values by what many have in common, and the error of a
mean whose variance has several parts.

The distribution is a regularised incomplete beta function, by its continued fraction (DLMF 8.17.22), so that base
dependencies suffice; tests hold it against scipy, and the coverage and error rates against simulation.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

CONFIDENCE = 0.95
_SMALLEST = 1e-4  # of the mean variance: what no variance moves the common one by falling below
_SHARED = 0.25  # squared correlation of two differences to one baseline, where all cells vary alike
_MANY = 1e6  # degrees of freedom from which a variance counts as known
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


def central_probability(t: float, degrees: float) -> float:
    """A(t | ν) = P(|T| ≤ |t|) = 1 − I_x(ν/2, ½) at x = ν / (ν + t²), for Student's T with ν degrees of freedom.

    Raises:
        ValueError: ν not above 0.
    """
    if not degrees > 0:
        raise ValueError(f"Student's t needs degrees of freedom above 0, not {degrees}")
    if degrees > _MANY:
        return math.erf(abs(t) / math.sqrt(2))
    return _beta(t * t / (degrees + t * t), 0.5, degrees / 2)


def two_sided_p(t: float, degrees: float) -> float:
    """P(|T| ≥ |t|)."""
    if not 0 < degrees <= _MANY:
        return max(0.0, 1.0 - central_probability(t, degrees))
    return _beta(degrees / (degrees + t * t), degrees / 2, 0.5)


def root(rising: Callable[[float], float], guess: float) -> float:
    """Where a function that rises from below 0 at 0 passes it, by bisection from `guess` on."""
    low, high = 0.0, guess
    while rising(high) < 0:
        high *= 2
    while (middle := (low + high) / 2) not in (low, high) and high - low > 1e-11 * high:
        low, high = (middle, high) if rising(middle) < 0 else (low, middle)
    return high


def _beta(x: float, a: float, b: float) -> float:
    """I_x(a, b), by the side on which the continued fraction converges fast."""
    if x <= 0 or x >= 1:
        return float(x >= 1)
    front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x))
    if x > (a + 1) / (a + b + 2):
        return 1.0 - front / (b * _fraction(1 - x, b, a))
    return front / (a * _fraction(x, a, b))


def _fraction(x: float, a: float, b: float) -> float:
    """The continued fraction 1 + d₁/(1 + d₂/(1 + …)) of DLMF 8.17.22, by Lentz's method."""
    value, c, d = 1.0, 1.0, 0.0
    for i in range(1, 1000):
        m = i // 2
        term = m * (b - m) * x / ((a + i - 1) * (a + i)) if i % 2 == 0 else \
            -(a + m) * (a + b + m) * x / ((a + i - 1) * (a + i))
        d = 1.0 / (1.0 + term * d or _TINY)
        c = 1.0 + term / c or _TINY
        value *= c * d
        if abs(c * d - 1) < 1e-15:
            break
    return value


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
    residuals = [values - np.nanmean(values) if np.isfinite(values).any() else values for values in residuals]
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
