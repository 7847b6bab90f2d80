"""Which side a line's letters belong to: its trigrams of characters against those of either side, and its script.

A line's score on a side is the mean log-probability of its trigrams, lower-cased, line ends included, in nats (Dunning
1994). Both sides are learned from the data itself, so no language need be known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_BUCKETS = 2**18
_APART = 1.0  # nats a trigram that the sides must differ by, or nothing is said about sides
_SHORTEST = 12  # trigrams of a line that is judged
_SURE = 10.0  # nats, of a whole line
_STRANGE = 1.5  # nats a trigram below the lowest per mille of the side's own lines

# Where a script's letters begin, up to the next; 0 is none in particular. By sixteens of code points.
_SCRIPTS = [(0x00, ""), (0x40, "Latin"), (0x80, ""), (0xC0, "Latin"), (0x2B0, ""), (0x370, "Greek"),
            (0x400, "Cyrillic"), (0x530, "Armenian"), (0x590, "Hebrew"), (0x600, "Arabic"), (0x700, "Syriac"),
            (0x750, "Arabic"), (0x780, "Thaana"), (0x7C0, "other"), (0x900, "Devanagari"), (0x980, "Bengali"),
            (0xA00, "Gurmukhi"), (0xA80, "Gujarati"), (0xB00, "Oriya"), (0xB80, "Tamil"), (0xC00, "Telugu"),
            (0xC80, "Kannada"), (0xD00, "Malayalam"), (0xD80, "Sinhala"), (0xE00, "Thai"), (0xE80, "Lao"),
            (0xF00, "Tibetan"), (0x1000, "Burmese"), (0x10A0, "Georgian"), (0x1100, "Hangul"), (0x1200, "Ethiopic"),
            (0x13A0, "other"), (0x1780, "Khmer"), (0x1800, "Mongolian"), (0x18B0, "other"), (0x1E00, "Latin"),
            (0x1F00, "Greek"), (0x2000, ""), (0x2C00, "other"), (0x2DE0, "Cyrillic"), (0x2E00, ""),
            (0x2E80, "Han or kana"), (0x3000, ""), (0x3040, "Han or kana"), (0x3130, "Hangul"),
            (0x3190, "Han or kana"), (0xA000, "other"), (0xA720, "Latin"), (0xA800, "other"), (0xAC00, "Hangul"),
            (0xD7B0, ""), (0xF900, "Han or kana"), (0xFB00, ""), (0xFB50, "Arabic"), (0xFE00, ""), (0xFE70, "Arabic"),
            (0xFF00, ""), (0x10000, "other"), (0x1F000, ""), (0x20000, "Han or kana"), (0x32000, "")]
SCRIPTS = list(dict.fromkeys(name for _, name in _SCRIPTS))  # by number; the first is none
_TABLE = np.zeros(0x110000 >> 4, dtype=np.uint8)
for _start, _name in _SCRIPTS:
    _TABLE[_start >> 4 :] = SCRIPTS.index(_name)

Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class Letters:
    """The characters of some lines: the trigrams as buckets, with the line of each, and letters by script."""

    trigrams: NDArray[np.int64]
    lines: NDArray[np.int64]
    counts: NDArray[np.int64]  # trigrams a line
    scripts: NDArray[np.int64]  # [lines, SCRIPTS]


def letters_of(texts: Sequence[str]) -> Letters:
    """The letters of lines, in lower case."""
    joined = "\n" + "\n".join(texts).lower() + "\n"
    codes = np.frombuffer(joined.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
    ends = codes == 10
    lines = np.cumsum(ends) - 1
    inside = ~ends[1:-1]  # the middle of a trigram is no line end
    hashed = codes * np.uint32(0x9E3779B1)
    mixed = (hashed[:-2] ^ np.roll(hashed, 11)[1:-1] * np.uint32(0x85EBCA6B)) + hashed[2:] * np.uint32(0xC2B2AE35)
    mixed ^= mixed >> np.uint32(15)
    trigrams = (mixed[inside] % np.uint32(_BUCKETS)).astype(np.int64)
    of_line = lines[1:-1][inside]
    count = len(texts)
    scripts = np.bincount(lines[:-1] * len(SCRIPTS) + _TABLE[codes[:-1] >> 4], minlength=count * len(SCRIPTS))
    return Letters(trigrams, of_line, np.bincount(of_line, minlength=count),
                   scripts.reshape(count, len(SCRIPTS)))


@dataclass(frozen=True)
class Sides:
    """What the letters of either side are like.

    Attributes:
        tables: log-probability of each bucket, source and target.
        apart: how far a line's own side is above the other, in nats a trigram, at the median; 0 if they are alike.
        strange: below this, a line is like neither side; one number a side.
        scripts: the numbers of the scripts in use on either side.
    """

    tables: tuple[Numbers, Numbers]
    apart: float
    strange: tuple[float, float]
    scripts: tuple[frozenset[int], frozenset[int]]

    @classmethod
    def learn(cls, source: Sequence[str], target: Sequence[str]) -> Sides:
        """From lines of both sides."""
        letters = letters_of(source), letters_of(target)
        tables = _table(letters[0]), _table(letters[1])
        means = [[_means(side, table) for table in tables] for side in letters]
        judged = [side.counts >= _SHORTEST for side in letters]
        if not judged[0].any() or not judged[1].any():
            return cls(tables, 0.0, (-np.inf, -np.inf), (_scripts(letters[0]), _scripts(letters[1])))
        apart = min(float(np.median((means[i][i] - means[i][1 - i])[judged[i]])) for i in (0, 1))
        low = [float(np.quantile(means[i][i][judged[i]], 0.02)) for i in (0, 1)]
        middle = [float(np.median(means[i][i][judged[i]])) for i in (0, 1)]
        strange = [m - 1.6 * (m - q) - 0.4 for m, q in zip(middle, low, strict=True)]
        return cls(tables, apart if apart >= _APART else 0.0, (strange[0], strange[1]),
                   (_scripts(letters[0]), _scripts(letters[1])))

    def gaps(self, letters: Letters, side: int) -> Numbers:
        """How far each line is above the other side, in nats a trigram; 0 where the sides are alike."""
        gap = _means(letters, self.tables[side]) - _means(letters, self.tables[1 - side])
        return gap if self.apart else np.zeros(len(gap))

    def turned(self, source: Letters, target: Letters) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Which pairs have their sides swapped, and which have both sides like one of the two."""
        gaps = self.gaps(source, 0), self.gaps(target, 1)
        sums = gaps[0] * source.counts, gaps[1] * target.counts
        both = (gaps[0] < 0) & (gaps[1] < 0)
        swapped = both & (sums[0] + sums[1] < -1.5 * _SURE)
        one = [(total < -_SURE) & (gap < -self.apart / 3) for total, gap in zip(sums, gaps, strict=True)]
        return swapped, (one[0] | one[1]) & ~both

    def strangers(self, letters: Letters, side: int) -> NDArray[np.bool_]:
        """Which lines of `side` are like neither side's."""
        own, other = (_means(letters, self.tables[i]) for i in (side, 1 - side))
        return (letters.counts >= _SHORTEST) & (np.maximum(own, other) < self.strange[side])

    def foreign_script(self, letters: Letters, side: int) -> NDArray[np.int64]:
        """The number of the script that most letters of a line are in, where that side does not use it; else 0."""
        counts = letters.scripts[:, 1:]
        script = counts.argmax(1) + 1
        most = counts.max(1)
        foreign = ~np.isin(script, list(self.scripts[side])) & (most * 2 > counts.sum(1)) & (most >= 3)
        return np.where(foreign, script, 0)


def _table(letters: Letters) -> Numbers:
    counts = np.bincount(letters.trigrams, minlength=_BUCKETS) + 0.1
    return np.asarray(np.log(counts / counts.sum()))


def _means(letters: Letters, table: Numbers) -> Numbers:
    sums = np.bincount(letters.lines, table[letters.trigrams], len(letters.counts))
    return np.asarray(sums / np.maximum(letters.counts, 1))


def _scripts(letters: Letters) -> frozenset[int]:
    """Those that most letters are in, in one line of ten at least."""
    counts = letters.scripts[:, 1:]
    lines = np.bincount(counts.argmax(1)[counts.sum(1) > 0] + 1, minlength=len(SCRIPTS))
    return frozenset(np.flatnonzero(lines * 10 >= max(lines.sum(), 1)).tolist())
