"""What one metric says of all cells: the interval of each, and its difference to the baseline with a test; and, by the
same rules, what differences between means of cells come to (ablate/grid.py).

With z = g(score) on the metric's scale (ablate/scales.py), cells c, seeds s and test sentences i:
z_cs = μ_c + seed_s + sentence_i + seed_s × sentence_i. Differences to the baseline are paired by seed and by sentence.
The variance of their mean is that of the seeds, moderated over the cells (ablate/statistics.py), and what the sentences
add beyond it, from the jackknife's influence of each sentence on each run (evaluate/influence.py).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

from pellucid.ablate.scales import PROPORTIONS, Scale, scale_of, score_of
from pellucid.ablate.statistics import Error, Variance, moderated

UNKNOWN_SENTENCES = 500  # that a percentage is taken to be of, where nobody says
_HALF_A_SENTENCE = 0.5
_ROUNDING = 1e-9  # by which sums of equal numbers may differ
_DIGITS = 12  # that are kept of a sum over cells, for the same reason
_POINTS = 721  # of the edge of a region, at which its difference is looked at
_NONE = Variance(0.0, 1.0)
Rows = NDArray[np.float64]


@dataclass(frozen=True)
class Interval:
    """A mean and its 95 % interval, in the score's own unit; `low` and `high` are None where nothing tells how far it
    reaches: of a single seed, or where nothing varies. Both are possible scores, or differences of such."""

    mean: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class PairedTest:
    """The mean difference to the baseline with its interval; p is two-sided, and None where no test can be made.

    `on_scale` is the difference on the metric's scale and `error` that of it; None without a test.
    """

    difference: Interval
    p: float | None
    error: Error | None = None
    on_scale: float | None = None


@dataclass(frozen=True)
class Sample:
    """One metric of one cell.

    Attributes:
        values: by seed.
        influences: by seed, how much each test sentence moves the score (evaluate/influence.py), where that is known.
        sentences: how many there are, those of one source as one; 0 where nobody says.
        data: a name for them: cells of other sentences are not paired by sentence.
    """

    values: Mapping[int, float]
    influences: Mapping[int, Rows]
    sentences: int = 0
    data: str = ""


Mean = Sequence[tuple[float, Sample]]  # of cells: weights, some of them below 0 perhaps, that sum to 1


def intervals(metric: str, samples: Sequence[Sample]) -> list[Interval | None]:
    """The interval of each cell's mean; None of one without a value."""
    scale = _scale(metric, samples)
    every = _errors(metric, scale, [[(1.0, sample)] for sample in samples])
    found: list[Interval | None] = []
    for sample, error in zip(samples, every, strict=True):
        if not sample.values:
            found.append(None)
            continue
        mean = fmean(sample.values.values())
        if error is None or error.value == 0:
            found.append(Interval(mean, None, None))
            continue
        centre = fmean(scale.to(value) for value in sample.values.values())
        reach = error.reach()
        low, high = scale.back(np.array([centre - reach, centre + reach])).tolist()
        found.append(Interval(mean, min(low, mean), max(high, mean)))
    return found


def compare(metric: str, pairs: Sequence[tuple[Sample, Sample]]) -> list[PairedTest | None]:
    """The test of each cell against its baseline, over the seeds that both have; None without such a seed.

    Args:
        pairs: each cell with its baseline; all that are compared by this metric in the study.
    """
    return contrast(metric, [([(1.0, a)], [(1.0, b)]) for a, b in pairs])


def contrast(metric: str, pairs: Sequence[tuple[Mean, Mean]]) -> list[PairedTest | None]:
    """The test of each mean of cells against another, over the seeds that all their cells have; None without such a
    seed. Means are taken on the metric's scale, and their difference is told in the score's unit.

    The variance over seeds of a difference with the weights w is taken to be proportional to Σ w², which is what makes
    those of one metric alike before they are moderated.
    """
    scale = _scale(metric, [sample for pair in pairs for mean in pair for _, sample in mean])
    common = [_in_common(*pair) for pair in pairs]
    seeds = sorted({seed for upper, _ in common for seed in upper[0][1].values})
    shares = [sum(weight**2 for mean in pair for weight, _ in mean) / 2 for pair in common]
    moved = [[(a - b) / math.sqrt(share) for a, b in zip(_row(scale, upper, seeds), _row(scale, lower, seeds),
                                                         strict=True)]
             for (upper, lower), share in zip(common, shares, strict=True)]
    alone = _errors(metric, scale, [mean for pair in common for mean in pair])
    found: list[PairedTest | None] = []
    for i, ((a, b), share, variance) in enumerate(zip(common, shares, moderated(moved), strict=True)):
        count = len(a[0][1].values)
        if not count:
            found.append(None)
        elif variance is None:
            found.append(PairedTest(Interval(_told(scale, a) - _told(scale, b), None, None), None))
        else:
            negative = [(-weight, sample) for weight, sample in b]
            error = _error(share * variance.value / count, variance.degrees,
                           _of_sentences(metric, scale, [*a, *negative]))
            found.append(_test(scale, a, b, error, (alone[2 * i], alone[2 * i + 1])))
    return found


def level_of(metric: str, mean: Mean) -> float | None:
    """What a mean of cells comes to, in the score's own unit; None where a cell has no value."""
    if not all(sample.values for _, sample in mean):
        return None
    return _told(_scale(metric, [sample for _, sample in mean]), mean)


def leaves_range(metric: str, mean: Mean) -> bool:
    """Whether a weighted sum of cells lies where no score does: a percentage below 0 or above 100."""
    scale = _scale(metric, [sample for _, sample in mean])
    return scale.kind == "arcsine" and not -_ROUNDING <= _centre(scale, mean) <= math.pi / 2 + _ROUNDING


def _test(scale: Scale, a: Mean, b: Mean, error: Error, alone: tuple[Error | None, Error | None]) -> PairedTest:
    centres = _centre(scale, a), _centre(scale, b)
    apart, mean = centres[0] - centres[1], _told(scale, a) - _told(scale, b)
    if error.value == 0:
        return PairedTest(Interval(mean, None, None), 1.0 if mean == 0 or abs(apart) < _ROUNDING else None,
                          on_scale=apart)
    if mean * apart < 0:  # one wild seed turns the means round: what is told is what is tested
        mean = float(scale.back(np.array(centres[0])) - scale.back(np.array(centres[1])))
    assert alone[0] is not None
    assert alone[1] is not None
    low, high = _difference(scale, centres, error, (alone[0].value, alone[1].value))
    return PairedTest(Interval(mean, min(low, mean), max(high, mean)), error.p(apart), error, apart)


def _centre(scale: Scale, mean: Mean) -> float:
    """On the scale, over seeds."""
    return sum(weight * fmean(scale.to(value) for value in sample.values.values()) for weight, sample in mean)


def _told(scale: Scale, mean: Mean) -> float:
    """In the score's own unit: a cell's mean as it is, one of several cells by way of the scale."""
    if len(mean) == 1:
        return fmean(mean[0][1].values.values())
    return float(scale.back(np.array(sum(weight * scale.to(fmean(sample.values.values())) for weight, sample in mean))))


def _difference(scale: Scale, centres: tuple[float, float], error: Error, alone: tuple[float, float],
                ) -> tuple[float, float]:
    """The 95 % interval of the difference in the score's own unit: the least and the greatest that g⁻¹(z_a) − g⁻¹(z_b)
    becomes in the ellipse (z − ẑ)ᵀ Σ⁻¹ (z − ẑ) ≤ t².

    Its variances are those of the two means, its correlation is what makes that of z_a − z_b the test's. The line
    z_a = z_b touches it where p is 0.05, so the interval leaves 0 out exactly where the test says so.
    """
    wide, narrow = (math.sqrt(value) for value in (max(alone), min(alone)))
    whole = math.sqrt(error.value)
    if whole > wide + narrow:  # two estimates that do not fit: the test's counts
        wide, narrow = (whole / 2, whole / 2) if wide + narrow == 0 else (
            whole * wide / (wide + narrow), whole * narrow / (wide + narrow))
    wide = min(wide, narrow + whole)
    cosine = (wide**2 + narrow**2 - whole**2) / (2 * wide * narrow) if narrow else 1.0
    angles, t = np.linspace(0, 2 * math.pi, _POINTS), error.reach() / whole
    reaches = [t * wide * np.cos(angles), t * narrow * np.cos(angles - math.acos(min(1.0, max(-1.0, cosine))))]
    if alone[0] < alone[1]:
        reaches.reverse()
    on_edge = scale.back(centres[0] + reaches[0]) - scale.back(centres[1] + reaches[1])
    return float(on_edge.min()), float(on_edge.max())


def _scale(metric: str, samples: Sequence[Sample]) -> Scale:
    return scale_of(metric, max((sample.sentences for sample in samples), default=0) or UNKNOWN_SENTENCES)


def _errors(metric: str, scale: Scale, means: Sequence[Mean]) -> list[Error | None]:
    """Of each mean, on the scale; None of less than two seeds. One that comes twice counts once."""
    seeds = sorted({seed for mean in means for _, sample in mean for seed in sample.values})
    rows = [_row(scale, mean, seeds) for mean in means]
    distinct = {str(row): row for row in rows}
    of_seeds = dict(zip(distinct, moderated(list(distinct.values())), strict=True))
    return [None if (variance := of_seeds[str(row)]) is None else
            _error(variance.value / int(np.isfinite(row).sum()), variance.degrees, _of_sentences(metric, scale, mean))
            for mean, row in zip(means, rows, strict=True)]


def _row(scale: Scale, mean: Mean, seeds: Sequence[int]) -> list[float]:
    """By seed, on the scale; NaN where a cell has no value."""
    row = [sum(weight * scale.to(sample.values[seed]) if seed in sample.values else math.nan for weight, sample in mean)
           for seed in seeds]
    return row if len(mean) == 1 else [round(value, _DIGITS) for value in row]


def _error(of_seeds: float, degrees: float, of_sentences: Sequence[Variance]) -> Error:
    """Of a mean over seeds, of which this is the variance that they leave."""
    return Error((Variance(of_seeds, degrees), *of_sentences))


def _in_common(upper: Mean, lower: Mean) -> tuple[Mean, Mean]:
    """Both, with the seeds that all their cells have, in one order."""
    seeds = sorted(set.intersection(*(set(sample.values) for _, sample in [*upper, *lower])))
    a, b = ([(weight, replace(sample, values={seed: sample.values[seed] for seed in seeds})) for weight, sample in mean]
            for mean in (upper, lower))
    return a, b


def _of_sentences(metric: str, scale: Scale, weighted: Mean) -> list[Variance]:
    """What the choice of the test sentences adds to the variance of a weighted sum of cells, a part for each set of
    sentences."""
    seeds = list(weighted[0][1].values)
    if not all(seed in sample.influences for _, sample in weighted for seed in seeds):
        return [_NONE]
    sets: dict[str, list[tuple[float, Sample]]] = {}
    for weight, sample in weighted:
        sets.setdefault(sample.data, []).append((weight, sample))
    found = [_of_set(metric, scale, cells, seeds) for cells in sets.values()]
    return [_NONE] if any(variance is None for variance in found) else [one for one in found if one is not None]


def _of_set(metric: str, scale: Scale, weighted: Mean, seeds: Sequence[int]) -> Variance | None:
    """The part of one set of sentences; None where it cannot be known.

    The sentences' effect is the same in all runs: of the variance of its mean over seeds, what seeds × sentences put
    there is taken off, as the seeds' own variance has it already. Of a proportion, half a sentence more counts as moved
    in each cell, so that 100 against 100 is not known to the last digit (Agresti and Min 2005).
    """
    if len({len(sample.influences[seed]) for _, sample in weighted for seed in seeds}) > 1:
        return None
    tables = [weight * np.stack([scale.slope(sample.values[seed]) * sample.influences[seed] for seed in seeds])
              for weight, sample in weighted]
    table = sum(tables[1:], start=tables[0])
    count = table.shape[1]
    if count < 2:
        return None
    mean = table.mean(axis=0)
    rest = table - mean - table.mean(axis=1, keepdims=True) + table.mean()
    own = float(mean.var(ddof=1)) - float((rest**2).sum()) / (max(len(seeds) - 1, 1) * (count - 1)) / len(seeds)
    value = max(0.0, own) / count
    if score_of(metric) in PROPORTIONS:
        slopes = [weight * fmean(scale.slope(value) for value in sample.values.values()) for weight, sample in weighted]
        value = max(value, _HALF_A_SENTENCE * sum((slope * 100 / scale.sentences) ** 2 for slope in slopes))
    return Variance(value, count - 1)
