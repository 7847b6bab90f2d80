"""A batch in parts: all its rows, no columns that nobody needs, about as many tokens each; and parts as tensors."""

from __future__ import annotations

import numpy as np
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


def corpus_of(lengths: list[tuple[int, int]]) -> Corpus:
    draw = np.random.default_rng(0)
    sides = [[draw.integers(3, 9, size=pair[side]).tolist() for pair in lengths] for side in range(2)]
    return Corpus(sequences(sides[0]), sequences(sides[1]), Report(0, 0, 0, 0, 0, 0))


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=1, max_size=12), st.integers(1, 5))
def test_parts_are_the_rows_in_order_without_empty_columns_and_about_equal(lengths: list[tuple[int, int]],
                                                                          count: int) -> None:
    corpus = corpus_of(lengths)
    whole = collate(corpus, np.arange(len(lengths)))
    parts = divide(whole, count)
    assert len(parts) == count
    assert parts[0] is not None
    first, tokens = 0, []
    for part in parts:
        rows = 0 if part is None else len(part.source)
        tokens.append(sum(map(sum, lengths[first : first + rows])))
        if part is not None and count > 1:
            alone = collate(corpus, np.arange(first, first + rows))
            for name, tensor in vars(alone).items():
                assert tensor is None or torch.equal(getattr(part, name), tensor)
                assert (tensor is None) == (getattr(part, name) is None)
        first += rows
    assert first == len(lengths)
    if len(lengths) >= count:
        assert max(tokens) <= sum(tokens) / count + 2 * max(map(sum, lengths))


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(1, 4)), min_size=1, max_size=4))
def test_tensors_by_name_are_the_batches(lengths: list[tuple[int, int]]) -> None:
    batches = {number: collate(corpus_of(lengths), np.arange(len(lengths))) for number in (3, 17)}
    back = as_batches(as_tensors(batches))
    assert list(back) == [3, 17]
    for number, batch in batches.items():
        for name, tensor in vars(batch).items():
            assert tensor is getattr(back[number], name) is None or torch.equal(tensor, getattr(back[number], name))
