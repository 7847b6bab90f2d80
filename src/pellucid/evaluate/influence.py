"""How much each sentence moves a corpus score: the jackknife's influences. Their mean square is the score's variance.

Efron and Stein (1981), "The jackknife estimate of variance". Sentences of one source come and go together.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pellucid.evaluate.significance import SentenceStatistics


def influences(metric: SentenceStatistics, sources: Sequence[str]) -> NDArray[np.float64]:
    """(C − 1)(score − score without c) of each of the C distinct sources, as they first come, less their mean.

    Their variance over C is the variance of the score; of a mean over sentences, each with a source of its own, they
    are what a sentence lies above or below it.

    Args:
        sources: of each sentence.

    Raises:
        ValueError: there are not as many sources as sentences.
    """
    if len(sources) != len(metric.statistics):
        raise ValueError(f"{len(sources)} sources but {len(metric.statistics)} sentences")
    places: dict[str, int] = {}
    clusters = [places.setdefault(source, len(places)) for source in sources]
    table = np.zeros((len(places), metric.statistics.shape[1]))
    np.add.at(table, clusters, metric.statistics)
    total = table.sum(axis=0)
    if len(table) == 1:
        return np.zeros(1)
    whole = metric.score(total)
    moved = (len(table) - 1) * (whole - np.array([metric.score(total - row) for row in table]))
    centred: NDArray[np.float64] = moved - moved.mean()
    return centred
