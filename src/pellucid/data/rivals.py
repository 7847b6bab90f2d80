"""Passages that fit a question and are not its own, told from ids: what a search brings beside the right one.

By BM25 as in retrieve/bm25.py, two neighbouring tokens a term.
"""

from collections.abc import Sequence
from random import Random

import numpy as np
from numpy.typing import NDArray

MOST = 5  # of a question, the best: as many as are read when it is asked of an index
Rows = list[list[int]]


def rivals_of(questions: Rows, passages: Rows, random: Random) -> list[Sequence[int]]:
    """For each question one of the `MOST` passages that fit it best, of those that are others than its own; empty where
    there is none, or no passage has two tokens.

    Args:
        questions: the tokens of each.
        passages: the tokens of the passage of each; many may be the same.
    """
    import bm25s

    numbers = dict[tuple[int, ...], int]()
    own = [numbers.setdefault(tuple(passage), len(numbers)) for passage in passages]
    others, most = list(numbers), min(MOST, len(numbers) - 1)
    terms = [_terms(passage) for passage in others]
    known, places = np.unique(np.concatenate(terms), return_inverse=True)
    if not most or not len(known):
        return [()] * len(questions)
    bounds = np.cumsum([len(some) for some in terms])[:-1]
    index = bm25s.BM25(method="lucene", k1=1.2, b=0.75)
    index.index((np.split(places, bounds), {place: place for place in range(len(known))}), show_progress=False)
    found = list[Sequence[int]]()
    for question, number in zip(questions, own, strict=True):
        asked = np.unique(_terms(question))
        scores = index.get_scores_from_ids(np.flatnonzero(np.isin(known, asked, assume_unique=True)))
        scores[number] = -1
        found.append(others[random.choice(np.argpartition(-scores, most - 1)[:most])])
    return found


def _terms(ids: Sequence[int]) -> NDArray[np.int64]:
    pairs = np.array(ids, dtype=np.int64)
    return pairs[:-1] << 32 | pairs[1:]
