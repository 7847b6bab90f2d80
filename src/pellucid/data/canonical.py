"""The form in which texts are compared that are the same but for their writing: texts with one form are twins.

What a tokenizer may be told to take away is not in it: case, punctuation (Unicode categories P*) and blanks, but for
one between digits, so that "1 12" is not "11 2". Nor is what no reader sees: control and format characters, and the
difference between characters and their compatible forms (NFKD, UAX #15). Letters, marks, numbers and symbols are left.
It knows no tokenizer, so that runs with different ones can share what is made of it.
"""

import re
import unicodedata

_BLANK = re.compile(r"(?<!\d) | (?!\d)")
_WORD = re.compile(r"[^\W_]")


class _Read(dict[int, int | None]):
    """What is left of each character, itself or nothing; filled as they come."""

    def __missing__(self, code: int) -> int | None:
        character = chr(code)
        category = unicodedata.category(character)
        is_read = character.isspace() or not (category.startswith("P") or category in ("Cc", "Cf"))
        self[code] = code if is_read else None
        return self[code]


_READ = _Read()


def canonical(text: str) -> str:
    """The form that a text shares with its twins. A text without a letter or digit keeps its punctuation."""
    folded = _folded(text.translate(_READ)).translate(_READ)
    return _BLANK.sub("", " ".join(folded.split())) if _WORD.search(folded) else "".join(_folded(text).split())


def _folded(text: str) -> str:
    return unicodedata.normalize("NFKD", text).casefold()
