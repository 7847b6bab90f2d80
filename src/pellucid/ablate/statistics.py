"""Student's t for whole degrees of freedom, intervals over seeds, the paired test, and Holm's correction.

The distribution has a closed form there (Abramowitz and Stegun 1964, 26.7.3 and 26.7.4), so that base dependencies
suffice; tests hold all of it against scipy, and the coverage and error rates against simulation.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Interval:
    """A mean and its 95 % t-interval; `low` and `high` are None for a single value, which has none."""

    mean: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class PairedTest:
    """The mean difference with its interval; p is two-sided, and None where no test can be made."""

    difference: Interval
    p: float | None


def central_probability(t: float, degrees: int) -> float:
    """A(t | ν) = P(|T| ≤ |t|) for Student's T with ν whole degrees of freedom.

    With θ = atan(t / √ν): for odd ν (2/π)(θ + sin θ (cos θ + 2/3 cos³ θ + …)), for even ν sin θ (1 + 1/2 cos² θ + …).

    Raises:
        ValueError: ν below 1.
    """
    if degrees < 1:
        raise ValueError(f"Student's t needs a degree of freedom at least, not {degrees}")
    theta = math.atan(abs(t) / math.sqrt(degrees))
    odd = degrees % 2
    term = math.cos(theta) if odd else 1.0
    total = 0.0
    for i in range(degrees // 2):
        total += term
        term *= math.cos(theta) ** 2 * (2 * i + 1 + odd) / (2 * i + 2 + odd)
    return 2 / math.pi * (theta + math.sin(theta) * total) if odd else math.sin(theta) * total


def two_sided_p(t: float, degrees: int) -> float:
    """P(|T| ≥ |t|)."""
    return max(0.0, 1.0 - central_probability(t, degrees))


def critical_value(degrees: int, confidence: float = CONFIDENCE) -> float:
    """The t with P(|T| ≤ t) = `confidence`, by bisection."""
    low, high = 0.0, 1.0
    while central_probability(high, degrees) < confidence:
        high *= 2
    while (middle := (low + high) / 2) not in (low, high):
        low, high = (middle, high) if central_probability(middle, degrees) < confidence else (low, middle)
    return high


def mean_interval(values: Sequence[float]) -> Interval:
    """x̄ ± t s / √n over n values, one a seed.

    Raises:
        ValueError: no value.
    """
    if not values:
        raise ValueError("the mean of no values")
    mean = fmean(values)
    if len(values) == 1:
        return Interval(mean, None, None)
    reach = critical_value(len(values) - 1) * stdev(values) / math.sqrt(len(values))
    return Interval(mean, mean - reach, mean + reach)


def paired_test(values: Sequence[float], baseline: Sequence[float]) -> PairedTest:
    """Student's paired t-test of values − baseline, seed for seed.

    Differences that are all alike leave no variation to test against: p is 1 where they are 0, else None. A single
    seed gives a difference and nothing more.

    Raises:
        ValueError: no pair, or not as many of the one as of the other.
    """
    differences = [a - b for a, b in zip(values, baseline, strict=True)]
    interval = mean_interval(differences)
    if len(differences) == 1:
        return PairedTest(interval, None)
    error = stdev(differences) / math.sqrt(len(differences))
    if error <= 1e-12 * abs(interval.mean):
        return PairedTest(interval, 1.0 if interval.mean == 0 else None)
    return PairedTest(interval, two_sided_p(interval.mean / error, len(differences) - 1))


def holm(ps: Sequence[float | None]) -> list[float | None]:
    """Holm's step-down adjustment (1979): the smallest of m is multiplied by m, the next by m − 1 and so on, none falls
    below the one before, none exceeds 1. The chance of any false positive in the family stays at the level, however the
    tests depend on each other. None stays None and does not count.
    """
    tested = sorted((p, i) for i, p in enumerate(ps) if p is not None)
    adjusted: list[float | None] = [None] * len(ps)
    highest = 0.0
    for rank, (p, i) in enumerate(tested):
        highest = max(highest, min(1.0, p * (len(tested) - rank)))
        adjusted[i] = highest
    return adjusted
