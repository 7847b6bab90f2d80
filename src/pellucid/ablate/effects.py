"""What one metric says of all cells: the interval of each, and its difference to the baseline with a test.

With z = g(score) on the metric's scale (ablate/scales.py), cells c, seeds s and test sentences i:
z_cs = μ_c + seed_s + sentence_i + seed_s × sentence_i. Differences to the baseline are paired by seed and by sentence.
The variance of their mean is that of the seeds, moderated over the cells (ablate/statistics.py), and what the sentences
add beyond it, from the jackknife's influence of each sentence on each run (evaluate/influence.py).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

from pellucid.ablate.scales import PROPORTIONS, Scale, scale_of, score_of
from pellucid.ablate.statistics import Error, Variance, moderated

UNKNOWN_SENTENCES = 500  # that a percentage is taken to be of, where nobody says
_HALF_A_SENTENCE = 0.5
_POINTS = 721  # of the edge of a region, at which its difference is looked at
_NONE = Variance(0.0, 1.0)
Rows = NDArray[np.float64]


@dataclass(frozen=True)
class Interval:
    """A mean and its 95 % interval, in the score's own unit; `low` and `high` are None for a single seed, which has
    none. Both are possible scores, or differences of such."""

    mean: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class PairedTest:
    """The mean difference to the baseline with its interval; p is two-sided, and None where no test can be made.

    `error` is that of the difference on the metric's scale; None with p.
    """

    difference: Interval
    p: float | None
    error: Error | None = None


@dataclass(frozen=True)
class Sample:
    """One metric of one cell.

    Attributes:
        values: by seed.
        influences: by seed, how much each test sentence moves the score (evaluate/influence.py), where that is known.
        sentences: how many there are; 0 where nobody says.
    """

    values: Mapping[int, float]
    influences: Mapping[int, Rows]
    sentences: int = 0


def intervals(metric: str, samples: Sequence[Sample]) -> list[Interval | None]:
    """The interval of each cell's mean; None of one without a value."""
    scale = _scale(metric, samples)
    every = _errors(metric, scale, samples)
    found: list[Interval | None] = []
    for sample, error in zip(samples, every, strict=True):
        if not sample.values:
            found.append(None)
            continue
        mean = fmean(sample.values.values())
        if error is None:
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
    scale = _scale(metric, [sample for pair in pairs for sample in pair])
    common = [_in_common(*pair) for pair in pairs]
    seeds = sorted({seed for a, _ in common for seed in a.values})
    moved = [[scale.to(a.values[seed]) - scale.to(b.values[seed]) if seed in a.values else math.nan for seed in seeds]
             for a, b in common]
    alone = _errors(metric, scale, [sample for pair in common for sample in pair])
    found: list[PairedTest | None] = []
    for i, ((a, b), seed_variance) in enumerate(zip(common, moderated(moved), strict=True)):
        mean = fmean(a.values.values()) - fmean(b.values.values()) if a.values else 0.0
        if not a.values:
            found.append(None)
        elif seed_variance is None:
            found.append(PairedTest(Interval(mean, None, None), None))
        else:
            error = _error(seed_variance, len(a.values), _of_sentences(metric, scale, a, b))
            found.append(_test(scale, a, b, error, (alone[2 * i], alone[2 * i + 1])))
    return found


def _test(scale: Scale, a: Sample, b: Sample, error: Error, alone: tuple[Error | None, Error | None],
          ) -> PairedTest:
    of_a, of_b = ([scale.to(value) for value in sample.values.values()] for sample in (a, b))
    centres = fmean(of_a), fmean(of_b)
    mean = fmean(a.values.values()) - fmean(b.values.values())
    if error.value == 0:
        return PairedTest(Interval(mean, mean, mean), 1.0 if mean == 0 else None)
    assert alone[0] is not None
    assert alone[1] is not None
    low, high = _difference(scale, centres, error, (alone[0].value, alone[1].value))
    return PairedTest(Interval(mean, min(low, mean), max(high, mean)), error.p(centres[0] - centres[1]), error)


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


def _errors(metric: str, scale: Scale, samples: Sequence[Sample]) -> list[Error | None]:
    """Of the mean of each sample, on the scale; None of less than two seeds. A sample that comes twice counts once."""
    seeds = sorted({seed for sample in samples for seed in sample.values})
    rows = [tuple(scale.to(sample.values[seed]) if seed in sample.values else math.nan for seed in seeds)
            for sample in samples]
    distinct = {str(row): row for row in rows}
    of_seeds = dict(zip(distinct, moderated(list(distinct.values())), strict=True))
    return [None if (variance := of_seeds[str(row)]) is None else
            _error(variance, len(sample.values), _of_sentences(metric, scale, sample, None))
            for sample, row in zip(samples, rows, strict=True)]


def _error(of_seeds: Variance, seeds: int, of_sentences: Variance) -> Error:
    """Of a mean over so many seeds."""
    return Error((Variance(of_seeds.value / seeds, of_seeds.degrees), of_sentences))


def _in_common(a: Sample, b: Sample) -> tuple[Sample, Sample]:
    """Both, with the seeds that both have, in one order."""
    seeds = sorted(set(a.values) & set(b.values))
    return (Sample({seed: a.values[seed] for seed in seeds}, a.influences, a.sentences),
            Sample({seed: b.values[seed] for seed in seeds}, b.influences, b.sentences))


def _of_sentences(metric: str, scale: Scale, a: Sample, b: Sample | None) -> Variance:
    """What the choice of the test sentences adds to the variance of the mean (of a, or of a − b) over seeds.

    The sentences' effect is the same in all runs: of the variance of its mean over seeds, what seeds × sentences put
    there is taken off, as the seeds' own variance has it already. Of a proportion, half a sentence more counts as moved
    on each side, so that 100 against 100 is not known to the last digit (Agresti and Min 2005).
    """
    sides = [side for side in (a, b) if side is not None]
    if not all(seed in side.influences for side in sides for seed in a.values):
        return _NONE
    tables = [np.stack([scale.slope(side.values[seed]) * side.influences[seed] for seed in a.values]) for side in sides]
    if len({table.shape for table in tables}) > 1:
        return _NONE
    table = tables[0] - tables[1] if b is not None else tables[0]
    seeds, count = table.shape
    if count < 2:
        return _NONE
    mean = table.mean(axis=0)
    rest = table - mean - table.mean(axis=1, keepdims=True) + table.mean()
    own = float(mean.var(ddof=1)) - float((rest**2).sum()) / (max(seeds - 1, 1) * (count - 1)) / seeds
    value = max(0.0, own) / count
    if score_of(metric) in PROPORTIONS:
        slopes = [fmean(scale.slope(value) for value in side.values.values()) for side in sides]
        value = max(value, _HALF_A_SENTENCE * sum((slope * 100 / scale.sentences) ** 2 for slope in slopes))
    return Variance(value, count - 1)
