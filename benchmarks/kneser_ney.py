"""Interpolated modified Kneser–Ney, the strongest of the n-gram models (Chen & Goodman 1998, section 4.1.6).

``p_k(w | h) = (c(hw) − D(c(hw))) / Σ_v c(hv)  +  γ(h) p_{k−1}(w | h′)``, where h′ is h without its first token,
``γ(h) = Σ_v D(c(hv)) / Σ_v c(hv)``, and ``p_0`` is uniform. The count c of the highest order is how often the n-gram
occurs; of a lower order, how many different tokens stand before it. An n-gram at the beginning of a sequence has
nothing before it, so there its occurrences count.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.int64]
Values = NDArray[np.float64]

FALLBACK = (0.5, 1.0, 1.5)  # discounts where counts are too few to estimate them


@final
class KneserNey:
    """The model of some sequences.

    Args:
        sequences: of ids in [0, size), each as it is predicted: with the id that ends it, without one that begins it.
        order: of the n-grams; 1 is the unigram model.
        size: ids there are, all of which can be predicted.

    Raises:
        ValueError: no sequence is as long as the order.
    """

    def __init__(self, sequences: Sequence[Sequence[int]], order: int, size: int) -> None:
        self._begin, self._size = size, size  # the id of the beginning is one more, and is never predicted
        if max(map(len, sequences), default=0) < order:
            raise ValueError(f"no sequence has {order} ids")
        text = _Text(sequences, self._begin)
        self._orders: list[_Order] = []
        grams = [np.full(len(text.tokens), 0)]  # of each order, at each place: which n-gram ends there, -1 for none
        for k in range(1, order + 1):
            keys = _keys(grams[-1], text.leading(k), self._size + 1)
            known, found = np.unique(keys[keys >= 0], return_inverse=True)
            ending = np.full(len(keys), -1)
            ending[keys >= 0] = found
            grams.append(ending)
            self._orders.append(_Order(known))
        for k in range(order, 0, -1):
            self._orders[k - 1].count(grams, k, text, None if k == order else grams[k + 1])

    def log_probabilities(self, sequences: Sequence[Sequence[int]]) -> Values:
        """ln p of each id, given those before it in its sequence: [T of all of them, one after the other]."""
        text = _Text(sequences, self._begin)
        probability = np.full(len(text.tokens), 1 / self._size)
        gram, context = np.full(len(text.tokens), 0), np.full(len(text.tokens), 0)
        for k, order in enumerate(self._orders, start=1):
            gram = order.find(_keys(gram, text.leading(k), self._size + 1))
            probability = order.interpolate(gram, context, probability)
            context = np.roll(gram, 1)  # the n-gram that ends one place before
        return np.log(probability[text.predicted])


@final
class _Text:
    """Sequences end to end, each behind the id that begins it."""

    def __init__(self, sequences: Sequence[Sequence[int]], begin: int) -> None:
        lengths = np.asarray([len(sequence) + 1 for sequence in sequences])
        starts = np.repeat(np.cumsum(lengths) - lengths, lengths)
        self.tokens = np.concatenate([np.asarray([begin, *sequence], dtype=np.int64) for sequence in sequences])
        self._place = np.arange(len(self.tokens)) - starts  # in its sequence, the beginning at 0
        self.predicted = self._place > 0

    def leading(self, k: int) -> Numbers:
        """The first token of the k-gram that ends at each place; -1 where the sequence is shorter."""
        return np.where(self._place >= k - 1, np.roll(self.tokens, k - 1), -1)

    def begins(self, k: int) -> NDArray[np.bool_]:
        """Where the k-gram that ends here stands at the beginning of its sequence."""
        return self._place == k - 1


def _keys(shorter: Numbers, leading: Numbers, base: int) -> Numbers:
    """One number for each pair of a (k−1)-gram and the token before it; -1 where one of them is not there."""
    return np.where((shorter >= 0) & (leading >= 0), shorter * base + leading, -1)


@final
class _Order:
    """The n-grams of one order: their keys, counts, and what follows from them for each context."""

    def __init__(self, known: Numbers) -> None:
        self._known = known

    def find(self, keys: Numbers) -> Numbers:
        """Which n-gram each key is, -1 for one that was never seen."""
        places = np.searchsorted(self._known, keys).clip(max=len(self._known) - 1)
        return np.where(self._known[places] == keys, places, -1)

    def count(self, grams: list[Numbers], k: int, text: _Text, longer: Numbers | None) -> None:
        """Counts the k-grams, and sums over their contexts. `longer`: the (k+1)-grams at each place, None if k is the
        highest order."""
        ending = grams[k]
        counted = text.predicted & (ending >= 0)
        if longer is not None:  # each (k+1)-gram once, where it stands first, and all that begin a sequence
            first = np.zeros(len(ending), dtype=bool)
            first[np.unique(longer, return_index=True)[1]] = True
            counted &= (first & (longer >= 0)) | text.begins(k)
        counts = np.bincount(ending[counted], minlength=len(self._known))
        context_of = np.zeros(len(self._known), dtype=np.int64)
        context_of[ending[counted]] = np.roll(grams[k - 1], 1)[counted]
        discounts = _discounts(counts)[np.minimum(counts, 3)]
        contexts = int(grams[k - 1].max()) + 1
        self._left = counts - discounts
        self._total = np.bincount(context_of, counts, contexts)
        self._freed = np.bincount(context_of, discounts, contexts)

    def interpolate(self, gram: Numbers, context: Numbers, lower: Values) -> Values:
        """p_k of each place from p_{k−1}; where the context was never seen, they are the same."""
        total = np.where(context >= 0, self._total[context], 0.0)
        left = np.where(gram >= 0, self._left[gram], 0.0)
        seen = total > 0
        own = np.divide(left, total, out=np.zeros_like(lower), where=seen)
        weight = np.divide(self._freed[context], total, out=np.ones_like(lower), where=seen)
        return own + weight * lower


def _discounts(counts: Numbers) -> Values:
    """What is taken from a count of 0, 1, 2, and 3 or more: their equation (26); FALLBACK where it has no value."""
    n = [int((counts == i).sum()) for i in range(5)]
    estimated = list(FALLBACK)
    if all(n[1:]):
        y = n[1] / (n[1] + 2 * n[2])
        estimated = [i - (i + 1) * y * n[i + 1] / n[i] for i in (1, 2, 3)]
    return np.asarray([0.0, *estimated])
