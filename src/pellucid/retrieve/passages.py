"""A document in passages: windows that end where sentences or lines do, each with its place in the text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from pellucid.data.sentences import divide

LONGEST = 400  # characters of a passage
LENGTHS = (20, 10_000)  # that it can be given
_LINE = re.compile(r"[^\n\r\v\f\x1c-\x1e\x85\u2028\u2029]*(?:[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]+|\Z)")


@dataclass(frozen=True)
class Document:
    """A text with its name.

    Attributes:
        id: no other document of an index has it.
        title: for people; may be empty.
        text: as it was read; offsets count its characters (code points).
    """

    id: str
    title: str
    text: str


@dataclass(frozen=True)
class Passage:
    """A part of a document: `text` is the document's ``text[start:end]``."""

    document: str
    title: str
    start: int
    end: int
    text: str


def cut(document: Document, longest: int = LONGEST) -> Iterator[Passage]:
    """The passages of a document, in order; together they hold all of it but white space between them.

    Each takes in as many sentences as fit, those of one document being about equally long; what is longer than
    `longest` characters without an end of a sentence or line is cut between clauses, words or characters.
    """
    text = document.text
    windows = -(-len(text) // longest)
    aim = len(text) / max(windows, 1)
    start = end = 0
    for part in parts_of(text, longest):
        if end > start and (end - start >= aim or end - start + len(part) > longest):
            yield from _passage(document, start, end)
            start = end
        end += len(part)
    yield from _passage(document, start, end)


def parts_of(text: str, longest: int = LONGEST) -> Iterator[str]:
    """Sentences and lines with all that stands behind them; one behind the other they are the text."""
    for line in _LINE.finditer(text):
        if line[0]:
            yield from divide(line[0], lambda part: len(part) <= longest)


def _passage(document: Document, start: int, end: int) -> Iterator[Passage]:
    """The window without the white space at its ends, unless it is nothing else."""
    window = document.text[start:end]
    start, end = start + len(window) - len(window.lstrip()), end - len(window) + len(window.rstrip())
    if start < end:
        yield Passage(document.id, document.title, start, end, document.text[start:end])
