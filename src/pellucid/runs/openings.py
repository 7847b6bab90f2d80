"""How an output must begin, as text: kept to the byte, and its last word finished.

The words before the last are made of the tokens that they would be in training. The last word, with the space before
it, may be made of any tokens that spell it, and the last of those may go on where it ends: "dorm" begins "dormira". A
space behind a word says that it is finished.
"""

from __future__ import annotations

import bisect
import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pellucid.data.tokenizers.interface import UNK, Tokenizer
from pellucid.search.beginnings import Beginning, Choice, Ids, of_tokens


@dataclass(frozen=True)
class Opening:
    """A text that an output must begin with.

    Attributes:
        text: as it was given.
        beginning: what search is asked for.
        unknown: the parts of the text that no token stands for; they stay, and the model reads UNK in their place.
    """

    text: str
    beginning: Beginning
    unknown: tuple[str, ...]
    _ahead: int  # characters that the beginning's tokens spell, as far as they are in the text
    _speller: Speller

    def say(self, tokens: Sequence[int]) -> str:
        """The output's text: this one, and what the tokens say more."""
        length, more = self.beginning.walk(tokens)
        if more is not None:  # the maximum length came first
            return self.text
        decode = self._speller.tokenizer.decode
        if length == 0:  # nothing was asked for
            return self.text + decode(tokens)
        spelled = sum(len(self._speller.spellings[token]) for token in tokens[:length])
        begun = len(decode(tokens[:length])) - max(0, spelled - self._ahead)
        return self.text + decode(tokens)[begun:]


class Speller:
    """Which tokens spell a text.

    Args:
        tokenizer: of the target side.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self._ends = functools.cache(self._ends_of)
        self._free = Opening("", of_tokens(tokenizer.forced), (), 0, self)

    @functools.cached_property
    def spellings(self) -> list[str]:
        """What each token adds to a text."""
        return self.tokenizer.spellings()

    @functools.cached_property
    def _sorted(self) -> tuple[list[str], Ids]:
        """The spellings in their order, and the tokens in the same."""
        tokens = sorted((spelling, token) for token, spelling in enumerate(self.spellings) if spelling)
        return [spelling for spelling, _ in tokens], np.array([token for _, token in tokens], dtype=np.int64)

    @functools.cached_property
    def _longest(self) -> int:
        return max(map(len, self.spellings), default=0)

    def opening(self, text: str) -> Opening:
        """What an output must begin with to begin with `text`.

        Where no tokens spell the last word, or begin with it, it is taken as a whole word: unknown, for a vocabulary of
        words that has none like it.
        """
        if not text:
            return self._free
        given = text.lstrip(" ")
        space = given.rfind(" ")
        lead = len(self.tokenizer.spelled(""))  # a space stands before each first token, or nothing
        before, word = given[: max(0, space + 1 - lead)], given[space + 1 :]
        word = self.tokenizer.spelled(word) if given else ""
        choices = self._choices(word)
        if choices is None:
            before, word, choices = given, "", []
        ids = self.tokenizer.encode(before)
        unknown = tuple(self.tokenizer.unknown(before)) if UNK in ids else ()
        first = [Choice({token: number}) for number, token in enumerate(ids, start=1)]
        later = [Choice({token: len(ids) + place for token, place in choice.ways.items()}, choice.ends)
                 for choice in choices]
        ahead = sum(len(self.spellings[token]) for token in ids) + len(word)
        return Opening(text, Beginning((*first, *later)), unknown, ahead, self)

    def _choices(self, word: str) -> list[Choice] | None:
        """The choice at each place of a word, of what leads to its end; None where nothing does."""
        choices = [Choice({})] * len(word)
        for place in reversed(range(len(word))):
            ways = {}
            for end in range(place + 1, min(len(word), place + self._longest + 1)):
                if len(choices[end].tokens):
                    ways.update(dict.fromkeys(self._exactly(word[place:end]).tolist(), end))
            choices[place] = Choice(ways, self._ends(word[place:]))
        return choices if not word or len(choices[0].tokens) else None

    def _exactly(self, text: str) -> Ids:
        """The tokens that spell a text and no more."""
        spellings, tokens = self._sorted
        return tokens[bisect.bisect_left(spellings, text) : bisect.bisect_right(spellings, text)]

    def _ends_of(self, text: str) -> Ids:
        """The tokens that begin with a text."""
        spellings, tokens = self._sorted
        low = bisect.bisect_left(spellings, text)
        return tokens[low : bisect.bisect_left(spellings, text + chr(0x10FFFF), lo=low)]
