"""A batch in parts: all its rows, no columns that nobody needs, about as many tokens each; and parts as tensors."""

from __future__ import annotations

from itertools import chain

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pellucid.data.batching import collate
from pellucid.data.corpus import Corpus, Sequences
from pellucid.data.encoding import Report
from pellucid.train.parts import as_batches, as_tensors, divide


def sequences(rows: list[list[int]]) -> Sequences:
    offsets = np.cumsum([0, *map(len, rows)]).astype(np.int64)
    return Sequences(np.asarray([i for row in rows for i in row], dtype=np.int32), offsets)


def numbered(lengths: list[tuple[int, int]]) -> Corpus:
    """Pairs of which each token tells the row."""
    sides = [[[3 + row] * pair[side] for row, pair in enumerate(lengths)] for side in range(2)]
    return Corpus(sequences(sides[0]), sequences(sides[1]), Report(0, 0, 0, 0, 0, 0))


def corpus_of(lengths: list[tuple[int, int]]) -> Corpus:
    draw = np.random.default_rng(0)
    sides = [[draw.integers(3, 9, size=pair[side]).tolist() for pair in lengths] for side in range(2)]
    return Corpus(sequences(sides[0]), sequences(sides[1]), Report(0, 0, 0, 0, 0, 0))


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=1, max_size=12), st.integers(1, 5))
def test_parts_have_each_row_once_in_order_without_empty_columns_and_are_about_equal(lengths: list[tuple[int, int]],
                                                                                     count: int) -> None:
    corpus = numbered(lengths)
    parts = divide(collate(corpus, np.arange(len(lengths))), count)
    assert len(parts) == count
    assert parts[0] is not None
    rows = [[] if part is None else (part.source[:, 0] - 3).tolist() for part in parts]
    assert sorted(chain.from_iterable(rows)) == list(range(len(lengths)))
    for part, mine in zip(parts, rows, strict=True):
        assert mine == sorted(mine)
        if part is not None and count > 1:
            for name, tensor in vars(collate(corpus, np.asarray(mine))).items():
                assert tensor is None or torch.equal(getattr(part, name), tensor)
                assert (tensor is None) == (getattr(part, name) is None)
    if len(lengths) >= count:
        tokens = [sum(sum(lengths[row]) for row in mine) for mine in rows]
        assert max(tokens) <= sum(tokens) / count + 2 * max(map(sum, lengths))


@pytest.mark.parametrize(("lengths", "expected"), [
    ([9, 9, 9, 10, 10, 10], [[0, 1, 3], [2, 4, 5]]),  # 28 and 29 tokens, where neighbours have 27 and 30
    ([100] * 50 + [101] * 50, [list(range(50)), list(range(50, 100))]),
    ([10, 40, 20, 30], [[0, 1], [2, 3]]),
    ([20, 20, 20, 10], [[0, 1], [2, 3]]),  # a row belongs where its middle lies
])
def test_neighbours_stay_together_unless_that_is_uneven(lengths: list[int], expected: list[list[int]]) -> None:
    parts = divide(collate(numbered([(length - 1, 1) for length in lengths]), np.arange(len(lengths))), 2)
    assert [(part.source[:, 0] - 3).tolist() for part in parts if part is not None] == expected


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(1, 4)), min_size=1, max_size=4))
def test_tensors_by_name_are_the_batches(lengths: list[tuple[int, int]]) -> None:
    batches = {number: collate(corpus_of(lengths), np.arange(len(lengths))) for number in (3, 17)}
    back = as_batches(as_tensors(batches))
    assert list(back) == [3, 17]
    for number, batch in batches.items():
        for name, tensor in vars(batch).items():
            assert tensor is getattr(back[number], name) is None or torch.equal(tensor, getattr(back[number], name))


def test_batches_come_by_number_whatever_order_their_tensors_had() -> None:
    tensors = as_tensors({number: collate(corpus_of([(2, 3)]), np.arange(1)) for number in (2, 10, 1)})
    assert list(as_batches(dict(reversed(tensors.items())))) == [1, 2, 10]
