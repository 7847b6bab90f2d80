"""Which language people are told things in, and how much room a text takes before their eyes."""

import os
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal

_ASKED = ("PELLUCID_LANG", "LC_ALL", "LC_MESSAGES", "LANG")  # the first that is set decides, as POSIX has it
_NO_WIDTH = ("Mn", "Me", "Cf")  # of Unicode's categories
MOST_COLUMNS = 80  # of a sentence, in however wide a terminal


def language() -> Literal["en", "zh"]:
    """Chinese where ``PELLUCID_LANG``, or else the locale, begins with ``zh``, and English everywhere else."""
    wanted = next(filter(None, map(os.environ.get, _ASKED)), "")
    return "zh" if wanted.lower().startswith("zh") else "en"


def columns(text: str) -> int:
    """How many columns of a terminal, or letters of a picture, the text is wide: a Chinese character takes two;
    accents, vowel signs, joiners and marks of direction, which stand on others or are not seen, take none."""
    return sum(2 if unicodedata.east_asian_width(character) in "WF" else 1
               for character in unicodedata.normalize("NFC", text) if unicodedata.category(character) not in _NO_WIDTH)


def padded(text: str, width: int) -> str:
    """The text with blanks behind it, so many columns wide if it is not wider."""
    return text + " " * (width - columns(text))


def shortened(text: str, most: int) -> str:
    """The text in at most so many characters."""
    return text if len(text) <= most else text[: most - 1] + "…"


def as_written(value: Any) -> str:
    """A key's value as a configuration has it, on one line."""
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else " ".join(str(value).split())


def so_many(count: int, what: str) -> str:
    """``1 source``, ``1,000 sources``."""
    return f"{count:,} {what}{'s' * (count != 1)}"


def fitted(table: Sequence[str], records: Iterable[tuple[str, Sequence[str]]], width: int) -> Iterator[str]:
    """The lines of a table; where one is wider than the terminal, its rows as records, one below another: a name, and
    under it as many of its cells on a line as it has room for."""
    if all(columns(line) <= width for line in table):
        yield from table
        return
    for name, cells in records:
        yield f"  {name}"
        line = ""
        for cell in cells:
            if line and columns(f"{line}  {cell}") > width:
                yield line
                line = ""
            line = f"{line}  {cell}" if line else f"      {cell}"
        if line:
            yield line
