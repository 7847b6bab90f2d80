"""Student's t for any degrees of freedom.

The distribution is a regularised incomplete beta function, by its continued fraction (DLMF 8.17.22), so that base
dependencies suffice; tests hold it against scipy.
"""

import functools
import math
from collections.abc import Callable

CONFIDENCE = 0.95
NORMAL = 1.959963984540054  # what `critical_value` tends to
_MANY = 1e6  # degrees of freedom from which a variance counts as known
_TINY = 1e-300


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


@functools.lru_cache
def critical_value(degrees: float, confidence: float = CONFIDENCE) -> float:
    """The t with P(|T| ≤ t) = `confidence`, by bisection."""
    return root(lambda t: central_probability(t, degrees) - confidence, 1.0)


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
