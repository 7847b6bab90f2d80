"""Batches of about as many tokens each, of about one length, in an order that is a pure function of (seed, epoch,
step).

Sorting by length leaves next to no padding; ties are broken anew in each epoch, and the order of the batches is
shuffled. Nothing but a step number is needed to continue.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pellucid.data.corpus import Corpus, Examples, Ids, Sequences
from pellucid.data.tokenizers.interface import BOS, PAD


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
    def source_tokens(self) -> int:
        """Source ids that are not padding."""
        return self.source.numel() if self.real_source is None else int(self.real_source.sum())

    @property
    def target_tokens(self) -> int:
        """Target ids that are not padding: the terms of the loss."""
        return self.target.numel() if self.real_target is None else int(self.real_target.sum())

    def twice(self) -> Batch:
        """The same examples once more below themselves: twice the rows."""
        real_source = None if self.real_source is None else torch.cat([self.real_source] * 2)
        real_target = None if self.real_target is None else torch.cat([self.real_target] * 2)
        return Batch(torch.cat([self.source] * 2), real_source, torch.cat([self.target] * 2),
                     torch.cat([self.target_input] * 2), real_target)

    def to(self, device: torch.device) -> Batch:
        """The same batch on another device."""
        return Batch(self.source.to(device), None if self.real_source is None else self.real_source.to(device),
                     self.target.to(device), self.target_input.to(device),
                     None if self.real_target is None else self.real_target.to(device))


class Batches:
    """The batches of every epoch.

    Args:
        corpus: the examples. Where they are drawn anew in each epoch, the others have as many batches as the first one.
        tokens: target tokens a batch (source tokens where a target is one label).
        sentences: examples a batch, in place of `tokens`.
        seed: of the order.
    """

    def __init__(self, corpus: Examples, tokens: int, sentences: int | None, seed: int) -> None:
        self.corpus = corpus
        self.sentences = sentences
        self.seed = seed
        first = corpus.in_epoch(0)
        costs = self._costs(first)[np.lexsort((first.target.lengths, first.source.lengths))]
        ends = np.cumsum(costs)
        starts = np.flatnonzero(np.diff((ends - 1) // (sentences or tokens), prepend=-1))
        self._before, self._total = (ends - costs)[starts], ends[-1]  # the cost of what comes before each, and of all
        self._epoch = (0, first, self._order(0, first))

    @property
    def per_epoch(self) -> int:
        """Batches an epoch."""
        return len(self._before)

    def examples(self, epoch: int) -> list[NDArray[np.int64]]:
        """The indices of each batch's examples in `epoch`, in order: every example exactly once."""
        if self._epoch[0] != epoch:
            corpus = self.corpus.in_epoch(epoch)
            self._epoch = (epoch, corpus, self._order(epoch, corpus))
        return self._epoch[2]

    def _order(self, epoch: int, corpus: Corpus) -> list[NDArray[np.int64]]:
        random = np.random.default_rng([self.seed, epoch])
        order = np.lexsort((random.permutation(len(corpus)), corpus.target.lengths, corpus.source.lengths))
        batches = np.split(order, self._cuts(self._costs(corpus)[order])[1:])
        return [batches[i] for i in random.permutation(len(batches))]

    def _costs(self, corpus: Corpus) -> NDArray[np.int64]:
        if self.sentences:
            return np.ones(len(corpus), dtype=np.int64)
        return corpus.target.lengths if int(corpus.target.lengths.max()) > 1 else corpus.source.lengths

    def _cuts(self, costs: NDArray[np.int64]) -> NDArray[np.int64]:
        """Where each batch begins: where the same share of all costs is spent as in the first epoch. Ties have equal
        lengths, so that is the same place in every epoch where lengths do not change. None is empty."""
        ends, batch = np.cumsum(costs), np.arange(self.per_epoch)
        cuts = np.searchsorted(ends, self._before * ends[-1] // self._total, side="right")
        return np.minimum(np.maximum.accumulate(cuts - batch) + batch, len(costs) - len(batch) + batch)

    def __getitem__(self, number: int) -> Batch:
        """The batch of this number, counted from the first one of epoch 0 on and on."""
        epoch, place = divmod(number, self.per_epoch)
        examples = self.examples(epoch)[place]
        return collate(self._epoch[1], examples)


def collate(corpus: Corpus, examples: NDArray[np.int64]) -> Batch:
    """The examples as one batch."""
    source, real_source = _pad(corpus.source, examples)
    target, real_target = _pad(corpus.target, examples)
    target_input = torch.cat([torch.full((len(examples), 1), BOS), target[:, :-1]], dim=1)
    return Batch(source, real_source, target, target_input, real_target)


def _pad(sequences: Sequences, examples: NDArray[np.int64]) -> tuple[Tensor, Tensor | None]:
    return _in_rows(sequences.joined(examples), sequences.lengths[examples])


def pad(rows: Sequence[Ids]) -> tuple[Tensor, Tensor | None]:
    """Rows of ids → [B, longest] with padding at the end, and which are real (None when all are)."""
    return _in_rows(np.concatenate(rows), np.asarray([len(row) for row in rows]))


def _in_rows(joined: NDArray[np.integer[Any]], lengths: NDArray[np.int64]) -> tuple[Tensor, Tensor | None]:
    real = np.arange(lengths.max()) < lengths[:, None]
    ids = np.full(real.shape, PAD, dtype=np.int64)
    ids[real] = joined
    return torch.from_numpy(ids), None if real.all() else torch.from_numpy(real)
