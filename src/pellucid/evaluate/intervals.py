r"""95 % intervals of corpus scores over sentences that are drawn with their source: all rows of one source together.

Three kinds, each for scores it suits: Wilson's for shares of sentences, the jackknife's for what is smooth in the sums,
and one for macro-F₁, where a label may have a single sentence (evaluate/macro_f1.py). All stay where the score can be,
contain it, and cover what `python -m benchmarks.coverage` prints.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pellucid.evaluate.student import NORMAL, critical_value

Bounds = tuple[float, float]
_ROUNDING = 1e-9  # by which a perfect score may differ from its bound
_MOST_GROUPS = 500  # that the jackknife leaves out, one after another


class Scale(NamedTuple):
    """A way to tell a score without bounds, so that an interval around it stays where the score can be: there, back,
    and the slope of there.

    `is_counted`: of what an output has, so that sources may share a score by chance; not of what a model thinks.
    """

    to: Callable[[float], float]
    back: Callable[[float], float]
    slope: Callable[[float], float]
    lowest: float
    highest: float
    is_counted: bool = True


PERCENT = Scale(lambda x: math.log(x / (100 - x)), lambda y: 100 / (1 + math.exp(-y)) if y > -700 else 0.0,
                lambda x: 100 / (x * (100 - x)), 0, 100)
RATE = Scale(math.log, lambda y: math.exp(min(y, 700)), lambda x: 1 / x, 0, math.inf)
LIKELIHOOD = RATE._replace(is_counted=False)


def wilson(hits: NDArray[np.float64], rows: NDArray[np.float64]) -> Bounds:
    """Of the percentage of rows that are hits (Wilson 1927), hits and rows by source [G]; n is the effective number of
    rows, over the `design_effect`."""
    n = float(rows.sum()) / design_effect(hits, rows)
    p = float(hits.sum() / rows.sum())
    z = NORMAL**2 / n
    middle, reach = p + z / 2, math.sqrt(z * p * (1 - p) + z * z / 4)
    low, high = ((middle + sign * reach) / (1 + z) for sign in (-1, 1))
    return (0.0 if p == 0 else 100 * max(low, 0.0)), (100.0 if p == 1 else 100 * min(high, 1.0))


def bonett_price(won: NDArray[np.float64], lost: NDArray[np.float64], rows: NDArray[np.float64]) -> Bounds:
    """Of the percentage of rows that one of two systems alone has right less that which the other alone has, by source
    [G]: Wald's with one row more that is won and one that is lost (Bonett and Price 2012, "Adjusted Wald Confidence
    Interval for a Difference of Binomial Proportions Based on Paired Data"). n is the effective number of rows."""
    n = float(rows.sum())
    apart, either = float((won - lost).sum()) / n, float((won + lost).sum()) / n
    effect = design_effect(won - lost, rows, either - apart**2)
    whole = n / effect + 2
    middle, either = apart * (n / effect) / whole, (either * n / effect + 2) / whole
    reach = NORMAL * math.sqrt((either - middle**2) / whole)
    return 100 * max(middle - reach, -1.0), 100 * min(middle + reach, 1.0)


def design_effect(sums: NDArray[np.float64], rows: NDArray[np.float64], variance: float | None = None) -> float:
    """How many times the variance of a mean over n rows is that of one row / n, as rows of one source are alike (Kish
    1965): from 1 to n. Where no row differs from the others, which tells nothing of it, rows a source.

    Args:
        sums, rows: by source [G].
        variance: of a row; without it p(1 - p), of rows that are hits or none.
    """
    n, sources = float(rows.sum()), len(rows)
    if not (rows > 1).any():
        return 1.0
    p = float(sums.sum()) / n
    variance = p * (1 - p) if variance is None else variance
    if variance <= 0 or sources == 1:
        return n / sources
    between = sources / (sources - 1) * float(((sums - p * rows) ** 2).sum()) / n**2
    return min(max(between / (variance / n), 1.0), n)


def by_jackknife(sums: NDArray[np.float64], score: Callable[[NDArray[np.float64]], float], scale: Scale) -> Bounds:
    """Of a score of the column sums [k] of sources' statistics [G, k]: Student's t on an unbounded scale, with the
    standard error of leaving out one source (Quenouille 1949, Tukey 1958), or one group of them.

    A score that all sources share has no standard error. Where it is counted, or at a bound, as many others as there
    may be where none of so many sources was one (Wilson's bound of none) may be lost or perfect: 100 or 0 has the
    interval of so many hits, or none.
    """
    whole = score(sums.sum(axis=0))
    if len(sums) < 2:
        return scale.lowest, scale.highest
    if not math.isfinite(whole):
        return whole, whole
    is_at_bound = whole <= scale.lowest + _ROUNDING or whole >= scale.highest - _ROUNDING
    error = 0.0 if is_at_bound else jackknife_error(sums, score)
    if is_at_bound or (scale.is_counted and error <= _ROUNDING * whole):
        other = wilson(np.zeros(len(sums)), np.ones(len(sums)))[1] / 100
        above = 0.0 if math.isfinite(scale.highest) else whole / (1 - other)  # a rate may pass 100
        return whole * (1 - other), max(whole + other * (100 - whole), above)
    reach = critical_value(min(len(sums), _MOST_GROUPS) - 1) * error * scale.slope(whole)
    middle = scale.to(whole)
    return scale.back(middle - reach), scale.back(middle + reach)


def jackknife_error(sums: NDArray[np.float64], score: Callable[[NDArray[np.float64]], float]) -> float:
    """The standard error of the score, from leaving out one source after another."""
    left = left_out(sums, score)
    return math.sqrt((len(left) - 1) / len(left) * float(((left - left.mean()) ** 2).sum()))


def left_out(sums: NDArray[np.float64], score: Callable[[NDArray[np.float64]], float]) -> NDArray[np.float64]:
    """The score without each source, or each of some groups of sources: the same ones for as many sources."""
    if len(sums) > _MOST_GROUPS:
        sums = sums_by(sums, np.random.default_rng(0).permutation(len(sums)) % _MOST_GROUPS)
    whole = sums.sum(axis=0)
    return np.array([score(whole - one) for one in sums])


def sums_by(rows: NDArray[np.float64], group: NDArray[np.int64]) -> NDArray[np.float64]:
    """Rows [n, k] summed by their group, counted from 0: [groups, k]."""
    sums = np.zeros((int(group.max()) + 1, rows.shape[1]))
    np.add.at(sums, group, rows)
    return sums
