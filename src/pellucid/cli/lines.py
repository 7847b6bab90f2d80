"""Lines in and lines out: standard input or a file, strict UTF-8, one line for one line."""

import codecs
import contextlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from pellucid.data.text_lines import read_lines
from pellucid.errors import ConfigError, DataError, OutputError
from pellucid.files import output_errors

_LINES_AT_ONCE = 2048


def blocks_of_lines(path: Path | None) -> Iterator[list[str]]:
    """The lines of a file or of standard input, some at a time; one at a time when a person types them.

    Raises:
        DataError: no such file, or bytes that are no UTF-8 (file, line and byte are named).
        OutputError: standard input is closed.
    """
    lines = _standard_input() if path is None else read_lines(str(path))
    is_typed = path is None and sys.stdin is not None and sys.stdin.isatty()
    if is_typed:
        print("each line is answered as you type it; Ctrl-D ends", file=sys.stderr, flush=True)
    size = 1 if is_typed else _LINES_AT_ONCE
    block: list[str] = []
    for line in lines:
        block.append(line)
        if len(block) == size:
            yield block
            block = []
    if block:
        yield block


def _standard_input() -> Iterator[str]:
    if sys.stdin is None:
        raise OutputError("standard input is closed", fix="give --input FILE, or pipe text in")
    for number, raw in enumerate(sys.stdin.buffer, start=1):
        if number == 1:
            raw = raw.removeprefix(codecs.BOM_UTF8)
            if not raw:
                continue
        try:
            line = raw.decode("utf-8")
            yield line[:-2] if line.endswith("\r\n") else line.removesuffix("\n")
        except UnicodeDecodeError as error:
            raise DataError("the text is not UTF-8", where=f"standard input:{number}",
                            why=f"byte {error.start + 1} of the line is 0x{raw[error.start]:02x}",
                            fix="convert it, with iconv for instance") from error


def other_than(output: Path | None, *inputs: Path | None) -> None:
    """Refuses to write over a file that is being read.

    Raises:
        ConfigError: the output is one of the inputs.
    """
    for path in inputs:
        if output is not None and path is not None and output.exists() and path.exists() and output.samefile(path):
            raise ConfigError("--output is a file that is read", where=str(path), why="it would be emptied first",
                              fix="give another --output")


@contextlib.contextmanager
def line_writer(path: Path | None) -> Iterator[Callable[[str], None]]:
    """A function that writes one line to a file or to standard output.

    Raises:
        OutputError: the file cannot be written.
    """
    if path is None:
        sys.stdout.reconfigure(encoding="utf-8")  # type: ignore[union-attr]

        def write(line: str) -> None:
            print(line, flush=sys.stdout.isatty())

        yield write
        return
    with output_errors(path), path.open("w", encoding="utf-8", newline="\n") as file:
        yield lambda line: print(line, file=file)
