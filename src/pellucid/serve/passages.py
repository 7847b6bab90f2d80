"""A text cut into pieces that a model translates one by one, and put together with its line breaks and spaces as they
were.

The pieces are sentences (data/sentences.py), and parts of those that are too long. What stands between them is kept.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pellucid.data.sentences import divide
from pellucid.runs.parts import is_wide

_LINE_BREAKS = re.compile("[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]+")  # those of str.splitlines


@dataclass(frozen=True)
class Passage:
    """A text in pieces.

    Attributes:
        pieces: what is translated; none is blank, or has space at an end, or a line break.
        gaps: what stands before the first, between them, and behind the last: one more than there are pieces.
    """

    pieces: tuple[str, ...]
    gaps: tuple[str, ...] = ("",)

    def put(self, translations: Sequence[str]) -> str:
        """The text with a translation in the place of each piece; with the pieces themselves, it is the text as it was.

        Where no space stood behind a sentence because its script has none, such as Chinese, one stands behind its
        translation into a script that has; and the other way round.
        """
        assert len(translations) == len(self.pieces)
        behind = [*map(between, self.pieces[:-1], translations, self.gaps[1:-1]), *self.gaps[1:][-1:]]
        return self.gaps[0] + "".join(itertools.chain.from_iterable(zip(translations, behind, strict=True)))


def cut(text: str, fits: Callable[[str], bool]) -> Passage:
    """The text in pieces.

    Args:
        fits: whether a piece is short enough for the model; what does not fit is cut between clauses, words or
            characters.
    """
    pieces, gaps = [], [""]
    place = 0
    for found in itertools.chain(_LINE_BREAKS.finditer(text), (None,)):
        end = len(text) if found is None else found.start()
        for part in divide(text[place:end], lambda part: fits(part.strip())) if place < end else ():
            piece = part.strip()
            before, after = part.split(piece, 1) if piece else (part, "")
            gaps[-1] += before
            if piece:
                pieces.append(piece)
                gaps.append(after)
        if found is not None:
            gaps[-1] += found[0]
            place = found.end()
    return Passage(tuple(pieces), tuple(gaps))


def between(piece: str, translation: str, gap: str) -> str:
    """What stands behind the translation of a sentence where `gap` stood behind that, and another follows."""
    had_none, has_none = is_wide(piece[-1:]), is_wide(translation[-1:])  # spaces between sentences
    if had_none and not has_none and translation and not gap:
        return " "
    return "" if has_none and not had_none and gap == " " else gap
