"""The order in which examples lie side by side in batches, so that there is little padding in any of them."""

import math

import numpy as np
from numpy.typing import NDArray

_STRIPS = 2  # for each batch along a side of a square of them

Lengths = NDArray[np.int64]


def by_length(source: Lengths, target: Lengths, batches: float, *ties: NDArray[np.int64]) -> NDArray[np.int64]:
    """Indices of examples with lengths near each other in a row: by strips of source lengths, and in each by target
    length, up in one strip and down in the next.

    By source length alone, all that have one would come before the next one, and a batch that has the longest targets
    of one and the shortest of the other would be mostly padding. Strips have about as many target tokens each, and a
    source length lies in one of them.

    Args:
        source, target: [n].
        batches: that they are cut into, about: a strip has half of √batches.
        ties: [n], by which those of the same lengths are ordered; the first counts least.
    """
    up_to = np.cumsum(np.bincount(source, weights=target))
    before = np.concatenate([[0.0], up_to[:-1]])
    of_length = np.unique(np.floor(_STRIPS * math.sqrt(batches) * before / up_to[-1]), return_inverse=True)[1]
    strip = of_length[source]
    order: NDArray[np.int64] = np.lexsort((*ties, source, np.where(strip % 2, -target, target), strip))
    return order
