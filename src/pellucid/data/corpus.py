"""A split as token ids: written once to memory-mapped files, keyed by what was read and how, and read from there.

A corpus larger than memory trains: only the pages in use are held. One of a single window (blocks.py) is checked when
it is opened, of a larger one each window when it is made. Sequences end with eos (targets, and sources of seq2seq) or
begin with bos (texts to be classified).
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import mmap
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from itertools import chain
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from pellucid.cache import bound, cache_folder, note_use
from pellucid.config import RunConfig
from pellucid.data.blocks import SIDES, Blocks, count_blocks, read_blocks, rows_in, totals_of, write_blocks
from pellucid.data.splits import Pairs
from pellucid.data.tokenizers.build import Tokenizers
from pellucid.data.tokenizers.interface import BOS, EOS
from pellucid.errors import CheckpointError, DataError
from pellucid.files import checked_sha256, read_json, write_folder

_LINES_AT_ONCE = 10_000
_CHARACTERS_AT_ONCE = 2_000_000  # fewer lines where they are long: their ids pass through memory as Python's numbers
_FORMAT = 3
_SMALL, _LARGE = np.dtype(np.uint16), np.dtype(np.int32)  # of ids on the disk

Ids = NDArray[np.int32] | NDArray[np.uint16]
Dtype = np.dtype[np.uint16] | np.dtype[np.int32]


@dataclass(frozen=True)
class Report:
    """What became of the lines of a split."""

    records: int  # lines read
    kept: int
    empty: int  # skipped: nothing on one side
    too_long: int  # dropped or cut, as configured
    source_tokens: int
    target_tokens: int

    def __str__(self) -> str:
        parts = [f"{self.kept:,} of {self.records:,} kept"]
        parts += [f"{self.empty:,} with an empty side skipped"] if self.empty else []
        parts += [f"{self.too_long:,} longer than max_length"] if self.too_long else []
        return ", ".join(parts)


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
    """The examples of a split. For classification, a target is one number: the label's.

    Attributes:
        unchecked: the blocks of its files, if each is still to be checked when its window is made.
    """

    source: Sequences
    target: Sequences
    report: Report
    unchecked: Blocks | None = None

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
                progress: Callable[[int], None] = lambda lines: None) -> Corpus:
    """The ids of `pairs`, encoded now or taken from the cache.

    Args:
        progress: called with the number of lines done, now and then.

    Raises:
        DataError: no usable line, or what the reading of the files raises.
    """
    share = None if pairs.division is None else [pairs.name, asdict(pairs.division)]
    key = hashlib.sha256(json.dumps([_FORMAT, pairs.sha256(), tokenizers.sha256(), config.task, config.model.max_length,
                                     config.data.too_long, share, asdict(pairs.fields)]).encode()).hexdigest()
    folder, dtype = cache_folder("ids") / key, dtype_of(tokenizers)
    if not is_whole(folder, dtype):
        write_folder(folder, lambda place: _write(pairs, tokenizers, config, place, progress))
        bound()
    note_use(folder)
    corpus = kept_corpus(folder, dtype)
    if corpus.report.kept == 0:
        raise DataError(f"the {pairs.name} data has no usable line", where=str(pairs.describe().get("path", "")),
                        why=str(corpus.report))
    return corpus


def is_whole(folder: Path, dtype: Dtype) -> bool:
    """Whether the ids in `folder`, of this type, are what was written there. Of more than one window only their number
    is looked at, as it may take minutes to read them: `Corpus.window` looks at the rest."""
    if not folder.exists():
        return False
    try:
        checked_sha256(folder, "report.json")
        blocks, sides = read_blocks(folder), [_open(folder, side, dtype).flat for side in SIDES]
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
    blocks, (source, target) = read_blocks(folder), (_open(folder, side, dtype) for side in SIDES)
    return Corpus(source, target, Report(**read_json(folder / "report.json")), None if blocks.is_one_window else blocks)


def _open(folder: Path, side: str, dtype: Dtype) -> Sequences:
    offsets = np.memmap(folder / f"{side}.offsets", dtype=np.int64, mode="r")
    is_empty = (folder / f"{side}.ids").stat().st_size == 0  # which cannot be mapped
    ids = np.zeros(0, dtype=dtype) if is_empty else np.memmap(folder / f"{side}.ids", dtype, mode="r")
    return Sequences(ids, offsets)


def dtype_of(tokenizers: Tokenizers) -> Dtype:
    """Of ids on the disk. Two bytes where every id fits: half the disk, and half to check."""
    largest = max(tokenizers.source.size, tokenizers.target.size, len(tokenizers.labels))
    return _SMALL if largest <= 2**16 else _LARGE


def _write(pairs: Pairs, tokenizers: Tokenizers, config: RunConfig, folder: Path,
           progress: Callable[[int], None]) -> None:
    """Writes {source,target}.{ids,offsets}, report.json, and what is to be known of the blocks."""
    _encode(pairs, tokenizers, config, folder, progress)
    write_blocks(folder, [_open(folder, side, dtype_of(tokenizers)).flat for side in SIDES])


def _encode(pairs: Pairs, tokenizers: Tokenizers, config: RunConfig, folder: Path,
            progress: Callable[[int], None]) -> None:
    """Writes {source,target}.{ids,offsets} and report.json."""
    counts = {"records": 0, "kept": 0, "empty": 0, "too_long": 0}
    totals = {"source": 0, "target": 0}
    limit, cut, dtype = config.model.max_length, config.data.too_long == "cut", dtype_of(tokenizers)
    with contextlib.ExitStack() as stack:
        files = {side: [stack.enter_context((folder / f"{side}.{part}").open("wb")) for part in ("ids", "offsets")]
                 for side in ("source", "target")}
        for _, offsets in files.values():
            offsets.write(np.zeros(1, dtype=np.int64).tobytes())
        for chunk in _chunks(pairs):
            filled = [i for i, (a, b) in enumerate(chunk) if a.strip() and b.strip()]
            sources = source_ids([chunk[i][0] for i in filled], tokenizers, config.task == "classification")
            if config.task == "classification":
                targets = [[tokenizers.label_id(chunk[i][1], partial(pairs.locate, counts["records"] + i))]
                           for i in filled]
            elif config.data.objective == "span_corruption":
                targets = [[EOS] for _ in filled]  # each epoch makes them of the sources
            else:
                targets = [[*ids, EOS] for ids in tokenizers.target.encode_batch([chunk[i][1] for i in filled])]
            encoded = list(zip(sources, targets, strict=True))
            long = [max(len(a), len(b)) > limit for a, b in encoded]
            kept = [(shorten(a, limit), shorten(b, limit)) for (a, b), far in zip(encoded, long, strict=True)
                    if cut or not far]
            counts["records"] += len(chunk)
            counts["empty"] += len(chunk) - len(filled)
            counts["too_long"] += sum(long)
            counts["kept"] += len(kept)
            for side, sequences in (("source", [a for a, _ in kept]), ("target", [b for _, b in kept])):
                ids, offsets = files[side]
                ends = totals[side] + np.cumsum([len(s) for s in sequences], dtype=np.int64)
                ids.write(np.fromiter(chain.from_iterable(sequences), dtype, count=sum(map(len, sequences))).tobytes())
                offsets.write(ends.astype(np.int64).tobytes())
                totals[side] = int(ends[-1]) if len(ends) else totals[side]
            progress(counts["records"])
    report = Report(**counts, source_tokens=totals["source"], target_tokens=totals["target"])
    (folder / "report.json").write_text(json.dumps(asdict(report)), encoding="utf-8")


def _chunks(pairs: Iterable[tuple[str, str]]) -> Iterator[list[tuple[str, str]]]:
    chunk: list[tuple[str, str]] = []
    size = 0
    for pair in pairs:
        chunk.append(pair)
        size += len(pair[0]) + len(pair[1])
        if len(chunk) >= _LINES_AT_ONCE or size >= _CHARACTERS_AT_ONCE:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def source_ids(texts: list[str], tokenizers: Tokenizers, classify: bool) -> list[list[int]]:
    """What the encoder reads for each text: its ids, then eos (seq2seq), or after bos (classification)."""
    encoded = tokenizers.source.encode_batch(texts)
    return [[BOS, *ids] if classify else [*ids, EOS] for ids in encoded]


def shorten(ids: list[int], limit: int) -> list[int]:
    """At most `limit` ids, an eos at the end staying there."""
    return ids if len(ids) <= limit else [*ids[: limit - 1], EOS] if ids[-1] == EOS else ids[:limit]
