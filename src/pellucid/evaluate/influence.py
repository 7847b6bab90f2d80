"""How much each sentence moves a corpus score: the jackknife's influences. Their mean square is the score's variance.

Efron and Stein (1981), "The jackknife estimate of variance". Sentences of one source come and go together.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pellucid.evaluate.intervals import left_out
from pellucid.evaluate.significance import SentenceStatistics, with_sources


def influences(metric: SentenceStatistics, sources: Sequence[str]) -> NDArray[np.float64]:
    """(G − 1)(score without any − score without g) for each of the G sources, or groups of many sources, that the
    jackknife leaves out: the same ones for every run on the same data.

    Their variance over G is the variance of the score; of a mean over sentences, each with a source of its own, they
    are what a sentence lies above or below it.

    Args:
        sources: of each sentence.

    Raises:
        ValueError: there are not as many sources as sentences.
    """
    sums = with_sources(metric, sources).by_source
    if len(sums) == 1:
        return np.zeros(1)
    left = left_out(sums, metric.score)
    moved: NDArray[np.float64] = (len(left) - 1) * (left.mean() - left)
    return moved
