"""The order of examples by their lengths: by hand, as properties, and how much padding it leaves."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from pellucid.data.order import by_length


def test_strips_by_hand() -> None:
    """One batch is two strips of 10 tokens of 20: sources of 1 and 2, up; sources of 4, down. Equal lengths are told
    apart by ties, the last one first."""
    source, target = np.array([4, 1, 2, 4, 1, 4]), np.array([1, 4, 3, 8, 3, 1])
    assert by_length(source, target, 1).tolist() == [4, 2, 1, 3, 0, 5]
    assert by_length(source, target, 1, np.array([5, 4, 3, 2, 1, 0])).tolist() == [4, 2, 1, 3, 5, 0]
    assert by_length(source, target, 1, np.arange(6)).tolist() == [4, 2, 1, 3, 0, 5]  # and other lengths never
    half = np.array([1, 1, 1, 1, 2, 2]), np.array([1, 1, 1, 1, 1, 11])  # of the tokens, not of the examples
    assert by_length(*half, 1).tolist() == [0, 1, 2, 3, 4, 5]


@given(st.lists(st.tuples(st.integers(1, 30), st.integers(1, 30)), min_size=1, max_size=60), st.floats(0.1, 50))
@settings(max_examples=100, deadline=None)
def test_every_example_has_its_place_in_one_strip(pairs: list[tuple[int, int]], batches: float) -> None:
    source, target = np.array(pairs).T
    order = by_length(source, target, batches)
    assert sorted(order.tolist()) == list(range(len(pairs)))
    moves = np.sign(np.diff(target[order]))
    turns = moves[moves != 0]
    assert np.count_nonzero(np.diff(turns)) <= 2 * np.sqrt(batches) + 1  # up and down, a strip each
    for length in set(source.tolist()):
        own = np.diff(target[order][source[order] == length])
        assert (own >= 0).all() or (own <= 0).all()


def padding(source: NDArray[np.int64], target: NDArray[np.int64], order: NDArray[np.int64], tokens: int) -> float:
    """The share of places that no token has."""
    numbers = (np.cumsum(target[order]) - 1) // tokens
    cuts = np.split(order, np.flatnonzero(np.diff(numbers)) + 1)
    places = sum(len(rows) * (source[rows].max() + target[rows].max()) for rows in cuts)
    return 1 - float(source.sum() + target.sum()) / places


@pytest.mark.parametrize(("apart", "share"), [(0.25, 0.6), (1.0, 0.3)], ids=["translations", "titles and texts"])
def test_there_is_less_padding_than_by_source_and_then_target(apart: float, share: float) -> None:
    """Where one source length ended and the next began, a batch had the longest and the shortest targets."""
    random = np.random.default_rng(0)
    source = random.poisson(12, 20_000) + 1
    target = np.clip(source * np.exp(random.normal(0.1, apart, 20_000)), 1, 200).astype(np.int64)
    before = padding(source, target, np.lexsort((target, source)), 4000)
    assert padding(source, target, by_length(source, target, target.sum() / 4000), 4000) < share * before
