"""Lines in and lines out: standard input or a file, strict UTF-8, one line for one line."""

import codecs
import contextlib
import gzip
import io
import os
import select
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import BinaryIO, cast

from pellucid.data.text_lines import MAX_LINE_BYTES, lines_if_any
from pellucid.errors import ConfigError, DataError, OutputError, UserError
from pellucid.files import output_errors

STANDARD_INPUT = Path("-")
LINES_AT_ONCE = 2048
_BYTES_AT_ONCE = 2**16  # what a pipe holds
_PATIENCE = 0.05  # seconds that a line waits for others, to be answered together with them


def answer_lines(source: Path | None, output: Path | None,
                 answers: Callable[[list[str], int], Iterable[str]]) -> None:
    """Writes what `answers` gives for each block of lines and the number of its first line, counted from 0. All that
    is known is out before more is read.

    Raises:
        DataError, OutputError: as of `blocks_of_lines`; the output cannot be written.
    """
    first = 0
    with _Output(output) as written:
        for block in blocks_of_lines(source):
            written.write(answers(block, first))
            first += len(block)


class _Output:
    """The file to write, packed if it is called so (.gz), or standard output; a file stays as it was, or is not there,
    until there is something to write.

    Raises:
        OutputError: the file cannot be written; now, or at any line.
    """

    def __init__(self, path: Path | None) -> None:
        self._path, self._file = path, cast("io.TextIOWrapper", sys.stdout) if path is None else None
        self._is_new = path is not None and not path.exists()
        if self._file is not None:
            self._file.reconfigure(encoding="utf-8", errors="backslashreplace")
        elif path is not None and (path.is_file() or not path.exists()):
            with output_errors(path):
                path.open("a").close()  # what cannot be written is known before there is work

    def write(self, lines: Iterable[str]) -> None:
        """Writes all of them, which are out when this returns. Where one cannot be had, those before it are out."""
        ready = list[str]()
        try:  # whose errors are no errors of writing
            for line in lines:
                ready.append(f"{line}\n")
        except UserError:
            if ready:
                self._put(ready)
            raise
        self._put(ready)

    def _put(self, ready: list[str]) -> None:
        with contextlib.nullcontext() if self._path is None else output_errors(self._path):
            if self._file is None and self._path is not None:
                self._plain = file = self._path.open("wb")
                packed = gzip.GzipFile("", "wb", 6, file, mtime=0) if self._path.suffix == ".gz" else file
                self._file = io.TextIOWrapper(cast(BinaryIO, packed), encoding="utf-8", newline="\n")
            assert self._file is not None
            self._file.writelines(ready)
            self._file.flush()

    def __enter__(self) -> "_Output":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.write([])  # nothing was asked: nothing is answered
        elif self._path is not None and self._file is None and self._is_new:
            self._path.resolve().unlink(missing_ok=True)  # where it is a link to nothing, it stays one
        if self._path is not None and self._file is not None:
            with contextlib.suppress(OSError), self._plain:  # all of it is out, or it has been told what is not
                self._file.close()


def checked(text: str, where: str) -> str:
    """A text of the command line.

    Raises:
        ConfigError: it has bytes that are no UTF-8.
    """
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ConfigError("this is not valid UTF-8", where=where,
                          why=f"byte 0x{ord(text[error.start]) & 0xFF:02x} at character {error.start + 1:,}") from None
    return text


def blocks_of_lines(path: Path | None) -> Iterator[list[str]]:
    """The lines of a file, of a pipe or of standard input (None or "-"), many at a time; as many as are there, where
    they come slowly: each by itself when a person types them.

    Raises:
        DataError: no such file, bytes that are no UTF-8 (file, line and byte are named), or a line of more than
            MAX_LINE_BYTES.
        OutputError: standard input is closed.
    """
    if path is not None and path.is_fifo():
        with path.open("rb") as pipe:
            yield from _as_they_come(pipe, str(path), _PATIENCE)
        return
    if path is not None and path != STANDARD_INPUT:
        lines = lines_if_any(str(path))
        while block := list(islice(lines, LINES_AT_ONCE)):
            yield block
        return
    if sys.stdin is None:
        raise OutputError("standard input is closed", fix="give --input FILE, or pipe text in")
    is_typed = sys.stdin.isatty()
    if is_typed:
        print("type a line of text and press Enter: it is answered at once; Ctrl-D ends", file=sys.stderr, flush=True)
    stream = cast("io.BufferedReader", sys.stdin.buffer)
    yield from _as_they_come(stream, "standard input", 0.0 if is_typed else _PATIENCE)


def _as_they_come(stream: io.BufferedReader, name: str, patience: float) -> Iterator[list[str]]:
    """Blocks of lines; one ends when it is full, or `patience` seconds after its first line came if no more is there
    then. Nothing is read ahead of what is there, so that fast input fills its pipe while a block is answered."""
    block: list[str] = []
    number, begun, rest, is_over = 0, 0.0, b"", False
    while not is_over:
        if block and not _has_more(stream, begun + patience - time.monotonic()):
            yield block
            block = []
        _has_more(stream)  # a pipe that does not block would seem to have ended
        read = stream.read1(_BYTES_AT_ONCE)  # all that is there, or the next that comes
        is_over = not read
        *lines, rest = (rest + read).split(b"\n")
        lines = [line.removesuffix(b"\r") for line in lines] + [rest] * is_over
        if number == 0 and lines:
            lines[0] = lines[0].removeprefix(codecs.BOM_UTF8)
        if is_over and not lines[-1]:  # the last line was ended
            lines.pop()
        try:
            for line in lines:
                if not block:
                    begun = time.monotonic()
                number += 1
                block.append(_decode(line, f"{name}:{number}"))
                if len(block) == LINES_AT_ONCE:
                    yield block
                    block = []
            if len(rest) > MAX_LINE_BYTES:
                raise DataError(f"a line is longer than {MAX_LINE_BYTES // 2**20} MiB", where=f"{name}:{number + 1}")
        except DataError:
            if block:
                yield block  # what came before is answered
            raise
    if block:
        yield block


def _has_more(stream: io.BufferedReader, seconds: float | None = None) -> bool:
    """Whether there is something to read, or its end, within so many seconds; None: waits until there is."""
    try:
        return bool(select.select([stream], [], [], None if seconds is None else max(0.0, seconds))[0])
    except io.UnsupportedOperation:  # it lies in memory, and nothing will ever come
        return True


def _decode(line: bytes, where: str) -> str:
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError("the text is not UTF-8", where=where,
                        why=f"byte {error.start + 1} of the line is 0x{line[error.start]:02x}",
                        fix="convert it, with iconv for instance") from error


class Beside:
    """The lines of a file that go beside those of the input, one for one.

    Args:
        what: they are, in the plural.
        source: of the input.

    Raises:
        DataError: both are files, which can be counted before there is work, and one has more lines.
    """

    def __init__(self, path: Path, what: str, source: Path | None) -> None:
        self._path, self._what, self._taken = path, what, 0
        self._lines = chain.from_iterable(blocks_of_lines(path))
        if path.is_file() and source is not None and source != STANDARD_INPUT and source.is_file():
            count, wanted = (sum(map(len, blocks_of_lines(each))) for each in (path, source))
            if count != wanted:
                raise self._unequal("fewer" if count < wanted else "more", count, f"{wanted:,}")

    def take(self, count: int) -> list[str]:
        """The next ones.

        Raises:
            DataError: there are fewer.
        """
        found = list(islice(self._lines, count))
        self._taken += len(found)
        if len(found) < count:
            raise self._unequal("fewer", self._taken, f"at least {self._taken - len(found) + count:,}")
        return found

    def end(self) -> None:
        """Makes sure that none is left.

        Raises:
            DataError: there are more.
        """
        more = sum(1 for _ in self._lines)
        if more:
            raise self._unequal("more", self._taken + more, f"{self._taken:,}")

    def _unequal(self, which: str, count: int, wanted: str) -> DataError:
        return DataError(f"there are {which} {self._what} than lines of input", where=str(self._path),
                         why=f"it has {count:,} lines, and the input {wanted}")


def other_than(output: Path | None, *inputs: Path | None) -> None:
    """Refuses to write over a file that is being read; "-" is standard input.

    Raises:
        ConfigError: the output is one of the inputs.
    """
    if output is None or not output.is_file():  # a device may be both
        return
    written = output.stat()
    for path in (path for path in inputs if path is not None):
        try:
            read = os.fstat(0) if path == STANDARD_INPUT else path.stat()
        except (OSError, ValueError):  # whoever reads it will say what is wrong with it
            continue
        if os.path.samestat(read, written):
            where = "standard input" if path == STANDARD_INPUT else str(path)
            raise ConfigError("--output is a file that is read", where=where, why="it would be emptied first",
                              fix="give another --output")
