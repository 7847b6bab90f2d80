r"""Lines of UTF-8 text, plain or gzip, with every mistake placed by file, line and byte.

Only ``\n`` and ``\r\n`` end a line, so a file has as many lines as ``wc -l`` counts (and one more if its last line is
not ended). ``str.splitlines`` would also break at U+2028, U+0085, form feeds and others, and shift every pair after.
"""

import codecs
import contextlib
import difflib
import gzip
import io
import itertools
import stat
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, cast

from pellucid.errors import DataError, no_utf8, to_utf8

MAX_LINE_BYTES = 16 * 2**20  # a longer "line" is a file of some other kind, and would fill the memory
MOST_BYTES = 2**28  # of a file that is read whole

TO_FILL = "write it anew, or leave it out, and with it the one that belongs to it if it is one of two sides"


@contextlib.contextmanager
def open_raw(path: str) -> Iterator[io.BufferedReader]:
    """The bytes of a data file as they lie on the disk; `open_data` unpacks them.

    Raises:
        DataError: missing, no regular file, not permitted, damaged or cut short; also while it is read.
    """
    try:
        _check_regular(path)
        with open(path, "rb") as file:
            yield file
    except FileNotFoundError as error:
        raise DataError("the file does not exist", where=path, why=_beginning(path), fix=_nearest(path)) from error
    except PermissionError as error:
        raise DataError("no permission to read the file", where=path, fix="check its permissions") from error
    except gzip.BadGzipFile as error:
        raise DataError("the file is not valid gzip", where=path, why=str(error)) from error
    except (EOFError, zlib.error) as error:
        raise DataError("the gzip file is cut short or damaged", where=path, why=str(error),
                        fix="copy or download it again") from error
    except OSError as error:
        raise DataError("the file cannot be read", where=path, why=error.strerror or str(error)) from error


@contextlib.contextmanager
def open_data(path: str) -> Iterator[BinaryIO]:
    """The bytes of a data file, unpacked where its name ends in .gz; raises what `open_raw` raises."""
    with open_raw(path) as raw:
        if path.lower().endswith(".gz"):
            with gzip.open(raw, "rb") as unpacked:
                yield cast(BinaryIO, unpacked)
        else:
            yield raw


def _check_regular(path: str) -> None:
    if "\0" in path:
        raise DataError("a path holds a NUL character", where=repr(path))
    mode = Path(path).stat().st_mode
    if stat.S_ISDIR(mode):
        raise DataError("this is a folder, not a file", where=path, fix="name the file in it")
    if not stat.S_ISREG(mode):
        raise DataError("this is no regular file", where=path,
                        why="data is read more than once, and a pipe or device can be read only once",
                        fix="write it to a file first")


def _beginning(path: str) -> str:
    try:
        return "" if Path(path).is_absolute() else f"a relative path begins in the present folder, {Path.cwd()}"
    except OSError:  # it has been removed
        return ""


def _nearest(path: str) -> str:
    folder = Path(path).parent
    if Path(path).is_symlink():
        return "it is a link to nothing: let it lead to a file"
    try:
        near = difflib.get_close_matches(Path(path).name, [file.name for file in folder.iterdir()], n=1)
    except OSError:
        return f"the folder {folder} does not exist or cannot be read"
    return f"did you mean {folder / near[0]}?" if near else ""


def read_lines(path: str) -> Iterator[str]:
    r"""The lines of a file without their ends; a byte order mark at the start is skipped.

    Raises:
        DataError: what `open_data` says, an empty file, a line that is no UTF-8 or longer than MAX_LINE_BYTES.
    """
    lines = lines_if_any(path)
    for first in lines:
        yield first
        yield from lines
        return
    raise DataError("the file is empty", where=path, fix=TO_FILL)


def lines_if_any(path: str) -> Iterator[str]:
    """The same, of a file that may be empty."""
    with open_data(path) as file:
        number = offset = 0
        while raw := file.readline(MAX_LINE_BYTES):
            if len(raw) == MAX_LINE_BYTES and not raw.endswith(b"\n"):
                raise DataError(f"a line is longer than {MAX_LINE_BYTES // 2**20} MiB", where=f"{path}:{number + 1}",
                                why=f"it starts at byte {offset:,}",
                                fix="one line holds one example; is this a text file?")
            if number == 0 and raw.startswith(codecs.BOM_UTF8):
                raw, offset = raw[len(codecs.BOM_UTF8):], len(codecs.BOM_UTF8)
                if not raw:
                    break
            number += 1
            yield _decode(raw, path, number, offset)
            offset += len(raw)


def count_lines(path: str) -> int:
    """How many lines end in a file; raises what `open_data` raises."""
    with open_data(path) as file:
        return sum(block.count(b"\n") for block in iter(lambda: file.read(2**20), b""))


def _decode(raw: bytes, path: str, number: int, offset: int) -> str:
    line = raw.removesuffix(b"\r\n").removesuffix(b"\n")
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        place = offset + error.start
        raise DataError("the line is not valid UTF-8", where=f"{path}:{number}",
                        why=f"byte 0x{line[error.start]:02x} at offset {place:,} of the file: {error.reason}",
                        fix=to_utf8(line if number == 1 else b"")) from error


def whole_text(path: str) -> str:
    """All of a file, line ends too; a byte order mark at its start is skipped.

    Raises:
        DataError: what `open_data` says, more than MOST_BYTES, bytes that are no UTF-8.
    """
    with open_data(path) as file:
        raw = file.read(MOST_BYTES + 1)
    if len(raw) > MOST_BYTES:
        raise DataError(f"the file has more than {MOST_BYTES // 2**20} MiB, and is read whole", where=path,
                        fix="cut it into several")
    try:
        return raw.decode().removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        raise no_utf8(DataError, error, path) from error


def read_parallel(source: str, target: str) -> Iterator[tuple[int, str, str]]:
    """Line number (from 1), line of `source`, line of `target`.

    Raises:
        DataError: what `read_lines` says; files of different lengths, with both counts.
    """
    sources, targets = read_lines(source), read_lines(target)
    for number, (a, b) in enumerate(itertools.zip_longest(sources, targets), start=1):
        if a is None or b is None:
            rest = number + sum(1 for _ in (targets if a is None else sources))
            counts = (number - 1, rest) if a is None else (rest, number - 1)
            raise DataError(f"the source has {counts[0]:,} lines and the target {counts[1]:,}",
                            where=f"{source} and {target}", why="line n of one belongs to line n of the other",
                            fix="find the missing or extra line; no pair of this data can be trusted before")
        yield number, a, b
