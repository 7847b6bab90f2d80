"""Batches: every example once an epoch, within the budget, next to no padding, and a pure function of the number."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pellucid.data.batching import Batch, Batches, collate, pad
from pellucid.data.corpus import Corpus, Sequences
from pellucid.data.encoding import Report
from pellucid.data.tokenizers.interface import BOS, EOS, PAD


def sequences(rows: list[list[int]]) -> Sequences:
    offsets = np.cumsum([0, *map(len, rows)]).astype(np.int64)
    return Sequences(np.asarray([i for row in rows for i in row], dtype=np.int32), offsets)


def corpus_of(lengths: list[tuple[int, int]]) -> Corpus:
    """Pairs of these lengths, each token naming its example."""
    source = sequences([[*[10 + i] * (a - 1), EOS] for i, (a, _) in enumerate(lengths)])
    target = sequences([[*[10 + i] * (b - 1), EOS] for i, (_, b) in enumerate(lengths)])
    return Corpus(source, target, Report(len(lengths), len(lengths), 0, 0, 0, 0))


corpora = st.lists(st.tuples(st.integers(2, 12), st.integers(2, 12)), min_size=1, max_size=60).map(corpus_of)
budgets = st.one_of(st.tuples(st.integers(1, 60), st.none()), st.tuples(st.just(1), st.integers(1, 20)))


@settings(max_examples=100, deadline=None)
@given(corpus=corpora, budget=budgets, seed=st.integers(0, 5))
def test_every_example_comes_exactly_once_an_epoch_within_the_budget(corpus: Corpus, budget: Any, seed: int) -> None:
    tokens, sentences = budget
    batches = Batches(corpus, tokens, sentences, seed)
    per_epoch = batches.per_epoch
    for epoch in range(3):
        found = batches.examples(epoch)
        assert len(found) == batches.per_epoch == per_epoch
        assert sorted(i for batch in found for i in batch.tolist()) == list(range(len(corpus)))
        longest = int(corpus.target.lengths.max())
        for batch in found:
            if sentences:
                assert 1 <= len(batch) <= sentences
            else:
                assert 1 <= corpus.target.lengths[batch].sum() < tokens + 2 * longest  # one more, to be even
    if sentences:
        assert per_epoch == -(-len(corpus) // sentences)


@settings(max_examples=60, deadline=None)
@given(corpus=corpora, budget=budgets, seed=st.integers(0, 5), data=st.data())
def test_a_batch_is_a_function_of_seed_and_number(corpus: Corpus, budget: Any, seed: int, data: Any) -> None:
    one = Batches(corpus, *budget, seed)
    in_turn = [one[i].source for i in range(3 * one.per_epoch)]
    other = Batches(corpus, *budget, seed)
    for i in data.draw(st.lists(st.integers(0, len(in_turn) - 1), max_size=12)):
        assert torch.equal(other[i].source, in_turn[i])


@settings(max_examples=100, deadline=None)
@given(corpus=corpora, budget=budgets)
def test_a_batch_is_its_examples_padded_at_the_end(corpus: Corpus, budget: Any) -> None:
    batches = Batches(corpus, *budget, 1)
    for place, examples in enumerate(batches.examples(0)):
        batch = batches[place]
        for ids, real, side in ((batch.source, batch.real_source, corpus.source),
                                (batch.target, batch.real_target, corpus.target)):
            lengths = side.lengths[examples]
            assert ids.dtype == torch.int64
            assert ids.shape == (len(examples), lengths.max())
            assert (real is None) == bool((lengths == lengths.max()).all())
            mask = torch.ones_like(ids, dtype=torch.bool) if real is None else real
            assert mask.sum(1).tolist() == lengths.tolist()
            assert bool((ids[~mask] == PAD).all())
            for row, kept, i in zip(ids, mask, examples, strict=True):
                assert row[kept].tolist() == side[int(i)].tolist()
        assert bool((batch.target_input[:, 0] == BOS).all())
        assert torch.equal(batch.target_input[:, 1:], batch.target[:, :-1])
        assert batch.source_tokens == corpus.source.lengths[examples].sum()
        assert batch.target_tokens == corpus.target.lengths[examples].sum()


def test_a_batch_by_hand_and_the_same_twice() -> None:
    corpus = corpus_of([(3, 4), (5, 2), (5, 4), (5, 4)])
    batch = collate(corpus, np.array([0, 1, 2]))
    assert batch.places is not None
    assert batch.places.tolist() == [0, 1, 2, 3, 4, 5, 8, 9, 10, 11]
    assert batch.tokens == 3 * (5 + 4)
    assert collate(corpus, np.array([2, 3])).places is None
    for rows in ([0, 1, 2], [2, 3], [0, 2]):
        once, wanted = (collate(corpus, np.array(each)) for each in (rows, rows * 2))
        for found in (once.twice(), once.twice().to(torch.device("cpu"))):
            for one, other in zip(found.tensors(), wanted.tensors(), strict=True):
                assert one is other is None or (one is not None and other is not None and torch.equal(one, other))


def test_an_example_longer_than_a_batch_takes_one() -> None:
    batches = Batches(corpus_of([(9, 2)] * 20 + [(9, 100)]), 20, None, 1)
    assert sorted(map(len, batches.examples(0))) == [1, 10, 10]


class Growing:
    """Examples that are drawn twice as long in each epoch."""

    blocks = 1

    def in_epoch(self, epoch: int) -> Corpus:
        return corpus_of([(9, 4 * 2**epoch)] * 40)

    def window(self, epoch: int, blocks: range) -> tuple[Corpus, Any]:
        return self.in_epoch(epoch), np.arange(40)

    def totals(self) -> Any:
        raise AssertionError("of one window the lengths are looked at")


def test_examples_that_become_longer_are_cut_into_the_same_shares() -> None:
    batches = Batches(Growing(), 40, None, 1)
    for epoch in range(3):
        assert [len(batch) for batch in batches.examples(epoch)] == [10] * 4


def test_a_batch_is_so_many_target_tokens_or_source_tokens_where_a_target_is_one_label() -> None:
    assert Batches(corpus_of([(9, 2)] * 20), 20, None, 1).per_epoch == 20 * 2 // 20
    assert Batches(corpus_of([(9, 1)] * 20), 20, None, 1).per_epoch == 20 * 9 // 20


def many() -> Corpus:
    draw = np.random.default_rng(0)
    return corpus_of([(int(a), int(a + d)) for a, d in zip(draw.integers(3, 30, 3000), draw.integers(0, 4, 3000))])


def test_epochs_and_seeds_differ_in_the_order_and_in_who_stands_beside_whom() -> None:
    corpus = many()
    one, other = Batches(corpus, 200, None, 1), Batches(corpus, 200, None, 2)
    sets = [{frozenset(batch.tolist()) for batch in batches.examples(epoch)}
            for batches, epoch in ((one, 0), (one, 1), (other, 0))]
    assert sets[0] != sets[1]
    assert sets[0] != sets[2]
    orders = [[int(corpus.source.lengths[batch].max()) for batch in one.examples(epoch)] for epoch in (0, 1)]
    assert orders[0] != orders[1]
    assert sorted(orders[0]) == sorted(orders[1])  # the same shapes in every epoch
    assert orders[0] != sorted(orders[0])


def test_next_to_nothing_is_padding() -> None:
    batches = Batches(many(), 400, None, 1)
    padded = sum(batches[i].source.numel() + batches[i].target.numel() for i in range(batches.per_epoch))
    real = sum(batches[i].source_tokens + batches[i].target_tokens for i in range(batches.per_epoch))
    assert 1 - real / padded < 0.06


@pytest.mark.parametrize(("rows", "is_even"), [(5, True), (9, True), (33, True), (101, False)])
def test_few_examples_are_an_even_number_for_two_workers(rows: int, is_even: bool) -> None:
    batches = Batches(corpus_of([(9, 10)] * 1001), 10 * rows, None, 1)
    for epoch in range(2):
        counts = [len(batch) for batch in batches.examples(epoch)]
        assert sum(count % 2 for count in counts) <= 1 if is_even else set(counts[:3]) <= {rows, 1001 % rows}
        assert max(counts) <= rows + 1
        assert sum(counts) == 1001


def test_no_batch_is_left_empty_for_an_even_number() -> None:
    """Twenty examples of one token are a batch, and so is each of three that have twenty."""
    batches = Batches(corpus_of([(2, 1)] * 20 + [(2, 20)] * 3), 20, None, 1)
    assert sorted(map(len, batches.examples(0))) == [1, 1, 1, 20]


def test_a_number_of_examples_that_is_asked_for_is_kept() -> None:
    counts = [len(batch) for batch in Batches(corpus_of([(9, 10)] * 50), 1, 7, 1).examples(0)]
    assert sorted(counts) == [1, *[7] * 7]


def test_where_a_target_is_one_label_the_budget_counts_source_tokens() -> None:
    lengths = [(n, 2) for n in range(2, 30)]
    corpus = corpus_of(lengths)
    labels = Corpus(corpus.source, sequences([[i % 3] for i in range(len(lengths))]), corpus.report)
    batches = Batches(labels, 60, None, 1)
    for batch in batches.examples(0):
        assert corpus.source.lengths[batch].sum() < 60 + 29
    assert batches.per_epoch >= sum(n for n, _ in lengths) // 90
    assert batches[0].target.shape == (len(batches.examples(0)[0]), 1)


def test_a_batch_goes_to_a_device_whole() -> None:
    corpus = corpus_of([(2, 3), (4, 2)])
    for examples in ([0], [0, 1]):
        batch = collate(corpus, np.asarray(examples))
        moved = batch.to(torch.device("meta"))
        for name in Batch.__dataclass_fields__:
            before, after = getattr(batch, name), getattr(moved, name)
            assert (before is None and after is None) or after.device.type == "meta"


def test_padding_by_hand() -> None:
    ids, real = pad([np.asarray([5, 6, 7], dtype=np.int32), np.asarray([8], dtype=np.int32)])
    assert ids.tolist() == [[5, 6, 7], [8, PAD, PAD]]
    assert real is not None
    assert real.tolist() == [[True, True, True], [True, False, False]]
    assert pad([np.asarray([5], dtype=np.int32)] * 2)[1] is None
