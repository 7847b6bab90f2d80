"""Holm's correction: p of several tests, so that the chance of any false positive among them stays at the level."""

from collections.abc import Sequence


def holm(ps: Sequence[float | None]) -> list[float | None]:
    """Holm's step-down adjustment (1979): the smallest of m is multiplied by m, the next by m − 1 and so on, none falls
    below the one before, none exceeds 1. It holds however the tests depend on each other. None stays None and does not
    count.
    """
    tested = sorted((p, i) for i, p in enumerate(ps) if p is not None)
    adjusted: list[float | None] = [None] * len(ps)
    highest = 0.0
    for rank, (p, i) in enumerate(tested):
        highest = max(highest, min(1.0, p * (len(tested) - rank)))
        adjusted[i] = highest
    return adjusted
