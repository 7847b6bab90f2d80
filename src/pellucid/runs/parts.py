"""A long text in parts: divided at the ends of sentences, each part translated by itself, and put together again."""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

from pellucid.data.sentences import divide
from pellucid.data.tokenizers.interface import Tokenizer
from pellucid.runs.candidates import Candidate, Generated

_APART = 2**32  # between the numbers that the parts of one line are drawn by


@dataclass(frozen=True)
class Part:
    """A line, or one part of it.

    Attributes:
        line: its place among the texts.
        number: among the parts of its line, from 0.
    """

    line: int
    number: int
    text: str

    def drawn_by(self, first: int) -> int:
        """The number that samples of it depend on; that of its line, for the first part."""
        return first + self.line + self.number * _APART


def parts_of(texts: Sequence[str], tokenizer: Tokenizer, limit: int | None) -> list[Part]:
    """The texts that are not empty, in their order.

    Args:
        limit: each is divided into sentences, and those into what has fewer tokens than this; None divides nothing.
    """
    def fits(text: str) -> bool:
        return limit is None or len(tokenizer.encode(text.strip())) < limit

    parts = []
    for line, text in enumerate(texts):
        found = [text] if limit is None else [part for part in divide(text, fits) if part.strip()]
        if len(found) > 1:
            found = [part.strip() for part in found]
        parts += [Part(line, number, part) for number, part in enumerate(found) if part.strip()]
    return parts


def together(found: Sequence[Generated]) -> Generated:
    """What is found for the parts of one line as one: log-probabilities and scores are sums."""
    if len(found) == 1:
        return found[0]
    best = [one.hypotheses[0] for one in found]
    whole = Candidate(join([one.text for one in best]), tuple(chain.from_iterable(one.tokens for one in best)),
                      sum(one.score for one in best), sum(one.log_probability for one in best),
                      all(one.finished for one in best))
    return Generated((whole,), sum(one.cut for one in found), tuple(chain.from_iterable(one.unknown for one in found)),
                     tuple(chain.from_iterable(one.unknown_target for one in found)))


def join(texts: Sequence[str]) -> str:
    """One text of several, with a space between, but behind what is written without spaces, such as Chinese."""
    whole = ""
    for text in texts:
        whole += " " * bool(whole and text and not is_wide(whole[-1:])) + text
    return whole


def is_wide(character: str) -> bool:
    """Whether no space stands behind it where a sentence ends: it is Chinese or Japanese; not of an empty text."""
    return (character != "" and unicodedata.east_asian_width(character) in "WF"
            and not unicodedata.name(character, "").startswith("HANGUL"))
