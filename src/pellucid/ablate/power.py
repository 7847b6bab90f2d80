"""The smallest difference that a study finds four times in five, after Holm's correction: known before it runs, from
what such scores vary by, or from runs that are there.

By simulation of studies that are tested as all are: what a test finds depends on how well few seeds tell the variance,
moderated as it is, for which there is no formula.
"""

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pellucid.ablate.scales import PERCENTAGES, Scale, scale_of, score_of
from pellucid.ablate.statistics import Error, Variance, moderated

POWER = 0.8
LEVEL = 0.05
# Standard deviations on a metric's scale, the medians of the shipped studies: of one seed's difference to the baseline,
# and of what 500 test sentences, the same for both, add to it.
_OF_SEEDS = {"percentage": 0.02, "loss": 0.035, "speed": 0.2}
_OF_SENTENCES = 0.005
_TYPICAL = {"percentage": 50.0, "loss": 1.0, "speed": 1.0}  # what the baseline is taken to score
_DEGREES = 499.0  # of the sentences' part
# What no score passes in practice, that of a guess among a million tokens, ten edits a word; else ten times as much.
_MOST = {"loss": math.log(1e6), "nats_per_character": math.log(1e6), "perplexity": 1e6, "ter": 1000.0}
_TIMES = 10.0
_TESTS, _OF_A_STUDY = 1000, 6  # that are simulated, at most so many of one study: they share its baseline


@dataclass(frozen=True)
class Smallest:
    """The smallest effects on one metric that are found with 80 % power, in its own unit.

    Attributes:
        cells: that are compared, or whatever else is tested, and corrected for.
        baseline: the score that they are told from.
        down, up: how far below and above it another cell must be; None where no such score is that far.
        is_relative: they are shares of the baseline, which nobody knows yet.
    """

    metric: str
    cells: int
    baseline: float
    down: float | None
    up: float | None
    is_relative: bool


def smallest(metric: str, errors: Sequence[Error], cells: int, seeds: int, baseline: float, scale: Scale,
             ) -> Smallest | None:
    """From the errors of tests in a family of so many, of which the middle one stands for all; None without any."""
    known = sorted((error for error in errors if error.value > 0), key=lambda error: error.value)
    if not known:
        return None
    error = known[len(known) // 2]
    found = found_with(cells, seeds, round(sum(part.value for part in error.parts[1:]) / error.value, 1))
    return _told(metric, cells, found.effect / found.error * math.sqrt(error.value), baseline, scale)


def expected(metric: str, cells: int, seeds: int) -> Smallest | None:
    """Before anything has run: cells that vary alike, and as such scores do; None of one seed or no comparison."""
    if seeds < 2 or cells < 1:
        return None
    score = score_of(metric)
    kind = "percentage" if score in PERCENTAGES else "speed" if "." not in metric else "loss"
    of_sentences = _OF_SENTENCES**2 if kind == "percentage" and not metric.startswith("validation.") else 0.0
    whole = _OF_SEEDS[kind] ** 2 / seeds + of_sentences
    reach = found_with(cells, seeds, round(of_sentences / whole, 1)).effect * math.sqrt(whole)
    start = math.e if score == "perplexity" else _TYPICAL[kind]
    return _told(metric, cells, reach, start, scale_of(metric, 500), is_relative=kind != "percentage")


def _told(metric: str, cells: int, reach: float, baseline: float, scale: Scale, is_relative: bool = False) -> Smallest:
    """From the smallest effect on the scale."""
    start = scale.to(baseline)
    ends = start - reach, start + reach
    least, most = 0.0, math.inf  # a percentage ends where its scale does
    if scale.kind != "arcsine":
        most = _MOST.get(score_of(metric), _TIMES * baseline)
        least = 0.0 if score_of(metric) in _MOST else baseline / _TIMES
    down, up = (abs(found - baseline) if scale.holds(end) and least <= found <= most else None
                for end, found in zip(ends, scale.back(np.array(ends)).tolist(), strict=True))
    return Smallest(metric, cells, baseline, down, up, is_relative)


@dataclass(frozen=True)
class Found:
    """Of studies in which a difference to the baseline has the standard error 1.

    Attributes:
        effect: the true difference that is found with the power POWER.
        error: the middle one of the standard errors that the tests take it to have.
    """

    effect: float
    error: float


@functools.cache
def found_with(cells: int, seeds: int, of_sentences: float) -> Found:
    """From studies of a baseline and so many cells, all of which vary alike.

    A test finds an effect δ where its deviation lies more than δ above the baseline's, so δ is the quantile POWER of
    what each of them lacks: the least deviation with p ≤ LEVEL / cells, less the one that chance gives it.

    Args:
        of_sentences: the share of the test sentences in the variance; the rest is of the seeds.
    """
    random, count = np.random.default_rng(0), min(cells, _OF_A_STUDY)
    lacked, errors = [], []
    for _ in range(math.ceil(_TESTS / count)):
        scores = random.normal(0, math.sqrt((1 - of_sentences) * seeds / 2), (cells + 1, seeds))
        differences = scores[1:] - scores[0]
        by_sentences = random.normal(0, math.sqrt(of_sentences), count)
        tested = moderated(differences.tolist())[:count]
        for row, chance, variance in zip(differences[:count], by_sentences, tested, strict=True):
            assert variance is not None
            error = Error((Variance(variance.value / seeds, variance.degrees), Variance(of_sentences, _DEGREES)))
            lacked.append(error.reach(1 - LEVEL / cells) - float(row.mean()) - float(chance))
            errors.append(math.sqrt(error.value))
    return Found(float(np.quantile(lacked, POWER)), float(np.median(errors)))
