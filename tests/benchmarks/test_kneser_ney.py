"""Modified Kneser–Ney: a case computed by hand, a distribution in every context, and the equations written plainly."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from itertools import product

import numpy as np
import pytest

from benchmarks.kneser_ney import FALLBACK, KneserNey

A, B, END = 0, 1, 2
BEGIN = -1
Gram = tuple[int, ...]


def test_a_case_computed_by_hand() -> None:
    """Of "a b" and "a a b": the discounts are the fallback ones, 0.5 for a count of 1 and 1.0 for a count of 2.

    Pairs: (begin a) 2, (a b) 2, (b end) 2, (a a) 1. Tokens by what stands before them: a 2 (begin, a), b 1, end 1.
    p1(a) = (2 − 1)/4 + (1 + 0.5 + 0.5)/4 · 1/3 = 5/12; p1(b) = p1(end) = 0.5/4 + 1/6 = 7/24.
    p2(a | begin) = (2 − 1)/2 + 1/2 · 5/12 = 17/24; p2(b | a) = (2 − 1)/3 + 1.5/3 · 7/24 = 23/48.
    """
    model = KneserNey([[A, B, END], [A, A, B, END]], order=2, size=3)
    found = np.exp(model.log_probabilities([[A, B], [B, A]]))
    # b has not begun a sequence: p2(b | begin) = 1/2 · 7/24; nor has a followed b: p2(a | b) = 1/2 · 5/12.
    assert found == pytest.approx([17 / 24, 23 / 48, 7 / 48, 5 / 24])


def some_sequences(count: int, letters: int, seed: int) -> list[list[int]]:
    """Sequences of `letters` ids, each likely to follow the one before; the last id ends them."""
    random = np.random.default_rng(seed)
    made = []
    for _ in range(count):
        sequence = [int(random.integers(letters))]
        while random.random() > 0.15:
            sequence.append(int(sequence[-1] + random.geometric(0.6)) % letters)
        made.append([*sequence, letters])
    return made


def test_probabilities_sum_to_one_in_every_context() -> None:
    model = KneserNey(some_sequences(60, 5, seed=1), order=3, size=6)
    for context in [(), *product(range(6), repeat=1), *product(range(6), repeat=2), (4, 4, 4, 1)]:
        found = model.log_probabilities([[*context, last] for last in range(6)])
        assert np.exp(found.reshape(6, -1)[:, -1]).sum() == pytest.approx(1)


def plain(sequences: Sequence[Sequence[int]], order: int, size: int) -> dict[int, Counter[Gram]]:
    """The counts of each order, gram by gram."""
    counts: dict[int, Counter[Gram]] = {}
    for k in range(order, 0, -1):
        raw: Counter[Gram] = Counter()
        for sequence in sequences:
            whole = (BEGIN, *sequence)
            raw.update(gram for i in range(len(whole) - k + 1) if (gram := tuple(whole[i : i + k]))[-1] != BEGIN)
        before = Counter(gram[1:] for gram in counts.get(k + 1, ()))
        counts[k] = Counter({g: n if k == order or g[0] == BEGIN else before[g] for g, n in raw.items()})
    return counts


def probability(counts: dict[int, Counter[Gram]], context: Gram, token: int, size: int) -> float:
    """The equation, read from the page."""
    k = len(context) + 1
    lower = 1 / size if k == 1 else probability(counts, context[1:], token, size)
    n = [sum(count == i for count in counts[k].values()) for i in range(5)]
    y = n[1] / (n[1] + 2 * n[2]) if all(n[1:]) else 0
    discount = [0, *(i - (i + 1) * y * n[i + 1] / n[i] for i in (1, 2, 3))] if y else [0, *FALLBACK]
    follow = [count for gram, count in counts[k].items() if gram[:-1] == context]
    if not follow:
        return lower
    freed = sum(discount[min(count, 3)] for count in follow)
    count = counts[k][(*context, token)]
    return (count - discount[min(count, 3)] + freed * lower) / sum(follow)


@pytest.mark.parametrize("order", [1, 2, 3, 5])
def test_arrays_give_what_the_equation_gives(order: int) -> None:
    sequences, size = some_sequences(80, 6, seed=2), 7
    unseen = some_sequences(20, 6, seed=3)
    counts = plain(sequences, order, size)
    wanted = []
    for sequence in unseen:
        whole = (BEGIN, *sequence)
        wanted += [math.log(probability(counts, whole[max(0, i - order + 1) : i], whole[i], size))
                   for i in range(1, len(whole))]
    assert KneserNey(sequences, order, size).log_probabilities(unseen) == pytest.approx(wanted)


def test_an_order_that_no_sequence_has_is_refused() -> None:
    with pytest.raises(ValueError, match="no sequence has 4 ids"):
        KneserNey([[A, B, END]], order=4, size=3)
