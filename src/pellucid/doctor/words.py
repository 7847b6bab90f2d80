"""The words of lines as numbers, thousands of lines at once."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

# A character is a word where a script writes no spaces: Thai, Lao, Burmese, Khmer, kana, Han. So is a mark.
_ALONE = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
                    r"|[^\w\s]")
_BETWEEN, _LETTER, _DIGIT, _WORD, _UNKNOWN = range(5)
_KINDS = np.full(0x110000, _UNKNOWN, dtype=np.uint8)  # by code point, found out when it is met
_FACTORS = np.cumprod(np.full(64, 0x9E3779B97F4A7C15, dtype=np.uint64))  # of a character, by its place in the word
_LINE, _HASH = np.uint64(44), np.uint64(43)  # a word in bits: its line above, its hash, whether it is a number

Hashes = NDArray[np.uint64]


@dataclass(frozen=True)
class Bags:
    """The words of consecutive lines, as hashes or numbers, in one array; line i has ids[starts[i]:starts[i + 1]]."""

    ids: NDArray[Any]
    starts: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def lines(self) -> NDArray[np.int64]:
        """The line of each id."""
        return np.repeat(np.arange(len(self)), self.sizes)

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Words a line."""
        return np.diff(self.starts)

    def part(self, first: int, last: int) -> Bags:
        """Lines first to last - 1."""
        starts = self.starts[first : last + 1]
        return Bags(self.ids[starts[0] : starts[-1]], starts - starts[0])


def words_of(texts: Sequence[str], most: int | None = None) -> Bags:
    """The words and marks of up to 2²⁰ texts, in lower case, each once a text, as hashes whose last bit says whether
    the word is a number; of a text with more of them, the `most` with the lowest hashes."""
    joined = "".join(text.replace("\n", " ") + "\n" for text in texts).lower()
    codes = np.frombuffer(joined.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
    kinds = _kinds(codes)
    inside = (kinds == _LETTER) | (kinds == _DIGIT)
    begins = inside.copy()
    begins[1:] &= ~inside[:-1]
    first = np.flatnonzero(begins | (kinds == _WORD))
    hashes = np.zeros(0, dtype=np.uint64)
    if len(first):
        place = np.arange(first[0], len(codes)) - np.repeat(first, np.diff(first, append=len(codes)))
        values = codes[first[0] :] * _FACTORS[np.minimum(place, len(_FACTORS) - 1)]
        values[kinds[first[0] :] == _BETWEEN] = 0
        hashes = np.add.reduceat(values, first - first[0])
        hashes = (hashes ^ (hashes >> np.uint64(32))) * _FACTORS[1] >> (np.uint64(64) - _HASH) << np.uint64(1)
        hashes |= ~np.logical_or.reduceat((kinds[first[0] :] == _LETTER) | (kinds[first[0] :] == _WORD),
                                          first - first[0])
        hashes |= np.cumsum(codes == ord("\n"), dtype=np.uint64)[first] << _LINE
        hashes.sort()
        hashes = hashes[np.append(True, hashes[1:] != hashes[:-1])]
    lines = (hashes >> _LINE).astype(np.int64)
    sizes = np.bincount(lines, minlength=len(texts))
    if most is not None and sizes.max(initial=0) > most:
        hashes = hashes[np.arange(len(hashes)) - (np.cumsum(sizes) - sizes)[lines] < most]
        sizes = np.minimum(sizes, most)
    return Bags(hashes & ((np.uint64(1) << _LINE) - np.uint64(1)), np.append(0, np.cumsum(sizes)))


def _kinds(codes: NDArray[np.uint32]) -> NDArray[np.uint8]:
    kinds = _KINDS[codes]
    unknown = np.unique(codes[kinds == _UNKNOWN]).tolist()
    if not unknown:
        return kinds
    for code in unknown:
        character = chr(code)
        _KINDS[code] = (_WORD if _ALONE.match(character) else _DIGIT if character.isdecimal()
                        else _LETTER if character.isalnum() else _BETWEEN)
    return _KINDS[codes]
