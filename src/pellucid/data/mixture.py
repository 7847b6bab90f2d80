"""A mixture: each example comes as often in an epoch as the weight of its source says.

With weight w, an epoch has all examples of a source ⌊w⌋ times, and a share w - ⌊w⌋ of them once more: another share in
each epoch, in turn, until all have had theirs. So every example of a source is seen equally often in the long run, an
epoch is always of one size, and what it holds is a pure function of (seed, epoch).
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from pellucid.data.blocks import BLOCK
from pellucid.data.corpus import Corpus, Sequences
from pellucid.errors import ConfigError

Part = tuple[int, int, int, int]  # the first example, the one after the last, how often all come, how many once more


class Mixed:
    """Examples of sources with weights (see `Examples`).

    Args:
        corpus: each of them once, with their weights.
        seed: of which share comes first.

    Raises:
        ConfigError: a weight so small that an epoch has none of its examples.
    """

    def __init__(self, corpus: Corpus, seed: int) -> None:
        self.corpus, self.seed = corpus, seed
        ends = np.cumsum([count for count, _ in corpus.weights]).tolist()
        self._runs = [(end - count, end, weight) for end, (count, weight) in zip(ends, corpus.weights, strict=True)]
        for start, end, weight in self._runs:
            if end > start and _rounded(weight * (end - start)) == 0:
                raise ConfigError(f"a weight of {weight:g} leaves none of {end - start:,} examples", where="data.train",
                                  fix=f"raise it to {1 / (end - start):.2g} at least, or leave the source out")

    @property
    def blocks(self) -> int:
        """Those of the corpus."""
        return self.corpus.blocks

    def window(self, epoch: int, blocks: range) -> tuple[Corpus, NDArray[np.int64]]:
        """The corpus, and where the examples of these blocks are that `epoch` has, each as often as it has it."""
        corpus, _ = self.corpus.window(epoch, blocks)
        return corpus, np.concatenate([self._rows(epoch, part) for block in blocks for part in self._parts(block)])

    def in_epoch(self, epoch: int) -> Corpus:
        """All examples of an epoch, in memory."""
        corpus, rows = self.window(epoch, range(self.blocks))
        source, target = (Sequences(side.joined(rows), np.append(0, side.lengths_of(rows).cumsum()))
                          for side in (corpus.source, corpus.target))
        return Corpus(source, target, corpus.report)

    def totals(self) -> NDArray[np.int64]:
        """See `Examples`: the examples are counted, and their tokens expected."""
        found = np.zeros((self.blocks, 3), dtype=np.int64)
        for block in range(self.blocks):
            for start, end, times, more in self._parts(block):
                count = times * (end - start) + more
                sides = self.corpus.source.offsets, self.corpus.target.offsets
                tokens = [int(offsets[end] - offsets[start]) for offsets in sides]
                found[block] += [count, *(-(-count * one // (end - start)) for one in tokens)]
        return found

    def _parts(self, block: int) -> Iterator[Part]:
        """What a block has of each source."""
        for start, end, weight in self._runs:
            low, high = max(start, block * BLOCK), min(end, (block + 1) * BLOCK)
            if low < high:
                share = weight % 1
                yield low, high, int(weight), _rounded(share * (high - start)) - _rounded(share * (low - start))

    def _rows(self, epoch: int, part: Part) -> NDArray[np.int64]:
        start, end, times, more = part
        turn = np.random.default_rng([self.seed, start]).permutation(end - start)
        chosen = turn[(epoch * more + np.arange(more)) % (end - start)]
        return np.concatenate([np.repeat(np.arange(start, end), times), start + chosen])


def _rounded(number: float) -> int:
    return int(number + 0.5)
