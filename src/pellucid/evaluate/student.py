"""Student's t for whole degrees of freedom.

The distribution has a closed form there (Abramowitz and Stegun 1964, 26.7.3 and 26.7.4), so that base dependencies
suffice; tests hold it against scipy.
"""

import functools
import math

CONFIDENCE = 0.95
NORMAL = 1.959963984540054  # what `critical_value` tends to


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


@functools.lru_cache
def critical_value(degrees: int, confidence: float = CONFIDENCE) -> float:
    """The t with P(|T| ≤ t) = `confidence`, by bisection."""
    low, high = 0.0, 1.0
    while central_probability(high, degrees) < confidence:
        high *= 2
    while (middle := (low + high) / 2) not in (low, high):
        low, high = (middle, high) if central_probability(middle, degrees) < confidence else (low, middle)
    return high
