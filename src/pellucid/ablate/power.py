"""The smallest difference that a study finds four times in five, after Holm's correction: known before it runs, from
what such scores vary by, or from runs that are there."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from pellucid.ablate.scales import PERCENTAGES, Scale, scale_of, score_of
from pellucid.ablate.statistics import Error, Variance
from pellucid.evaluate.student import root

POWER = 0.8
LEVEL = 0.05
# Standard deviations on a metric's scale, the medians of the shipped studies: of one seed's difference to the baseline,
# and of what 500 test sentences, the same for both, add to it.
_OF_SEEDS = {"percentage": 0.02, "loss": 0.035, "speed": 0.2}
_OF_SENTENCES = 0.005
_TYPICAL = {"percentage": 50.0, "loss": 1.0, "speed": 1.0}  # what the baseline is taken to score


@dataclass(frozen=True)
class Smallest:
    """The smallest effects on one metric that are found with 80 % power, in its own unit.

    Attributes:
        cells: that are compared, or whatever else is tested, and corrected for.
        baseline: the score that they are told from.
        down, up: how far below and above it another cell must be; None where no score is that far.
        is_relative: they are shares of the baseline, which nobody knows yet.
    """

    metric: str
    cells: int
    baseline: float
    down: float | None
    up: float | None
    is_relative: bool


def smallest(metric: str, errors: Sequence[Error], baseline: float, scale: Scale) -> Smallest | None:
    """From the errors of a study's tests, of which the middle one stands for all; None without any."""
    known = sorted((error for error in errors if error.value > 0), key=lambda error: error.value)
    if not known:
        return None
    return told(metric, len(errors), known[len(known) // 2], baseline, scale)


def expected(metric: str, cells: int, seeds: int) -> Smallest | None:
    """Before anything has run: cells that vary alike, and as such scores do; None of one seed or no comparison."""
    if seeds < 2 or cells < 1:
        return None
    score = score_of(metric)
    kind = "percentage" if score in PERCENTAGES else "speed" if "." not in metric else "loss"
    few = seeds - 1
    degrees = few + min((cells - 1) * few / 4, cells * few / (1 + (cells - 1) / 4) - few)
    has_sentences = kind == "percentage" and not metric.startswith("validation.")
    error = Error((Variance(_OF_SEEDS[kind] ** 2 / seeds, degrees), Variance(has_sentences * _OF_SENTENCES**2, 499.0)))
    scale = scale_of(metric, 500)
    start = math.e if score == "perplexity" else _TYPICAL[kind]
    return told(metric, cells, error, start, scale, is_relative=kind != "percentage")


def told(metric: str, cells: int, error: Error, baseline: float, scale: Scale, is_relative: bool = False) -> Smallest:
    """From one error, in a family of so many tests."""
    reach, start = found_with(error, 1 - LEVEL / cells), scale.to(baseline)
    ends = start - reach, start + reach
    down, up = (abs(found - baseline) if scale.holds(end) else None
                for end, found in zip(ends, scale.back(np.array(ends)).tolist(), strict=True))
    return Smallest(metric, cells, baseline, down, up, is_relative)


def found_with(error: Error, confidence: float) -> float:
    """The true difference, on the scale of the error, that a test of this confidence finds with the power POWER.

    By quadrature over w = √(χ²_ν / ν), whose density is proportional to w^(ν − 1) e^(−ν w² / 2): the power is
    P(|Z + δ| > critical · w), averaged over the parts of the error by their weights.
    """
    whole = math.sqrt(error.value)
    critical, curves = error.reach(confidence) / whole, []
    for part in error.parts:
        w = torch.linspace(1e-4, 1 + 8 / math.sqrt(2 * part.degrees), 2000, dtype=torch.float64)
        density = torch.softmax((part.degrees - 1) * w.log() - part.degrees * w**2 / 2, dim=0)
        curves.append((part.value / error.value * density, critical * w))

    def beyond(delta: float) -> float:
        return sum(float((density * (torch.special.ndtr(delta - edge) + torch.special.ndtr(-delta - edge))).sum())
                   for density, edge in curves) - POWER

    return whole * root(beyond, 1.0)
