"""Batches of about as many tokens each, of about one length, in an order that is a pure function of (seed, epoch,
step).

Sorting by length (order.py) leaves little padding; ties are broken anew in each epoch, and the order of the batches is
shuffled. Nothing but a step number is needed to continue.

All of that happens within a window of a few million examples (blocks.py), so memory does not grow with the corpus. Each
epoch goes through the windows in an order of its own. Which examples share a window is the same in all epochs: so the
totals of its blocks tell how many batches a window has, each epoch has as many, and the number of a batch tells its
epoch, its window and its place there, whatever came before.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pellucid.data.blocks import windows_of
from pellucid.data.corpus import Corpus, Examples, Sequences
from pellucid.data.encoding import Ids
from pellucid.data.order import by_length
from pellucid.data.tokenizers.interface import BOS, PAD

_FEW, _MANY = 4, 64  # examples a batch, between which an even number pays, and one more is no matter


@dataclass(frozen=True)
class Batch:
    """Examples side by side, padded at the end.

    Attributes:
        source: [B, S] ids.  real_source: [B, S], false at padding, or None where there is none.
        target: [B, T] ids, ending with eos; for classification [B, 1], the labels.
        target_input: [B, T], the target moved one place to the right behind bos.
        real_target: [B, T], false at padding, or None where there is none.
    """

    source: Tensor
    real_source: Tensor | None
    target: Tensor
    target_input: Tensor
    real_target: Tensor | None

    @property
    def source_positions(self) -> Tensor:
        """[S], where source tokens stand: padding comes last."""
        return torch.arange(self.source.shape[1], device=self.source.device)

    @cached_property
    def places(self) -> Tensor | None:
        """[N], where the real targets are among all B · T, or None where all are real."""
        return None if self.real_target is None else self.real_target.flatten().nonzero()[:, 0]

    @property
    def source_tokens(self) -> int:
        """Source ids that are not padding."""
        return self.source.numel() if self.real_source is None else int(self.real_source.sum())

    @property
    def target_tokens(self) -> int:
        """Target ids that are not padding: the terms of the loss."""
        return self.target.numel() if self.real_target is None else int(self.real_target.sum())

    @property
    def tokens(self) -> int:
        """All of both sides, padding included."""
        return self.source.numel() + self.target.numel()

    def twice(self) -> Batch:
        """The same examples once more below themselves: twice the rows."""
        real_source = None if self.real_source is None else torch.cat([self.real_source] * 2)
        real_target = None if self.real_target is None else torch.cat([self.real_target] * 2)
        places = None if self.places is None else torch.cat([self.places, self.places + self.target.numel()])
        return Batch.of([torch.cat([self.source] * 2), real_source, torch.cat([self.target] * 2),
                         torch.cat([self.target_input] * 2), real_target, places])

    def to(self, device: torch.device) -> Batch:
        """The same batch on another device."""
        return Batch.of([None if each is None else each.to(device) for each in self.tensors()])

    def tensors(self) -> list[Tensor | None]:
        """All that a device needs to know of it, so that nobody has to wait for what is found there."""
        return [self.source, self.real_source, self.target, self.target_input, self.real_target, self.places]

    @staticmethod
    def of(tensors: Sequence[Tensor | None]) -> Batch:
        """The batch whose `tensors` these are."""
        source, real_source, target, target_input, real_target, places = tensors
        assert source is not None
        assert target is not None
        assert target_input is not None
        batch = Batch(source, real_source, target, target_input, real_target)
        vars(batch)["places"] = places  # which are not looked for again
        return batch


class Window(NamedTuple):
    """A window in an epoch: a corpus that has its examples, and their indices there, batch by batch."""

    corpus: Corpus
    batches: list[NDArray[np.int64]]


class Batches:
    """The batches of every epoch.

    A window has as many batches as its examples fill: where it is the only one, in the first epoch; of several, by the
    totals of their blocks, as if no example were longer than a batch. Examples that are drawn anew in each epoch, and
    so change their lengths, are cut into as many, by shares of their tokens.

    The last two windows are kept, so that an update may lie in both; a thread makes the next one while the second half
    of one is in use.

    Args:
        corpus: the examples.
        tokens: target tokens a batch (source tokens where a target is one label).
        sentences: examples a batch, in place of `tokens`.
        seed: of the order.
    """

    def __init__(self, corpus: Examples, tokens: int, sentences: int | None, seed: int) -> None:
        self.corpus = corpus
        self.sentences = sentences
        self._size = sentences or tokens
        self.seed = seed
        self._windows = windows_of(corpus.blocks)
        self._made: dict[tuple[int, int], Callable[[], Window]] = {}  # by epoch and window; the last in use comes last
        if len(self._windows) > 1:
            self._plan_by_totals()
            return
        drawn = corpus.window(0, self._windows[0])
        self._plan_by_lengths(*drawn)
        window = self._cut((0, 0), *drawn)
        self._made[0, 0] = lambda: window

    def _plan_by_lengths(self, corpus: Corpus, rows: NDArray[np.int64]) -> None:
        """Finds the cost of what comes before each batch, and of all, in the first epoch of the only window."""
        source, target = _lengths(corpus, rows)
        self._by_target = int(target.max()) > 1
        costs = self._costs(source, target)
        ends = np.cumsum(costs := costs[by_length(source, target, int(costs.sum()) / self._size)])
        starts = np.flatnonzero(np.diff((ends - 1) // self._size, prepend=-1))
        self._before, self._spent = [(ends - costs)[starts]], [int(ends[-1])]

    def _plan_by_totals(self) -> None:
        """The same of every window, as the totals of its blocks say."""
        totals = self.corpus.totals()
        pairs, source, target = np.transpose([totals[list(blocks)].sum(axis=0) for blocks in self._windows])
        self._by_target = int(target.sum()) > int(pairs.sum())
        self._spent = (pairs if self.sentences else target if self._by_target else source).tolist()
        self._before = [np.arange(min((spent - 1) // self._size + 1, count)) * self._size
                        for spent, count in zip(self._spent, pairs.tolist(), strict=True)]

    @property
    def per_epoch(self) -> int:
        """Batches an epoch."""
        return sum(map(len, self._before))

    def examples(self, epoch: int) -> list[NDArray[np.int64]]:
        """The indices of each batch's examples in `epoch`, in order: every example exactly once. Where examples are
        drawn, they are those in a window. Memory holds all of them."""
        return [rows for window in self._turns(epoch) for rows in self._window((epoch, window)).batches]

    def __getitem__(self, number: int) -> Batch:
        """The batch of this number, counted from the first one of epoch 0 on and on."""
        return collate(*self._find(number))

    def target_tokens(self, number: int) -> int:
        """Those of the batch of this number, which is not made for it."""
        return int(_lengths(*self._find(number))[1].sum())

    def cost(self, number: int) -> int:
        """The places that the batch of this number has for source and target ids, padding included: about what it
        costs to learn from it. It is not made for that."""
        source, target = _lengths(*self._find(number))
        return len(source) * int(source.max() + target.max())

    def _find(self, number: int) -> tuple[Corpus, NDArray[np.int64]]:
        """A corpus, and the indices there of the batch of this number."""
        epoch, place = divmod(number, self.per_epoch)
        turns = self._turns(epoch)
        while place >= len(self._before[turns[0]]):
            place -= len(self._before[turns.pop(0)])
        found = self._window((epoch, turns[0]))
        if len(self._windows) > 1 and 2 * place >= len(found.batches) > 1:
            self._make_ahead((epoch, turns[1]) if len(turns) > 1 else (epoch + 1, self._turns(epoch + 1)[0]))
        return found.corpus, found.batches[place]

    def _turns(self, epoch: int) -> list[int]:
        """The windows in the order of this epoch."""
        turns: list[int] = self._random(epoch).permutation(len(self._windows)).tolist()
        return turns

    def _window(self, key: tuple[int, int]) -> Window:
        if key not in self._made:
            self._make_room()
            window = self._make(key)
            self._made[key] = lambda: window
        self._made[key] = self._made.pop(key)
        return self._made[key]()

    def _make_ahead(self, key: tuple[int, int]) -> None:
        if key not in self._made:
            self._make_room()
            self._made[key] = _in_thread(lambda: self._make(key))

    def _make_room(self) -> None:
        """Keeps, of the windows that were made, the one that was in use last."""
        while len(self._made) > 1:
            del self._made[next(iter(self._made))]

    def _make(self, key: tuple[int, int]) -> Window:
        epoch, window = key
        return self._cut(key, *self.corpus.window(epoch, self._windows[window]))

    def _cut(self, key: tuple[int, int], corpus: Corpus, rows: NDArray[np.int64]) -> Window:
        """These rows of the corpus as the window of this epoch and number: sorted, cut, shuffled."""
        epoch, window = key
        if len(rows) == 0:  # of a weight so small
            return Window(corpus, [])
        random = self._random(epoch, *([window] if len(self._windows) > 1 else []))
        source, target = _lengths(corpus, rows)
        costs = self._costs(source, target)
        order = by_length(source, target, int(costs.sum()) / self._size, random.permutation(len(rows)))
        batches = np.split(rows[order], self._cuts(window, costs[order])[1:])
        return Window(corpus, [batches[i] for i in random.permutation(len(batches))])

    def _random(self, epoch: int, *window: int) -> np.random.Generator:
        """What the order of an epoch is drawn from, or that of one window of several."""
        return np.random.default_rng(np.random.SeedSequence([self.seed, epoch], spawn_key=window))

    def _costs(self, source: NDArray[np.int64], target: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.ones_like(target) if self.sentences else target if self._by_target else source

    def _cuts(self, window: int, costs: NDArray[np.int64]) -> NDArray[np.int64]:
        """Where each batch begins: where the same share of all costs is spent as was planned. Ties have equal lengths,
        so that is the same place in every epoch where lengths do not change. None is empty; where examples are few and
        long, as a rule all have an even number, for two workers have a half each."""
        ends, before = np.cumsum(costs), self._before[window]
        batch, spent = np.arange(len(before)), self._spent[window]
        if ends[-1] != spent:  # by Python's numbers: the product may pass 64 bits
            before = (before.astype(object) * int(ends[-1]) // spent).astype(np.int64)
        cuts = np.searchsorted(ends, before, side="right")
        cuts = np.minimum(np.maximum.accumulate(cuts - batch) + batch, len(costs) - len(batch) + batch)
        even = cuts // 2 * 2
        is_few = not self.sentences and _FEW * len(batch) < len(costs) < _MANY * len(batch)
        return even if is_few and (np.diff(even) > 0).all() else cuts


def _in_thread(make: Callable[[], Window]) -> Callable[[], Window]:
    """What `make` gives or raises, found meanwhile by a thread that keeps no process from ending."""
    found: Future[Window] = Future()

    def run() -> None:
        try:
            found.set_result(make())
        except BaseException as error:
            found.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return found.result


def _lengths(corpus: Corpus, examples: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    return corpus.source.lengths_of(examples), corpus.target.lengths_of(examples)


def collate(corpus: Corpus, examples: NDArray[np.int64]) -> Batch:
    """The examples as one batch."""
    source, real_source = _pad(corpus.source, examples)
    target, real_target = _pad(corpus.target, examples)
    target_input = torch.cat([torch.full((len(examples), 1), BOS), target[:, :-1]], dim=1)
    return Batch(source, real_source, target, target_input, real_target)


def _pad(sequences: Sequences, examples: NDArray[np.int64]) -> tuple[Tensor, Tensor | None]:
    return _in_rows(sequences.joined(examples), sequences.lengths_of(examples))


def pad(rows: Sequence[Ids]) -> tuple[Tensor, Tensor | None]:
    """Rows of ids → [B, longest] with padding at the end, and which are real (None when all are)."""
    return _in_rows(np.concatenate(rows), np.asarray([len(row) for row in rows]))


def _in_rows(joined: NDArray[np.integer[Any]], lengths: NDArray[np.int64]) -> tuple[Tensor, Tensor | None]:
    real = np.arange(lengths.max()) < lengths[:, None]
    ids = np.full(real.shape, PAD, dtype=np.int64)
    ids[real] = joined
    return torch.from_numpy(ids), None if real.all() else torch.from_numpy(real)
