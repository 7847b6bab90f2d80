"""What every tokenizer offers, the four special ids, and the tidying of text that comes before any of them."""

import functools
import sys
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

PAD, UNK, BOS, EOS = range(4)
SPECIALS = ("<pad>", "<unk>", "<s>", "</s>")  # their names in pictures; in a text, the same letters are plain text
FIRST_SENTINEL = len(SPECIALS)  # sentinels follow at once, where there are any
UNKNOWN = "⁇"  # what an unknown piece decodes to


def sentinels(count: int) -> list[str]:
    """The names of T5's sentinels, in the order of their ids. Unlike specials they are made of text that holds them."""
    return [f"<extra_id_{number}>" for number in range(count)]


class Tokenizer(Protocol):
    """Text to ids and back. No special id is ever made of text, whatever the text says."""

    @property
    def size(self) -> int:
        """The number of ids, the four special ones among them."""

    @property
    def forced(self) -> tuple[int, ...]:
        """The ids that every output begins with, and every text that is encoded: of its language, say; none for most.
        They say nothing."""

    def encode(self, text: str) -> list[int]:
        """The ids of a text, without beginning or end."""

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """`encode` of each text."""

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids; PAD, BOS and EOS are skipped."""

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """One string an id, for pictures."""

    def unknown(self, text: str) -> list[str]:
        """The parts of a text that become UNK, in their order."""

    def spellings(self) -> list[str]:
        """What each id adds to a text that `spelled` has made ready; "" for an id that no text becomes."""

    def spelled(self, text: str) -> str:
        """A text as the spellings of its ids say it, one behind the other, where all of it is known."""

    def serialized(self) -> bytes:
        """What is trained, as one file's content."""


@dataclass(frozen=True)
class Tidy:
    """Text → text before it is tokenized: lower case, and no punctuation (Unicode categories P*), where asked for."""

    lowercase: bool
    strip_punctuation: bool

    def __call__(self, text: str) -> str:
        text = text.lower() if self.lowercase else text
        return text.translate(_without_punctuation()) if self.strip_punctuation else text


@functools.cache
def _without_punctuation() -> dict[int, None]:
    return {code: None for code in range(sys.maxunicode + 1) if unicodedata.category(chr(code)).startswith("P")}
