"""The ids of a split in the files of a folder: written at one go, or shard by shard and joined, to the same bytes.

Each side has all its ids, one sequence after another (source.ids), and where each begins and ends (source.offsets).
report.json says what became of the lines, shards.json how many are kept of each shard, blocks.json see blocks.py.
"""

import contextlib
import json
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from functools import partial
from itertools import chain
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pellucid.config import RunConfig, Task
from pellucid.data.blocks import SIDES, write_blocks
from pellucid.data.reading import UnitReader, example, question_of
from pellucid.data.shards import Shard, place, shard_and_line, shards_of
from pellucid.data.source_ids import longest_row, shorten, source_ids
from pellucid.data.splits import Pairs
from pellucid.data.tables import Record
from pellucid.data.tokenizers.build import Tokenizers
from pellucid.data.tokenizers.interface import EOS
from pellucid.files import read_json

Ids = NDArray[np.int32] | NDArray[np.uint16]
Dtype = np.dtype[np.uint16] | np.dtype[np.int32]
Progress = Callable[[int], None]

_LINES_AT_ONCE = 10_000
_CHARACTERS_AT_ONCE = 2_000_000  # fewer lines where they are long: their ids pass through memory as Python's numbers
_SMALL, _LARGE = np.dtype(np.uint16), np.dtype(np.int32)  # of ids on the disk
_REPORT, _SHARDS = "report.json", "shards.json"


@dataclass(frozen=True)
class Report:
    """What became of the lines of a split."""

    records: int  # lines read
    kept: int
    empty: int  # skipped: nothing on one side
    too_long: int  # dropped or cut, as configured; of questions, those whose answer lies nowhere in a window
    source_tokens: int
    target_tokens: int
    near_duplicates: int = 0  # passages that were left out, as they say what the target says

    def __str__(self) -> str:
        parts = [f"{self.kept:,} of {self.records:,} kept"]
        parts += [f"{self.empty:,} with an empty side skipped"] if self.empty else []
        parts += [f"{self.too_long:,} longer than max_length"] if self.too_long else []
        parts += [f"{self.near_duplicates:,} near-duplicate passages left out"] if self.near_duplicates else []
        return ", ".join(parts)


def read_report(folder: Path) -> Report:
    """What became of the lines whose ids are in `folder`."""
    return Report(**read_json(folder / _REPORT))


def kept_of_shards(folder: Path) -> list[int]:
    """How many examples of each shard are in `folder`."""
    return list(read_json(folder / _SHARDS))


def dtype_of(tokenizers: Tokenizers, task: Task) -> Dtype:
    """Of ids on the disk. Two bytes where every id fits: half the disk, and half to check. The span of an answer never
    does."""
    largest = max(tokenizers.source.size, tokenizers.target.size, len(tokenizers.labels))
    return _SMALL if largest <= 2**16 and task != "reading" else _LARGE


def write_ids(pairs: Pairs, tokenizers: Tokenizers, config: RunConfig, folder: Path, progress: Progress) -> None:
    """Encodes all shards into `folder`.

    Args:
        progress: called with the number of lines read, now and then.

    Raises:
        DataError: what reading the files says; a label that was never seen in training; no pair at all.
    """
    pairs.check()
    kept = _encode(pairs, enumerate(shards_of(pairs.split)), tokenizers, config, folder, progress)
    _finish(pairs, folder, kept, dtype_of(tokenizers, config.task))


def write_part(pairs: Pairs, shard: tuple[int, Shard], tokenizers: Tokenizers, config: RunConfig, folder: Path,
               progress: Progress) -> None:
    """Encodes one shard, given with its place among all, into `folder`, to be joined with the others. Raises what
    `write_ids` raises, but that it may hold no pair."""
    _encode(pairs, [shard], tokenizers, config, folder, progress)


def join_parts(pairs: Pairs, parts: Sequence[Path], folder: Path, dtype: Dtype) -> None:
    """Puts together in `folder` what `write_part` wrote of each shard: what `write_ids` writes.

    Raises:
        DataError: no pair at all.
    """
    reports = [read_report(part) for part in parts]
    for side in SIDES:
        with (folder / f"{side}.ids").open("wb") as ids, (folder / f"{side}.offsets").open("wb") as offsets:
            offsets.write(np.zeros(1, dtype=np.int64).tobytes())
            before = 0
            for part in parts:
                with (part / f"{side}.ids").open("rb") as file:
                    shutil.copyfileobj(file, ids, 2**20)
                ends = np.memmap(part / f"{side}.offsets", dtype=np.int64, mode="r")
                offsets.write((ends[1:] + before).tobytes())
                before += int(ends[-1])
    (folder / _REPORT).write_text(json.dumps(asdict(_sum(reports))), encoding="utf-8")
    _finish(pairs, folder, [report.kept for report in reports], dtype)


def _encode(pairs: Pairs, shards: Iterable[tuple[int, Shard]], tokenizers: Tokenizers, config: RunConfig, folder: Path,
            progress: Progress) -> list[int]:
    """Writes the ids of these shards, and the report; gives how many examples of each are kept."""
    dtype, kept_of, report = dtype_of(tokenizers, config.task), list[int](), Report(0, 0, 0, 0, 0, 0)
    units, read = UnitReader(tokenizers), 0
    with contextlib.ExitStack() as stack:
        files = {side: [stack.enter_context((folder / f"{side}.{part}").open("wb")) for part in ("ids", "offsets")]
                 for side in SIDES}
        for _, offsets in files.values():
            offsets.write(np.zeros(1, dtype=np.int64).tobytes())
        for shard in shards:
            before, read_before = report.kept, read
            for chunk in _chunks(pairs.records_of(*shard)):
                kept, of_chunk = (_spans(chunk, units, config) if config.task == "reading" else
                                  _examples(chunk, pairs, tokenizers, config))
                ends = {"source": report.source_tokens, "target": report.target_tokens}
                for side, sequences in zip(SIDES, zip(*kept, strict=True), strict=False):  # none where nothing is kept
                    ids, offsets = files[side]
                    lengths = np.fromiter(map(len, sequences), np.int64, len(sequences))
                    ids.write(np.fromiter(chain.from_iterable(sequences), dtype, int(lengths.sum())).tobytes())
                    offsets.write((ends[side] + lengths.cumsum()).tobytes())
                report = _sum([report, of_chunk])
                read = read_before + shard_and_line(chunk[-1][0])[1]
                progress(read)
            kept_of.append(report.kept - before)
    (folder / _REPORT).write_text(json.dumps(asdict(report)), encoding="utf-8")
    return kept_of


def _examples(chunk: list[Record], pairs: Pairs, tokenizers: Tokenizers,
              config: RunConfig) -> tuple[list[tuple[list[int], list[int]]], Report]:
    """The ids of both sides of the records that are kept, and what became of all."""
    limit, is_labelled = config.model.max_length, config.task == "classification"
    filled = [record for record in chunk if record[1].strip() and record[2].strip()]
    fused = [pairs.fused(source, target) for _, source, target in filled]
    sources = source_ids([source for source, _ in fused], tokenizers, is_labelled, limit)
    if is_labelled:
        targets = [[tokenizers.label_id(label, partial(place, pairs.split, number))] for number, _, label in filled]
    elif config.data.objective == "span_corruption":
        targets = [[EOS] for _ in filled]  # each epoch makes them of the sources
    else:
        targets = [[*ids, EOS] for ids in tokenizers.target.encode_batch([target for _, _, target in filled])]
    encoded = list(zip(sources, targets, strict=True))
    long = [max(longest_row(a), len(b)) > limit for a, b in encoded]
    kept = [(shorten(a, limit), shorten(b, limit)) for (a, b), far in zip(encoded, long, strict=True)
            if config.data.too_long == "cut" or not far]
    source_tokens, target_tokens = (sum(len(pair[side]) for pair in kept) for side in range(2))
    return kept, Report(len(chunk), len(kept), len(chunk) - len(filled), sum(long), source_tokens, target_tokens,
                        sum(left_out for _, left_out in fused))


def _spans(chunk: list[Record], reader: UnitReader,
           config: RunConfig) -> tuple[list[tuple[list[int], list[int]]], Report]:
    """As `_examples`, of questions: their rows, and the spans that answer them."""
    kept, before, passage, long = list[tuple[list[int], list[int]]](), "", reader.read(""), 0
    for _, context, line in chunk:
        if context != before:
            before, passage = context, reader.read(context)
        asked = question_of(line)
        row, span = example(passage, reader.read(asked.text), asked, config.model.max_length)
        if span is None:
            long += 1
        else:
            kept.append((row.ids, [span]))
    return kept, Report(len(chunk), len(kept), 0, long, sum(len(ids) for ids, _ in kept), len(kept))


def _chunks(records: Iterable[Record]) -> Iterator[list[Record]]:
    chunk: list[Record] = []
    size = 0
    for record in records:
        chunk.append(record)
        size += len(record[1]) + len(record[2])
        if len(chunk) >= _LINES_AT_ONCE or size >= _CHARACTERS_AT_ONCE:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def _sum(reports: Sequence[Report]) -> Report:
    return Report(*(sum(getattr(report, field.name) for report in reports) for field in fields(Report)))


def _finish(pairs: Pairs, folder: Path, kept: list[int], dtype: Dtype) -> None:
    """Writes what is to be known of the shards and blocks of the ids in `folder`."""
    if read_report(folder).records == 0:
        raise pairs.nothing()
    (folder / _SHARDS).write_text(json.dumps(kept), encoding="utf-8")
    write_blocks(folder, [flat(folder, side, dtype) for side in SIDES])


def flat(folder: Path, side: str, dtype: Dtype) -> tuple[Ids, NDArray[np.int64]]:
    """The ids of a side, and their offsets, as they lie in `folder`; nothing is read yet."""
    offsets = np.memmap(folder / f"{side}.offsets", dtype=np.int64, mode="r")
    is_empty = (folder / f"{side}.ids").stat().st_size == 0  # which cannot be mapped
    ids = np.zeros(0, dtype=dtype) if is_empty else np.memmap(folder / f"{side}.ids", dtype, mode="r")
    return ids, offsets
