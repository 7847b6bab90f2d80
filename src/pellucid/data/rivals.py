"""Passages that fit a question and are not its own, told from ids: what a search brings beside the right one.

By BM25 with the constants of retrieve/bm25.py, two neighbouring tokens a term.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

MOST = 5  # of a question, the best: as many as are read when it is asked of an index
_K1, _B = 1.2, 0.75


class Rivals:
    """Finds them.

    Args:
        passages: the tokens of each; the same one may come often, and counts once.
    """

    def __init__(self, passages: Sequence[Sequence[int]]) -> None:
        import bm25s

        self._numbers: dict[tuple[int, ...], int] = {}
        for passage in passages:
            self._numbers.setdefault(tuple(passage), len(self._numbers))
        self._passages = list(self._numbers)
        terms = [_terms(passage) for passage in self._passages]
        self._known, places = np.unique(np.concatenate(terms), return_inverse=True)
        self._index = bm25s.BM25(method="lucene", k1=_K1, b=_B)
        if len(self._known):
            bounds = np.cumsum([len(some) for some in terms])[:-1]
            vocabulary = {place: place for place in range(len(self._known))}
            self._index.index((np.split(places, bounds), vocabulary), show_progress=False)

    def of(self, question: Sequence[int], own: Sequence[int]) -> list[Sequence[int]]:
        """The `MOST` passages that fit a question best, or as many as there are, without `own`, which is one of them:
        the best first, of equal ones the one that came first; none where no passage has two tokens."""
        most = min(MOST, len(self._passages) - 1)
        if not most or not len(self._known):
            return []
        asked = np.unique(_terms(question))
        places = np.searchsorted(self._known, asked).clip(max=len(self._known) - 1)
        scores = self._index.get_scores_from_ids(places[self._known[places] == asked])
        scores[self._numbers[tuple(own)]] = -1
        return [self._passages[number] for number in np.argsort(-scores, kind="stable")[:most]]


def _terms(ids: Sequence[int]) -> NDArray[np.int64]:
    pairs = np.array(ids, dtype=np.int64)
    return pairs[:-1] << 32 | pairs[1:]
