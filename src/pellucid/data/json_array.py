"""The values of one JSON array, read as a stream: what is held is a window of the file, whatever its size."""

import codecs
import contextlib
import gzip
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from pellucid.data.text_lines import MAX_LINE_BYTES, open_data, open_raw
from pellucid.errors import DataError, to_utf8

_BYTES_AT_ONCE = 2**20
_LOOKED_AT = 2**22  # bytes of a file, by which is told how many values it has
_SPACE = " \t\n\r"


class Repeated(dict[str, Any]):
    """An object in which a name stands more than once; `names` has all of them, as they stand."""

    names: list[str]


def object_of(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The object of these names and values; Python's own would keep the last of two, and say nothing."""
    found = dict(pairs)
    if len(found) < len(pairs):
        found = Repeated(found)
        found.names = [name for name, _ in pairs]
    return found


DECODER = json.JSONDecoder(object_pairs_hook=object_of)


def is_array(head: bytes) -> bool:
    """Whether a file with these first bytes holds a JSON array."""
    return head.removeprefix(codecs.BOM_UTF8).lstrip(_SPACE.encode()).startswith(b"[")


def read_array(path: str) -> Iterator[Any]:
    """The values of the array that is the file's content.

    Raises:
        DataError: what `open_data` and `values_of` say.
    """
    with open_data(path) as file:
        yield from values_of(file, path)


def values_of(file: BinaryIO, path: str) -> Iterator[Any]:
    """The values of the array that is the content of an open file; `path` is what errors call it.

    Raises:
        DataError: no UTF-8; no whole array; a value that is longer than MAX_LINE_BYTES.
    """
    window = _Window(file, path)
    if window.next_character() != "[":
        raise window.broken("[ is wanted", window.at)
    window.at += 1
    mark = window.next_character()
    while mark != "]":
        yield window.value()
        mark = window.next_character()
        if mark not in (",", "]"):
            raise window.broken("a comma or ] is wanted", window.at)
        window.at += mark == ","
    window.at += 1
    if window.next_character():
        raise window.broken("something follows the end of the array", window.at)


def about_how_many(path: str) -> int | None:
    """How many values the array has that is the file's content, if the others take as much of the disk as the first
    ones; None where that cannot be told: it is no array, or its first value is longer than what is looked at.

    Raises:
        DataError: what `open_data` says.
    """
    with open_raw(path) as raw:
        with gzip.open(raw) if path.lower().endswith(".gz") else contextlib.nullcontext(raw) as file:
            head = file.read(_LOOKED_AT)
        taken = raw.tell()
    if not is_array(head):
        return None
    count = 0
    with contextlib.suppress(DataError):  # it is cut short
        for _ in values_of(io.BytesIO(head), path):
            count += 1
    return count * Path(path).stat().st_size // taken or None


class _Window:
    """The part of the file that is being looked at: `text`, of which the first `at` characters are done with."""

    def __init__(self, file: BinaryIO, path: str) -> None:
        self.text, self.at = "", 0
        self._file, self._path = file, path
        self._line, self._column = 1, 1  # where `text` begins
        self._bytes_read, self._ended = 0, False
        self._utf8 = codecs.getincrementaldecoder("utf-8")()

    def next_character(self) -> str:
        """The next one that is no space, which `at` then stands before; "" at the end of the file."""
        while True:
            while self.at < len(self.text) and self.text[self.at] in _SPACE:
                self.at += 1
            if self.at < len(self.text):
                return self.text[self.at]
            if not self._more():
                return ""

    def value(self) -> Any:
        """The JSON value that begins here; `at` is moved behind it."""
        self.next_character()
        while True:
            try:
                value, end = DECODER.raw_decode(self.text, self.at)
                after = self.text[end : end + 3]
                if self._ended or len(after) == 3 or after.strip(".eE+-"):  # else a number may go on behind the window
                    self.at = end
                    return value
                self._more()
            except json.JSONDecodeError as error:
                if self._ended or len(self.text) - self.at > MAX_LINE_BYTES:
                    raise self.broken(error.msg, error.pos) from error
                self._more()
            except (ValueError, RecursionError) as error:  # an endless number, nesting without end
                raise DataError("this JSON value cannot be read", where=self._path, why=str(error)) from error

    def broken(self, why: str, position: int) -> DataError:
        """The error for what stands at a position of `text`."""
        line, column = self._place(position)
        return DataError("this is no whole JSON array", where=self._path, why=f"{why} at line {line}, column {column}")

    def _place(self, position: int) -> tuple[int, int]:
        breaks = self.text.count("\n", 0, position)
        column = position - self.text.rfind("\n", 0, position) if breaks else self._column + position
        return self._line + breaks, column

    def _more(self) -> bool:
        """Forgets what is done with, and reads on; false at the end of the file."""
        if self._ended:
            return False
        (self._line, self._column), self.text, self.at = self._place(self.at), self.text[self.at:], 0
        data = self._file.read(max(_BYTES_AT_ONCE, len(codecs.BOM_UTF8)))
        self._ended = not data
        if self._bytes_read == 0 and data.startswith(codecs.BOM_UTF8):
            self._bytes_read, data = len(codecs.BOM_UTF8), data[len(codecs.BOM_UTF8):]
        pending = len(self._utf8.getstate()[0])
        try:
            self.text += self._utf8.decode(data, final=self._ended)
        except UnicodeDecodeError as error:
            offset = self._bytes_read - pending + error.start
            line = self._line + self.text.count("\n") + error.object.count(b"\n", 0, error.start)
            raise DataError("the file is not valid UTF-8", where=f"{self._path}:{line}",
                            why=f"byte 0x{error.object[error.start]:02x} at offset {offset:,} of the file",
                            fix=to_utf8(error.object if offset == 0 else b"")) from error
        self._bytes_read += len(data)
        return not self._ended
