"""The scale on which a score is averaged and compared: seeds and sentences vary about as much everywhere on it, and
what comes back from it is a possible score.

A percentage: arcsin √p, with Anscombe's correction for n sentences (1948, "The transformation of Poisson, binomial and
negative-binomial data"). What is above 0 (loss, time, speed, TER): its logarithm. Perplexity: the logarithm of its
logarithm, which is a loss.
"""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

PERCENTAGES = ("bleu", "chrf", "meteor", "exact", "accuracy", "macro_f1")
PROPORTIONS = ("exact", "accuracy")  # a sentence counts, or does not
UNITS = {"loss": "nats", "nats_per_character": "nats", "perplexity": "", "tokens_per_second": "tokens/s",
         "seconds": "s"}  # and points elsewhere
_LEAST = 1e-9  # what is less is taken for this, before a logarithm
_MOST = 700.0  # the exponential of more is infinite

Kind = Literal["arcsine", "logarithm", "logarithm of logarithm"]


@dataclass(frozen=True)
class Scale:
    """Of one metric.

    Attributes:
        kind: which of the three.
        sentences: that a percentage is of; fewer correct more at its ends.
        least: what a smaller score is taken for, before a logarithm.
    """

    kind: Kind
    sentences: int
    least: float = _LEAST

    def to(self, score: float) -> float:
        """From the score's own unit."""
        if self.kind == "arcsine":
            return math.asin(math.sqrt(min(1.0, max(0.0, self._corrected(score)))))
        if self.kind == "logarithm":
            return math.log(max(score, self.least))
        return math.log(max(math.log(max(score, 1.0)), self.least))

    def back(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """To the score's own unit, and into its range; elementwise."""
        if self.kind == "arcsine":
            share = np.sin(np.clip(values, 0.0, math.pi / 2)) ** 2
            return np.clip(100 * (share * (self.sentences + 0.75) - 0.375) / self.sentences, 0.0, 100.0)
        grown = np.exp(np.minimum(values, _MOST))
        grown = np.where(grown > self.least, grown, 0.0)
        return grown if self.kind == "logarithm" else np.exp(np.minimum(grown, _MOST))

    def holds(self, value: float) -> bool:
        """Whether a value lies where scores are."""
        ends = (0.0, 100.0) if self.kind == "arcsine" else (0.0, math.inf)
        return self.to(ends[0]) <= value <= self.to(ends[1])

    def slope(self, score: float) -> float:
        """How fast the scale grows with the score, there."""
        if self.kind == "arcsine":
            p = self._corrected(min(100.0, max(0.0, score)))
            return self.sentences / (100 * (self.sentences + 0.75)) / (2 * math.sqrt(p * (1 - p)))
        if self.kind == "logarithm":
            return 1 / max(score, self.least)
        return 1 / (max(score, 1.0) * max(math.log(max(score, 1.0)), self.least))

    def _corrected(self, score: float) -> float:
        return (score / 100 * self.sentences + 0.375) / (self.sentences + 0.75)


def score_of(metric: str) -> str:
    """What a metric is of, whatever the data and the letter case: ``chrf`` of ``test.chrf_lowercase``."""
    return metric.rsplit(".", 1)[-1].removesuffix("_lowercase")


def unit_of(metric: str) -> str:
    """What a metric is counted in: nats (a token, or a character), points of a percentage; nothing for a perplexity."""
    return UNITS.get(score_of(metric), "points")


def scale_of(metric: str, sentences: int) -> Scale:
    """The scale of a metric, such as ``test.exact``, measured on so many sentences."""
    score = score_of(metric)
    if score == "perplexity":
        return Scale("logarithm of logarithm", sentences)
    if score == "ter":
        return Scale("logarithm", sentences, 50 / sentences)  # half an edit, were each sentence a word
    return Scale("arcsine" if score in PERCENTAGES else "logarithm", sentences)
