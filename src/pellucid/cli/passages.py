"""How a passage is shown to people: in lines of a terminal's width, with pieces of it marked."""

import re
import shutil
import sys
from collections.abc import Iterator, Sequence

from pellucid.language import columns

_MOST_COLUMNS = 100
_INDENT = "   "
_PLAIN = "\x1b[0m"  # ends what is marked


def plain(text: str) -> str:
    """Without control characters, which a terminal would obey; line breaks become spaces."""
    return re.sub(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]+", " ", text)


def marked_lines(text: str, spans: Sequence[tuple[int, int]]) -> Iterator[str]:
    """The text, indented, with the characters [start, end) of each span marked: underlined on a terminal, in brackets
    elsewhere. The spans stand in order, apart."""
    begin, end = ("\x1b[1;4m", _PLAIN) if sys.stdout.isatty() else ("[", "]")
    parts, done = list[str](), 0
    for start, stop in spans:
        parts += [plain(text[done:start]), begin, plain(text[start:stop]), end]
        done = stop
    return _wrapped("".join([*parts, plain(text[done:])]), min(shutil.get_terminal_size().columns, _MOST_COLUMNS))


def _wrapped(text: str, width: int) -> Iterator[str]:
    """The text in lines of at most so many columns; marks take none, and go on in the next line behind the indent."""
    line, used, mark = "", 0, ""
    for piece in re.findall(r"\x1b\[[0-9;]*m|\s+|[\u2e80-\uffef]|[^\s\x1b\u2e80-\uffef]+", text):
        if piece.startswith("\x1b"):
            line, mark = line + piece, "" if piece == _PLAIN else piece
            continue
        if used + columns(piece) > width - len(_INDENT) and used:
            yield f"{_INDENT}{line.rstrip()}{_PLAIN if mark else ''}"
            line, used, piece = mark, 0, piece.lstrip()
        line, used = line + piece, used + columns(piece)
    if used and line.strip():
        yield f"{_INDENT}{line.rstrip()}"
