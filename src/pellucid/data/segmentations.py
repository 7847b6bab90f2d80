"""A word in pieces that are drawn: BPE-dropout (Provilkov et al. 2020, algorithm 1) and the segmentations of a unigram
model (Kudo 2018, sections 3.2 and 3.3).

SentencePiece draws, too, and from version 0.2.2 on otherwise in each process, whatever its seed; a run that is resumed
would learn from other pieces. These follow from the generator that is passed in, and from nothing else.
"""

from abc import ABC, abstractmethod
from bisect import bisect
from collections.abc import Mapping
from itertools import accumulate, pairwise
from math import exp, inf, log
from random import Random
from typing import final

_KEPT = 65_536  # words whose segmentations are remembered


class Segmentations(ABC):
    """The segmentations of words, of which one can be drawn.

    Args:
        pieces: of each piece, its id and its score: the logarithm of its probability or, for byte-pair encoding, the
            higher the earlier its merge.
        strength: the probability p that a merge is left out, or the α to which probabilities are raised.
    """

    def __init__(self, pieces: Mapping[str, tuple[int, float]], strength: float) -> None:
        self.pieces = pieces
        self.strength = strength
        self.longest = max(map(len, pieces), default=0)

    @abstractmethod
    def draw(self, word: str, random: Random) -> list[int] | None:
        """The ids of one segmentation; None where there is none."""


@final
class MergeDropout(Segmentations):
    """Byte-pair encoding that leaves out each merge that is possible, at each step anew, with probability p; it ends
    where none remains."""

    def draw(self, word: str, random: Random) -> list[int] | None:
        symbols = list(word)
        while True:
            merges = [(self.pieces[a + b][1], -place) for place, (a, b) in enumerate(pairwise(symbols))
                      if a + b in self.pieces]
            kept = [merge for merge in merges if random.random() >= self.strength]
            if not kept:
                break
            place = -max(kept)[1]  # the earliest in training, then the leftmost
            symbols[place : place + 2] = [symbols[place] + symbols[place + 1]]
        if not all(symbol in self.pieces for symbol in symbols):
            return None
        return [self.pieces[symbol][0] for symbol in symbols]


@final
class UnigramSampling(Segmentations):
    r"""A segmentation x of a word, with probability :math:`P(x)^\alpha / \sum_{x'} P(x')^\alpha`, P being the product
    over its pieces: sums over all beginnings forwards, then pieces drawn backwards."""

    def __init__(self, pieces: Mapping[str, tuple[int, float]], strength: float) -> None:
        super().__init__(pieces, strength)
        self._ends: dict[str, list[tuple[list[tuple[int, int]], list[float]]]] = {}

    def draw(self, word: str, random: Random) -> list[int] | None:
        ends, ids, end = self._ends.get(word), list[int](), len(word)
        if ends is None:
            if len(self._ends) >= _KEPT:
                self._ends.clear()
            ends = self._ends[word] = self._last_pieces(word)
        while end:
            pieces, weights = ends[end]
            if not pieces:
                return None
            end, piece = pieces[min(bisect(weights, random.random() * weights[-1]), len(pieces) - 1)]
            ids.append(piece)
        return ids[::-1]

    def _last_pieces(self, word: str) -> list[tuple[list[tuple[int, int]], list[float]]]:
        """For each beginning of the word, what its last piece may be: where that begins and its id, and the running
        sums of their probabilities, of which the largest is 1."""
        forward, ends = [0.0], [(list[tuple[int, int]](), list[float]())]
        for end in range(1, len(word) + 1):
            found = [(start, *self.pieces[word[start:end]]) for start in range(max(0, end - self.longest), end)
                     if word[start:end] in self.pieces and forward[start] > -inf]
            totals = [forward[start] + self.strength * score for start, _, score in found]
            top = max(totals, default=-inf)
            sums = list(accumulate(exp(total - top) for total in totals))
            forward.append(top + log(sums[-1]) if sums else -inf)
            ends.append(([(start, piece) for start, piece, _ in found], sums))
        return ends
