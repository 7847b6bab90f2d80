"""Windows of blocks: every example once an epoch, a pure function of the number, whatever the size of the corpus."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from pellucid.data import blocks
from pellucid.data.batching import Batches
from pellucid.data.blocks import count_blocks, rows_in, totals_of, windows_of
from pellucid.data.corpus import Corpus, Sequences
from pellucid.data.encoding import Report
from pellucid.data.order import by_length
from pellucid.errors import DataError

Lengths = list[tuple[int, int]]


@pytest.fixture(autouse=True, scope="module")
def small() -> Iterator[None]:
    """Blocks of 5 pairs, windows of 2 blocks."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "BLOCK", 5)
        patch.setattr(blocks, "WINDOW", 2)
        yield


def sequences(lengths: list[int]) -> Sequences:
    """Of these lengths, each id naming its sequence."""
    offsets = np.cumsum([0, *lengths]).astype(np.int64)
    return Sequences(np.repeat(np.arange(10, 10 + len(lengths)), lengths).astype(np.int32), offsets)


def corpus_of(lengths: Lengths) -> Corpus:
    return Corpus(sequences([a for a, _ in lengths]), sequences([b for _, b in lengths]), Report(0, 0, 0, 0, 0, 0))


def many(count: int) -> Corpus:
    draw = np.random.default_rng(count)
    return corpus_of([(int(n), int(n) + 1) for n in draw.integers(2, 9, count)])


several = st.lists(st.tuples(st.integers(2, 9), st.integers(2, 9)), min_size=11, max_size=70)
budgets = st.one_of(st.tuples(st.integers(1, 30), st.none()), st.tuples(st.just(1), st.integers(1, 6)))


@given(count=st.integers(1, 400))
def test_windows_have_every_block_once_and_are_alike(count: int) -> None:
    windows = windows_of(count)
    assert sorted(itertools.chain.from_iterable(windows)) == list(range(count))
    sizes = {len(window) for window in windows}
    assert max(sizes) <= 2
    assert max(sizes) - min(sizes) <= 1
    assert len(windows) == -(-count // 2)


@given(lengths=several)
def test_totals_are_those_of_the_rows(lengths: Lengths) -> None:
    corpus = corpus_of(lengths)
    totals = corpus.totals()
    assert len(totals) == corpus.blocks == count_blocks(len(lengths))
    for block, (pairs, source, target) in enumerate(totals.tolist()):
        rows = rows_in([block], len(lengths))
        assert len(rows) == pairs <= 5
        assert (corpus.source.lengths_of(rows).sum(), corpus.target.lengths_of(rows).sum()) == (source, target)


@settings(max_examples=100, deadline=None)
@given(lengths=several, budget=budgets, seed=st.integers(0, 5))
def test_every_example_comes_exactly_once_an_epoch_within_the_budget(lengths: Lengths, budget: Any, seed: int) -> None:
    corpus, (tokens, sentences) = corpus_of(lengths), budget
    batches = Batches(corpus, tokens, sentences, seed)
    for epoch in range(3):
        found = batches.examples(epoch)
        assert len(found) == batches.per_epoch
        assert sorted(np.concatenate(found).tolist()) == list(range(len(lengths)))
        for batch in found:
            assert len(batch) >= 1
            if sentences:
                assert len(batch) <= sentences
            else:
                assert corpus.target.lengths_of(batch).sum() < tokens + 18  # one more, to be even


@pytest.mark.parametrize(("budget", "lengths", "counted"), [
    ((20, None), [(9, 2 + i % 5) for i in range(61)], lambda a, b: b), ((1, 3), [(9, 2)] * 61, lambda a, b: 1),
    ((20, None), [(2 + i % 5, 1) for i in range(61)], lambda a, b: a)], ids=["target", "sentences", "source of labels"])
def test_a_window_has_as_few_batches_as_it_fills(budget: Any, lengths: Lengths, counted: Any) -> None:
    size, expected = budget[1] or budget[0], 0
    for window in windows_of(count_blocks(61)):
        expected += -(-sum(counted(*lengths[row]) for row in rows_in(window, 61)) // size)
    assert Batches(corpus_of(lengths), *budget, 1).per_epoch == expected


@settings(max_examples=50, deadline=None)
@given(lengths=several, budget=budgets, seed=st.integers(0, 5), data=st.data())
def test_a_batch_is_a_function_of_seed_and_number(lengths: Lengths, budget: Any, seed: int, data: Any) -> None:
    corpus = corpus_of(lengths)
    one, other = Batches(corpus, *budget, seed), Batches(corpus, *budget, seed)
    in_turn = [one[i] for i in range(3 * one.per_epoch)]
    for i in data.draw(st.lists(st.integers(0, len(in_turn) - 1), max_size=12)):
        assert torch.equal(other[i].source, in_turn[i].source)
        assert torch.equal(other[i].target, in_turn[i].target)


@settings(max_examples=50, deadline=None)
@given(lengths=several, budget=budgets)
def test_what_a_batch_has_and_costs_is_told_without_it(lengths: Lengths, budget: Any) -> None:
    batches = Batches(corpus_of(lengths), *budget, 1)
    for i in range(2 * batches.per_epoch):
        batch = batches[i]
        assert batches.target_tokens(i) == batch.target_tokens
        assert batches.cost(i) == batch.source.numel() + batch.target.numel()


def test_a_corpus_of_one_window_is_sorted_cut_and_shuffled_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "WINDOW", 16)
    corpus = many(80)
    batches = Batches(corpus, 40, None, 7)
    for epoch in range(2):
        random = np.random.default_rng([7, epoch])
        source, target = corpus.source.lengths, corpus.target.lengths
        order = by_length(source, target, int(target.sum()) / 40, random.permutation(80))
        numbers = (np.cumsum(target[order]) - 1) // 40
        begins = np.flatnonzero(np.diff(numbers, prepend=-1)) // 2 * 2  # an even number of so few
        cut = np.split(order, begins[1:])
        expected = [cut[i].tolist() for i in random.permutation(len(cut))]
        assert [batch.tolist() for batch in batches.examples(epoch)] == expected


def test_an_epoch_goes_through_one_window_after_another_in_an_order_of_its_own() -> None:
    batches = Batches(many(200), 30, None, 1)
    orders = []
    for epoch in range(3):
        windows = [{int(i) // 5 % 20 for i in batch} for batch in batches.examples(epoch)]  # every 20th block
        assert all(len(window) == 1 for window in windows)
        orders.append([window for window, _ in itertools.groupby(min(one) for one in windows)])
        assert sorted(orders[-1]) == list(range(20))
    assert orders[0] != orders[1] != orders[2]


class Watched:
    """A corpus that notes which windows are made of it, and by which thread; those of one block may fail."""

    def __init__(self, corpus: Corpus, damaged: int | None = None) -> None:
        self.corpus, self.damaged, self.made = corpus, damaged, list[tuple[int, int, bool]]()
        self.blocks, self.totals, self.in_epoch = corpus.blocks, corpus.totals, corpus.in_epoch

    def window(self, epoch: int, blocks: range) -> tuple[Corpus, NDArray[np.int64]]:
        self.made.append((epoch, blocks[0], threading.current_thread() is threading.main_thread()))
        if self.damaged in blocks:
            raise DataError("damaged")
        return self.corpus.window(epoch, blocks)


def test_the_next_window_is_made_by_a_thread_and_two_are_kept() -> None:
    watched = Watched(many(200))
    batches = Batches(watched, 12, None, 1)
    assert watched.made == []
    batches.target_tokens(0)
    assert [by_main for _, _, by_main in watched.made] == [True]
    for i in range(2 * batches.per_epoch):
        for number in (i, i + 1, i):  # as an update does that lies in two windows
            batches.cost(number)
            assert len(batches._made) <= 2
    assert [by_main for _, _, by_main in watched.made] == [True] + [False] * (len(watched.made) - 1)
    assert len({(epoch, window) for epoch, window, _ in watched.made}) == len(watched.made) in (40, 41)
    for i in (0, batches.per_epoch // 2, batches.per_epoch - 1):  # wherever one goes
        batches.cost(i)
        assert len(batches._made) <= 2


def test_what_is_wrong_with_a_window_is_told_when_it_is_used() -> None:
    batches, watched = Batches(many(200), 12, None, 1), Watched(many(200), damaged=3)
    of_window = [int(rows[0]) // 5 % 20 for rows in batches.examples(0)]
    damaged = Batches(watched, 12, None, 1)
    for number in range(of_window.index(3)):
        damaged.cost(number)
    with pytest.raises(DataError, match="damaged"):
        damaged.cost(of_window.index(3))
    assert watched.made[-1] == (0, 3, False)


def test_a_window_may_have_more_tokens_than_the_root_of_64_bits() -> None:
    """Five thousand examples of a million tokens: shares of theirs, as products, would pass 64 bits."""
    offsets = np.arange(0, 5001, dtype=np.int64) * 10**6
    side = Sequences(np.zeros(0, dtype=np.int32), offsets)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "BLOCK", 10_000)
        batches = Batches(Corpus(side, side, Report(0, 0, 0, 0, 0, 0)), 2 * 10**6, None, 1)
        assert {len(batch) for batch in batches.examples(0)} == {2}


def test_totals_of_nothing() -> None:
    nothing = np.zeros(1, dtype=np.int64)
    assert totals_of([nothing, nothing]).shape == (0, 3)
