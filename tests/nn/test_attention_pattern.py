"""Masks: who may look at whom, by hand; and `&` means both."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from pellucid.nn.attention_pattern import AttentionPattern, causal, full, padding, positions_of, window

P4 = torch.arange(4)


def grid(mask: AttentionPattern) -> list[list[list[int]]]:
    """`allowed` as [B, T, S] numbers, everything written out."""
    assert mask.mask is not None
    shape = (mask.mask.shape[0], mask.query_positions.shape[-1], mask.key_positions.shape[-1])
    return mask.mask[:, 0].expand(shape).int().tolist()


def test_full_allows_everything_and_says_so_cheaply() -> None:
    assert full(P4, P4).mask is None
    assert padding(P4, P4, None).mask is None
    assert window(P4, P4, None).mask is None


def test_causal_by_hand() -> None:
    assert grid(causal(P4, P4)) == [[[1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0], [1, 1, 1, 1]]]


def test_causal_with_queries_at_the_end_of_the_keys() -> None:
    assert grid(causal(P4[2:], P4)) == [[[1, 1, 1, 0], [1, 1, 1, 1]]]


def test_causal_hides_nothing_from_the_last_query() -> None:
    mask = causal(P4[3:], P4)
    assert mask.is_last_query
    assert mask.mask is None


def test_window_by_hand() -> None:
    assert grid(window(P4, P4, 1)) == [[[1, 1, 0, 0], [1, 1, 1, 0], [0, 1, 1, 1], [0, 0, 1, 1]]]


def test_causal_window_by_hand() -> None:
    assert grid(causal(P4, P4) & window(P4, P4, 1)) == [[[1, 0, 0, 0], [1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1]]]


def test_window_reaches_back_from_the_last_query() -> None:
    last = P4[3:]
    assert grid(causal(last, P4) & window(last, P4, 1)) == [[[0, 0, 1, 1]]]


def test_padding_by_hand() -> None:
    real = torch.tensor([[True, True, False, False], [False, True, True, True], [False] * 4])
    mask = padding(P4, P4, real)
    assert grid(mask) == [[row] * 4 for row in real.int().tolist()]
    assert mask.answerable[:, 0].expand(3, 4, 1)[..., 0].tolist() == [[True] * 4, [True] * 4, [False] * 4]


def test_positions_of_each_row_decide() -> None:
    positions = torch.tensor([[0, 1, 2], [0, 0, 1]])
    real = torch.tensor([[True, True, True], [False, True, True]])
    assert grid(causal(positions, positions) & padding(positions, positions, real)) == [
        [[1, 0, 0], [1, 1, 0], [1, 1, 1]], [[0, 1, 0], [0, 1, 0], [0, 1, 1]]]


def test_patterns_over_other_positions_cannot_be_joined() -> None:
    with pytest.raises(AssertionError):
        causal(P4, P4) & causal(P4[:2], P4)


def some_pattern(data: st.DataObject, queries: Tensor, keys: Tensor, rows: int) -> AttentionPattern:
    flags = st.lists(st.lists(st.booleans(), min_size=len(keys), max_size=len(keys)), min_size=rows, max_size=rows)
    real = data.draw(st.none() | flags)
    return AttentionPattern(queries, keys, None if real is None else torch.tensor(real), data.draw(st.booleans()),
                data.draw(st.none() | st.integers(0, 5)))


@settings(deadline=None)
@given(st.data(), st.integers(2, 6), st.integers(1, 6), st.integers(1, 3), st.integers(0, 3))
def test_and_is_the_intersection(data: st.DataObject, t: int, s: int, rows: int, offset: int) -> None:
    queries, keys = torch.arange(t) + offset, torch.arange(s)
    a, b, c = (some_pattern(data, queries, keys, rows) for _ in range(3))

    def allowed(mask: AttentionPattern) -> Tensor:
        every = torch.ones(rows, 1, t, s, dtype=torch.bool)
        return every if mask.mask is None else every & mask.mask

    assert torch.equal(allowed(a & b), allowed(a) & allowed(b))
    assert torch.equal(allowed(a & b), allowed(b & a))
    assert torch.equal(allowed(a & (b & c)), allowed((a & b) & c))
    assert torch.equal(allowed(a & a), allowed(a))
    assert torch.equal(allowed(a & full(queries, keys)), allowed(a))


@settings(deadline=None)
@given(st.data(), st.integers(2, 6), st.integers(1, 6), st.integers(1, 3), st.integers(0, 3))
def test_allowed_is_its_definition(data: st.DataObject, t: int, s: int, rows: int, offset: int) -> None:
    mask = some_pattern(data, torch.arange(t) + offset, torch.arange(s), rows)
    for b in range(rows):
        for i in range(t):
            expected = [(mask.real_keys is None or bool(mask.real_keys[b, j])) and (not mask.causal or j <= i + offset)
                        and (mask.window is None or abs(i + offset - j) <= mask.window) for j in range(s)]
            got = [True] * s if mask.mask is None else mask.mask.expand(rows, 1, t, s)[b, 0, i].tolist()
            assert got == expected
            if mask.mask is not None:
                assert bool(mask.answerable.expand(rows, 1, t, 1)[b, 0, i, 0]) == any(expected)


def test_positions_count_real_tokens_wherever_the_padding_lies() -> None:
    tokens = torch.zeros(3, 5, dtype=torch.long)
    left = torch.tensor([[0, 0, 1, 1, 1], [1, 1, 1, 1, 1], [0, 1, 1, 0, 0]], dtype=torch.bool)
    positions = positions_of(left, tokens)
    for row, real, expected in zip(positions, left, ([0, 1, 2], [0, 1, 2, 3, 4], [0, 1]), strict=True):
        assert row[real].tolist() == expected
        assert row.min() >= 0


def test_positions_without_padding_on_the_left_are_one_row() -> None:
    tokens = torch.zeros(2, 3, dtype=torch.long)
    right = torch.tensor([[True, True, False], [False, False, False]])
    assert positions_of(None, tokens).tolist() == [0, 1, 2]
    assert positions_of(right, tokens).tolist() == [0, 1, 2]
    assert positions_of(right[:, :1], tokens[:, :1]).tolist() == [0]


def test_lengths_are_told_where_the_padding_comes_last_in_every_sentence() -> None:
    last = torch.tensor([[True, True, False], [False, False, False], [True, True, True]])
    lengths = padding(P4[:3], P4[:3], last).lengths
    assert lengths is not None
    assert lengths.tolist() == [2, 0, 3]
    assert padding(P4[:3], P4[:3], last.flip(1)).lengths is None
