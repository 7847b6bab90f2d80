"""Reads data as training does, but stumbles over nothing: what training would stop at is counted and read on from.

Files are read by windows of consecutive records. What can be wrong with bytes is tallied here; what can be wrong with
characters, texts and pairs is looked for in the windows.
"""

from __future__ import annotations

import codecs
import dataclasses
import itertools
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO

from pellucid.data.shards import Shard, numbered, shard_and_line, shards_of, suffix
from pellucid.data.sources import read_shard
from pellucid.data.splits import Pairs
from pellucid.data.tables import Record, read_tsv_head
from pellucid.data.text_lines import MAX_LINE_BYTES, TO_FILL, open_data
from pellucid.doctor.finding import Tally
from pellucid.errors import DataError, UserError

WINDOW = 8192  # records
_WINDOW_CHARACTERS = 2_000_000  # fewer records where they are long
_AT_ONCE = 2**20  # bytes
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Part:
    """The files of one split, or of several that are shares of them.

    Attributes:
        name: the first of its splits.
        whole: everything in the files.
        shares: the splits in them.
    """

    name: str
    whole: Pairs
    shares: tuple[Pairs, ...]


def parts_of(splits: dict[str, Pairs]) -> list[Part]:
    """The splits by their files, in the order train, validation, test."""
    by_files: dict[object, list[Pairs]] = {}
    for name in ("train", "validation", "test"):
        if name in splits:
            by_files.setdefault(splits[name].split, []).append(splits[name])
    return [Part(shares[0].name, dataclasses.replace(shares[0], division=None), tuple(shares))
            for shares in by_files.values()]


@dataclass(frozen=True)
class Window:
    """Consecutive records: their numbers in the file, and both texts of each."""

    numbers: list[int]
    sources: list[str]
    targets: list[str]

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """Both texts of each."""
        return list(zip(self.sources, self.targets, strict=True))

    def at(self, places: Sequence[int]) -> Window:
        """The records at these places, counted from 0."""
        return Window([self.numbers[i] for i in places], [self.sources[i] for i in places],
                      [self.targets[i] for i in places])


class TolerantLines:
    """The lines of the text files of one side; a line that is no UTF-8 is read as Windows-1252, which cannot fail.

    Attributes:
        faults: "encoding", "carriage_return", "byte_order_mark" → the numbers of the records.
        count: lines read, of all files.
    """

    def __init__(self) -> None:
        self.faults: dict[str, Tally] = defaultdict(Tally)
        self.count = 0

    def read(self, path: str, first: int = 1) -> Iterator[str]:
        """The lines of a file, whose first is that of the record with the number `first`."""
        number = first
        with open_data(path) as file:
            for block in _blocks(file, path):
                lines = self._decoded(block, path, number, number == first).split("\n")
                yield from lines
                number += len(lines)
                self.count += len(lines)
        if number == first:
            raise DataError("the file is empty", where=path, fix=TO_FILL)

    def _decoded(self, block: bytes, path: str, number: int, at_start: bool) -> str:
        if at_start and block.startswith(_UTF16):
            raise DataError("the file is UTF-16", where=path, fix=f"iconv -f UTF-16 -t UTF-8 {path}")
        if at_start and block.startswith(codecs.BOM_UTF8):
            self.faults["byte_order_mark"].add([number])
            block = block[len(codecs.BOM_UTF8) :]
        try:
            text = block.decode("utf-8")
        except UnicodeDecodeError:
            text = "\n".join(self._decoded_line(i, line) for i, line in enumerate(block.split(b"\n"), number))
        if "\r" in text:
            lines = text.split("\n")
            self.faults["carriage_return"].add(i for i, line in enumerate(lines, number) if line[-1:] == "\r")
            text = "\n".join(line.removesuffix("\r") for line in lines)
        return text

    def _decoded_line(self, number: int, line: bytes) -> str:
        try:
            return line.decode("utf-8")
        except UnicodeDecodeError:
            self.faults["encoding"].add([number])
            return line.decode("cp1252", "replace").replace("\ufffd", "?")


def _blocks(file: BinaryIO, path: str) -> Iterator[bytes]:
    """Whole lines, many at once, without the end of the last."""
    rest = b""
    while block := file.read(_AT_ONCE):
        if len(rest) + len(block.partition(b"\n")[0]) >= MAX_LINE_BYTES:
            raise DataError(f"a line is longer than {MAX_LINE_BYTES // 2**20} MiB", where=path,
                            fix="one line holds one example; is this a text file?")
        whole, newline, tail = block.rpartition(b"\n")
        if newline:
            yield rest + whole
            rest = tail
        else:
            rest += tail
    if rest:
        yield rest


class Reading:
    """One pass over the files of a split.

    Attributes:
        texts: of each side, or of tables, what is wrong with the bytes.
        columns: lines of a TSV with too few or too many columns, which are left out.
        lengths: lines of either of two text files, and these, where they differ: the first such.
        stop: why reading ended early.
        records: read.
    """

    def __init__(self, pairs: Pairs) -> None:
        self.pairs = pairs
        self.texts = (TolerantLines(), TolerantLines())
        self.columns = Tally()
        self.lengths: tuple[int, int, Shard] | None = None
        self.stop: UserError | None = None
        self.records = 0

    def windows(self) -> Iterator[Window]:
        """All records, in windows, each of one shard."""
        window, size = Window([], [], []), 0
        for number, a, b in self._records():
            is_next = bool(window.numbers) and shard_and_line(number)[0] != shard_and_line(window.numbers[0])[0]
            if is_next or len(window) == WINDOW or size > _WINDOW_CHARACTERS:
                self.records += len(window)
                yield window
                window, size = Window([], [], []), 0
            window.numbers.append(number)
            window.sources.append(a)
            window.targets.append(b)
            size += len(a) + len(b)
        if window.numbers:
            self.records += len(window)
            yield window

    def _records(self) -> Iterator[Record]:
        try:
            for i, shard in enumerate(shards_of(self.pairs.split)):
                yield from self._read(shard, numbered(i, 1))
        except UserError as error:
            self.stop = error

    def _read(self, shard: Shard, first: int) -> Iterator[Record]:
        """The records of a shard, of which `first` is the number of the first line."""
        fields, path = self.pairs.fields, shard.files[0]
        if shard.is_table and suffix(path) not in (".tsv", ".tab", ".txt"):
            yield from ((first - 1 + line, a, b) for line, a, b in read_shard(shard, fields))
            return
        lines = [text.read(file, first) for text, file in zip(self.texts, shard.files, strict=False)]
        if fields.are_one and (not shard.is_table or suffix(path) == ".txt"):
            yield from ((number, line, line) for number, line in enumerate(lines[0], first))
        elif shard.is_table:
            yield from self._table(lines[0], path, first)
        else:
            yield from self._parallel(lines[0], lines[1], shard, first)

    def _parallel(self, source: Iterator[str], target: Iterator[str], shard: Shard, first: int) -> Iterator[Record]:
        for number, (a, b) in enumerate(itertools.zip_longest(source, target)):
            if a is None or b is None:
                rest = number + 1 + sum(1 for _ in (source if b is None else target))
                counts = (rest, number) if b is None else (number, rest)
                self.lengths = self.lengths or (*counts, shard)
                return
            yield first + number, a, b

    def _table(self, lines: Iterator[str], path: str, first: int) -> Iterator[Record]:
        head = next(lines)
        a, b, most, has_header = read_tsv_head(head, self.pairs.fields, path)
        number = first
        for number, line in enumerate(lines if has_header else itertools.chain([head], lines), first + has_header):
            cells = line.split("\t")
            if max(a, b) < len(cells) <= most:
                yield number, cells[a], cells[b]
            else:
                self.columns.add([number])
        if has_header and number == first:
            raise DataError("the file holds no records", where=path, fix=TO_FILL)
