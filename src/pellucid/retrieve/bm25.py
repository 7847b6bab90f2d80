r"""BM25: how well a passage fits a question, summed over the terms that both have.

.. math:: \sum_t \ln(1 + \frac{N - n_t + 0.5}{n_t + 0.5}) \cdot \frac{f_t}{f_t + k_1 (1 - b + b\, l / \bar l)}

f_t is how often the term stands in the passage, l how many terms that has, N how many passages there are, n_t those
with the term. Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond" (2009), in Lucene's
variant: the logarithm cannot be negative, and there is no constant factor k_1 + 1. Each term of a question counts once.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

K1, B = 1.2, 0.75
_BLOCK = 1024  # passages whose highest sum is looked at before theirs
_FEW = 4096  # passages: to add what a term gives them takes no longer than to look a few of them up
_SAMPLED = 8  # one of so many blocks says how many hold a sum as high
_SLACK = 1e-5  # relative; what rounding may do to a bound


def idf(holders: NDArray[np.int64], passages: int) -> NDArray[np.float32]:
    """What a term weighs that stands in so many of the passages."""
    return np.log1p((passages - holders + 0.5) / (holders + 0.5)).astype(np.float32)


def saturation(lengths: NDArray[np.int64], average: float) -> NDArray[np.float32]:
    """For each passage of so many terms, how often a term must stand in it for half of its weight."""
    return (K1 * (1 - B + B * lengths / max(average, 1.0))).astype(np.float32)


@dataclass(frozen=True)
class Scores:
    """Every score that a term gives a passage, by term.

    Attributes:
        terms: [T] in ascending order.
        bounds: [T + 1] where in `passages` and `scores` those of a term begin and end.
        passages: [n] the numbers of passages, ascending within a term.
        scores: [n] what the term adds to each.
        peaks: [T] the highest of a term.
        count: of passages, N.
    """

    terms: NDArray[np.uint64]
    bounds: NDArray[np.int64]
    passages: NDArray[np.int32]
    scores: NDArray[np.float32]
    peaks: NDArray[np.float32]
    count: int

    def check(self) -> None:
        """Raises ValueError where the arrays do not belong together."""
        ends = {int(self.bounds[-1]), len(self.passages), len(self.scores)}
        if len(ends) > 1 or not len(self.bounds) == len(self.terms) + 1 == len(self.peaks) + 1:
            raise ValueError("its arrays do not belong together")

    def best(self, terms: NDArray[np.uint64], k: int) -> list[tuple[int, float]]:
        """The `k` passages of the highest sums over these terms, all different, and the sums; of equal ones those that
        come first.

        Exact, but seldom over all passages that have one of the terms. Terms are taken in the order of their peaks, the
        rare ones first. Once few passages could still get among the best, whatever the terms that are left add to them,
        those terms are looked up in these alone: Turtle and Flood (1995), MaxScore.
        """
        places = np.searchsorted(self.terms, terms)
        is_inside = places < len(self.terms)
        places = places[is_inside][self.terms[places[is_inside]] == terms[is_inside]]
        if not len(places):
            return []
        places = places[np.argsort(-self.peaks[places], kind="stable")]
        rest = np.append(np.cumsum(self.peaks[places][::-1].astype(np.float64))[::-1], 0.0) * (1 + _SLACK)
        common = np.flatnonzero(self.bounds[places + 1] - self.bounds[places] > max(self.count // 6, _FEW))
        done = int(common[0]) if len(common) else len(places)
        sums = _Sums(self._summed.get_scores_from_ids(places[:done]))
        least, since = 0.0, self.count  # a bound below the k-th best sum; scores added since it was found
        while done < len(places):
            if since >= self.count:
                least, since = self._bound(sums, places[done:], k), 0
            if least > rest[done] and sums.few_reach(least - rest[done]):
                break
            begin, end = self.bounds[places[done]], self.bounds[places[done] + 1]
            sums.add(self.passages[begin:end], self.scores[begin:end])
            since += int(end - begin)
            done += 1
        else:
            least = max(least, sums.kth(k))
        found = sums.at_least(least - rest[done])
        return self._ranked(found, sums.values[found], places[done:], rest[done + 1 :], k)

    def _bound(self, sums: _Sums, places: NDArray[np.int64], k: int) -> float:
        """Of some that are good so far, the k-th best sum with the terms at `places`: that of all is no lower."""
        found = sums.at_least(sums.kth(2 * k))[: 4 * k]
        full = sums.values[found]
        for place in places:
            full = full + self._adds(place, found)
        return float(np.partition(full, -k)[-k]) * (1 - _SLACK) if len(full) >= k else 0.0

    def _adds(self, place: int, found: NDArray[np.int64]) -> NDArray[np.float32]:
        """What the term at a place adds to each of these passages."""
        begin, end = int(self.bounds[place]), int(self.bounds[place + 1])
        holders = self.passages[begin:end]
        at = np.minimum(np.searchsorted(holders, found.astype(np.int32)), end - begin - 1)
        return np.where(holders[at] == found, self.scores[begin:end][at], np.float32(0))

    def _ranked(self, found: NDArray[np.int64], sums: NDArray[np.float32], places: NDArray[np.int64],
                rest: NDArray[np.float64], k: int) -> list[tuple[int, float]]:
        """The best of these passages, when the terms at `places` are added too; `rest`: what those after it can add."""
        for place, after in zip(places, rest, strict=True):
            sums = sums + self._adds(place, found)
            if len(found) > k:
                stay = sums >= np.partition(sums, -k)[-k] * (1 - _SLACK) - after
                found, sums = found[stay], sums[stay]
        order = np.lexsort((found, -sums))[:k]
        return [(int(found[i]), float(sums[i])) for i in order]

    @cached_property
    def _summed(self) -> Any:
        """bm25s, which sums the scores of whole terms."""
        import bm25s

        made = bm25s.BM25(method="lucene", k1=K1, b=B)
        count = -(-self.count // _BLOCK) * _BLOCK  # whole blocks, the last with passages that have no term
        made.scores = {"data": self.scores, "indices": self.passages, "indptr": self.bounds, "num_docs": count}
        made.nonoccurrence_array = None
        return made


class _Sums:
    """What each passage has so far.

    Attributes:
        values: [whole blocks] by passage.
    """

    def __init__(self, values: NDArray[np.float32]) -> None:
        self.values = values
        self._highest: NDArray[np.float32] | None = None  # of each block

    def add(self, passages: NDArray[np.int32], scores: NDArray[np.float32]) -> None:
        """Adds the scores of a term."""
        np.add.at(self.values, passages, scores)
        self._highest = None

    def at_least(self, bound: float) -> NDArray[np.int64]:
        """The passages with sums of at least `bound`, and above 0, in order."""
        bound = max(bound, float(np.finfo(np.float32).tiny))
        blocks = np.flatnonzero(self._of_blocks() >= bound)
        at = np.flatnonzero(self.values.reshape(-1, _BLOCK)[blocks] >= bound)
        return blocks[at // _BLOCK] * _BLOCK + at % _BLOCK

    def few_reach(self, bound: float) -> bool:
        """Whether about a third of all blocks or fewer have a sum of at least `bound`."""
        highest = self.values.reshape(-1, _BLOCK)[::_SAMPLED].max(axis=1)
        return 3 * int(np.count_nonzero(highest >= bound)) <= len(highest)

    def kth(self, k: int) -> float:
        """The k-th highest sum; 0 where fewer are above 0."""
        highest = self._of_blocks()  # each block has a sum as high: k of them bound the k-th of all
        found = self.at_least(float(np.partition(highest, -k)[-k]) if len(highest) >= k else 0.0)
        return float(np.partition(self.values[found], -k)[-k]) if len(found) >= k else 0.0

    def _of_blocks(self) -> NDArray[np.float32]:
        if self._highest is None:
            self._highest = self.values.reshape(-1, _BLOCK).max(axis=1)
        return self._highest
