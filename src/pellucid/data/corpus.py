"""A split as token ids: written once to memory-mapped files, keyed by what was read and how, and read from there.

A corpus larger than memory trains: only the pages in use are held. One of a single window (blocks.py) is checked when
it is opened, of a larger one each window when it is made. Sequences end with eos (targets, and sources of seq2seq) or
begin with bos (texts to be classified, questions on passages).
"""

from __future__ import annotations

import hashlib
import json
import mmap
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from pellucid.cache import bound, cache_folder, note_use
from pellucid.config import RunConfig
from pellucid.data.blocks import SIDES, Blocks, count_blocks, read_blocks, rows_in, totals_of
from pellucid.data.encoding import Dtype, Ids, Progress, Report, dtype_of, flat, kept_of_shards, read_report, write_ids
from pellucid.data.shards import shards_of, suffix
from pellucid.data.splits import Pairs
from pellucid.data.tokenizers.build import Tokenizers
from pellucid.errors import CheckpointError, DataError
from pellucid.files import checked_sha256, write_folder

_FORMAT = 5


class Sequences:
    """Many sequences of ids in one flat array: sequence i is tokens[offsets[i]:offsets[i + 1]]."""

    def __init__(self, tokens: Ids, offsets: NDArray[np.int64]) -> None:
        self.tokens: Ids = tokens.view(np.ndarray)  # slices of np.memmap itself take five times as long
        self.offsets: NDArray[np.int64] = offsets.view(np.ndarray)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def flat(self) -> tuple[Ids, NDArray[np.int64]]:
        """The ids, and the offsets."""
        return self.tokens, self.offsets

    def forget(self) -> None:
        """Lets memory go of what was read of its files; what is needed again is read again."""
        for array in self.flat:
            mapping = array.base.base if isinstance(array.base, np.memmap) else None
            if isinstance(mapping, mmap.mmap):
                mapping.madvise(mmap.MADV_DONTNEED)

    @cached_property
    def lengths(self) -> NDArray[np.int64]:
        """Of all sequences, in memory from then on."""
        return np.diff(self.offsets)

    def lengths_of(self, examples: NDArray[np.int64]) -> NDArray[np.int64]:
        """Of these sequences."""
        lengths: NDArray[np.int64] = self.offsets[examples + 1] - self.offsets[examples]
        return lengths

    def __getitem__(self, i: int) -> Ids:
        return self.tokens[self.offsets[i] : self.offsets[i + 1]]

    def joined(self, examples: NDArray[np.int64]) -> Ids:
        """The ids of these sequences, one after another."""
        lengths = self.lengths_of(examples)
        ends = lengths.cumsum()
        places = np.arange(ends[-1]) + np.repeat(self.offsets[examples] - ends + lengths, lengths)
        joined: Ids = self.tokens[places]
        return joined


@dataclass(frozen=True)
class Corpus:
    """The examples of a split. A target that is no text is one number: a label's, or a span's.

    Attributes:
        unchecked: the blocks of its files, if each is still to be checked when its window is made.
        weights: where an epoch is to have some more often than others (mixture.py), how many follow one another and how
            often it is to have these; else nothing.
    """

    source: Sequences
    target: Sequences
    report: Report
    unchecked: Blocks | None = None
    weights: tuple[tuple[int, float], ...] = ()

    def __len__(self) -> int:
        return len(self.source)

    @property
    def blocks(self) -> int:
        """How many it has."""
        return count_blocks(len(self))

    def totals(self) -> NDArray[np.int64]:
        """Of each block its pairs, source tokens and target tokens: [blocks, 3]."""
        if self.unchecked is not None:
            return self.unchecked.totals
        return totals_of([self.source.offsets, self.target.offsets])

    def in_epoch(self, epoch: int) -> Corpus:
        """The examples as an epoch has them: the same in all."""
        return self

    def window(self, epoch: int, blocks: range) -> tuple[Corpus, NDArray[np.int64]]:
        """See `Examples`. Memory lets go of the windows before.

        Raises:
            DataError: a block is damaged.
        """
        if self.unchecked is not None:
            for side in (self.source, self.target):
                side.forget()
            self.unchecked.check(blocks, [self.source.flat, self.target.flat])
            note_use(self.unchecked.folder)
        return self, rows_in(blocks, len(self))


class Examples(Protocol):
    """What is learned from: a Corpus, or one that is drawn anew in each epoch (see data/examples.py)."""

    @property
    def blocks(self) -> int:
        """How many blocks of neighbours the examples have; each has the same ones in all epochs."""

    def totals(self) -> NDArray[np.int64]:
        """Of each block the pairs, source tokens and target tokens that an epoch is expected to have: [blocks, 3]."""

    def window(self, epoch: int, blocks: range) -> tuple[Corpus, NDArray[np.int64]]:
        """The examples of these blocks as an epoch, counted from 0, has them: a corpus, and their places in it."""

    def in_epoch(self, epoch: int) -> Corpus:
        """The examples of all blocks as an epoch has them."""


def open_corpus(pairs: Pairs, tokenizers: Tokenizers, config: RunConfig,
                progress: Progress = lambda lines: None) -> Corpus:
    """The ids of `pairs`: those that were prepared for the run, or those in the cache, or encoded now.

    Args:
        progress: called with the number of lines read, now and then.

    Raises:
        DataError: no usable line, or what the reading of the files raises.
    """
    key, dtype = key_of(pairs, tokenizers, config), dtype_of(tokenizers, config.task)
    folder = prepared_folder(pairs, key)
    if folder is None or not is_whole(folder, dtype):
        folder = cache_folder("ids") / key
        if not is_whole(folder, dtype):
            write_folder(folder, lambda place: _write_unchanged(pairs, tokenizers, config, place, progress))
            bound()
        note_use(folder)
    corpus = replace(kept_corpus(folder, dtype), weights=_weights(pairs, folder))
    if corpus.report.kept == 0:
        raise DataError(f"the {pairs.name} data has no usable line", where=" and ".join(pairs.split.paths),
                        why=str(corpus.report))
    return corpus


def _write_unchanged(pairs: Pairs, tokenizers: Tokenizers, config: RunConfig, place: Path, progress: Progress) -> None:
    before = key_of(pairs, tokenizers, config)
    write_ids(pairs, tokenizers, config, place, progress)
    if key_of(pairs, tokenizers, config) != before:
        raise changed_meanwhile(pairs)


def changed_meanwhile(pairs: Pairs) -> DataError:
    """The error for data that was one thing when it was begun, and another in the end."""
    return DataError(f"the {pairs.name} data was changed while it was read", where=" and ".join(pairs.split.paths),
                     fix="run it again")


def key_of(pairs: Pairs, tokenizers: Tokenizers, config: RunConfig) -> str:
    """A digest of what decides the ids: the same one, the same ids."""
    passages = [] if pairs.passages is None else [{k: v for k, v in pairs.passages.about.items() if k != "index"}]
    share = None if pairs.division is None else [pairs.name, asdict(pairs.division)]
    endings = [[suffix(file) for file in shard.files] for shard in shards_of(pairs.split)]  # by which they are read
    return hashlib.sha256(json.dumps([_FORMAT, pairs.sha256(), endings, tokenizers.sha256(), config.task,
                                      config.model.max_length, config.data.too_long, share,
                                      asdict(pairs.fields), *passages]).encode()).hexdigest()


def prepared_folder(pairs: Pairs, key: str) -> Path | None:
    """Where `pellucid prepare` puts the ids of this key for the run; None: there is no run."""
    return None if pairs.prepared is None else pairs.prepared / f"{pairs.name}-{key[:16]}" / "ids"


def _weights(pairs: Pairs, folder: Path) -> tuple[tuple[int, float], ...]:
    shards = shards_of(pairs.split)
    if all(shard.weight == 1 for shard in shards):
        return ()
    kept = zip(kept_of_shards(folder), (shard.weight for shard in shards), strict=True)
    return tuple((sum(count for count, _ in alike), weight) for weight, alike in groupby(kept, key=itemgetter(1)))


def is_whole(folder: Path, dtype: Dtype) -> bool:
    """Whether the ids in `folder`, of this type, are what was written there. Of more than one window only their number
    is looked at, as it may take minutes to read them: `Corpus.window` looks at the rest."""
    if not folder.exists():
        return False
    try:
        for name in ("report.json", "shards.json"):
            checked_sha256(folder, name)
        blocks, sides = read_blocks(folder), [flat(folder, side, dtype) for side in SIDES]
        pairs, *tokens = blocks.totals.sum(axis=0).tolist()
        if [(len(ids), len(offsets)) for ids, offsets in sides] != [(count, pairs + 1) for count in tokens]:
            return False
        if blocks.is_one_window:
            blocks.check(range(len(blocks.totals)), sides)
    except (CheckpointError, DataError, OSError, ValueError):  # a damaged cache is made again
        return False
    return True


def kept_corpus(folder: Path, dtype: Dtype) -> Corpus:
    """The corpus of the ids in `folder`, which are of this type and whole (see `is_whole`)."""
    blocks, (source, target) = read_blocks(folder), (Sequences(*flat(folder, side, dtype)) for side in SIDES)
    return Corpus(source, target, read_report(folder), None if blocks.is_one_window else blocks)
