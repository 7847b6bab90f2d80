"""Which side a line's letters belong to: how well each side's characters foretell them, and their script.

How much a line is like its side is the mean log-probability of its characters, each given the two before it, in lower
case, line ends included, in nats (Dunning 1994); whether it is rather like the other side, the mean log-ratio of how
frequent its trigrams are here and there. They are counted in the data itself, hashed, so no language need be known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_BUCKETS = 2**18
_CHARACTERS = 200.0  # about so many different ones are expected: 1/200 for one never seen
_APART = 0.8  # nats a character that the sides must differ by, or nothing is said about sides
_SHORTEST = 12  # characters of a line that is judged
_FEWEST = 50  # such lines, or nothing is said
_SURE = 10.0  # nats, of a whole line
_CROWD = 17  # lines that are looked at together
_ODD = 0.5  # of the way to a stranger, on the average of a crowd
_DEVIATIONS, _STRANGE = 5.0, 1.8  # a stranger is as many deviations below the median, and as many nats at least

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
Counts = NDArray[np.float32]
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Letters:
    """The characters of some lines, each with its line, and the buckets of itself, of the two before it, and of all
    three; and how many letters of each script a line has."""

    lines: NDArray[np.int64]
    last: NDArray[np.int64]
    contexts: NDArray[np.int64]
    trigrams: NDArray[np.int64]
    counts: NDArray[np.int64]  # characters a line, one less than with both ends
    scripts: NDArray[np.int64]  # [lines, SCRIPTS]


def letters_of(texts: Sequence[str]) -> Letters:
    """The letters of lines, in lower case."""
    joined = "\n" + "".join(text.replace("\n", " ") + "\n" for text in texts).lower()
    codes = np.frombuffer(joined.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
    ends = codes == 10
    lines = np.cumsum(ends) - 1
    inside = ~ends[1:-1]  # the middle of a trigram is no line end
    contexts = codes[:-2] * np.uint32(0x9E3779B1) ^ codes[1:-1] * np.uint32(0x85EBCA6B)
    contexts ^= contexts >> np.uint32(15)
    trigrams = contexts * np.uint32(0xC2B2AE35) ^ codes[2:] * np.uint32(0x27D4EB2F)
    trigrams ^= trigrams >> np.uint32(13)
    trigrams *= np.uint32(0x165667B1)
    trigrams ^= trigrams >> np.uint32(16)
    of_line = lines[1:-1][inside]
    last, contexts, trigrams = ((part[inside] & np.uint32(_BUCKETS - 1)).astype(np.int64)
                                for part in (codes[2:], contexts, trigrams))
    keys = lines[:-1] * len(SCRIPTS) + _TABLE[codes[:-1] >> 4]
    scripts = np.bincount(keys, minlength=len(texts) * len(SCRIPTS)).reshape(len(texts), len(SCRIPTS))
    return Letters(of_line, last, contexts, trigrams, np.bincount(of_line, minlength=len(texts)), scripts)


@dataclass(frozen=True)
class CharacterModel:
    """Counts of contexts and trigrams, each but one, so that no line speaks for itself; and how frequent a character is
    alone; by bucket."""

    contexts: Counts
    trigrams: Counts
    alone: Counts

    @classmethod
    def learn(cls, letters: Letters) -> CharacterModel:
        """From the letters of one side."""
        contexts, trigrams, last = (np.bincount(part, minlength=_BUCKETS).astype(np.float32)
                                    for part in (letters.contexts, letters.trigrams, letters.last))
        return cls(np.maximum(contexts - 1, 0), np.maximum(trigrams - 1, 0),
                   (last / max(len(letters.last), 1) / 2 + 0.5 / _CHARACTERS).astype(np.float32))

    def means(self, letters: Letters) -> Numbers:
        """Of each line, the mean log-probability of its characters; 0 of a line without any."""
        likely = (self.trigrams[letters.trigrams] + self.alone[letters.last]) / (self.contexts[letters.contexts] + 1)
        sums = np.bincount(letters.lines, np.log(likely), len(letters.counts))
        return np.asarray(sums / np.maximum(letters.counts, 1))


@dataclass(frozen=True)
class Sides:
    """What the letters of either side are like.

    Attributes:
        models: source and target.
        apart: how far a line's own side is above the other, in nats a character, at the median; 0 if they are alike.
        middle, strange: of how much a side's lines are like it, the median, and where a line is none of them.
        scripts: the numbers of the scripts in use on either side.
    """

    models: tuple[CharacterModel, CharacterModel]
    apart: float
    middle: tuple[float, float]
    strange: tuple[float, float]
    scripts: tuple[frozenset[int], frozenset[int]]

    @classmethod
    def learn(cls, source: Sequence[str], target: Sequence[str]) -> Sides:
        """From lines of both sides; what is usual is seen on those lines that half of the models do not know."""
        known = [CharacterModel.learn(letters_of(side[::2])) for side in (source, target)]
        unseen = [letters_of(side[1::2]) for side in (source, target)]
        apart, medians, strange = [], [], []
        for i, letters in enumerate(unseen):
            judged = letters.counts >= _SHORTEST
            own, gap = known[i].means(letters)[judged], _gap(known[i], known[1 - i], letters)[judged]
            enough = len(own) >= _FEWEST
            apart.append(float(np.median(gap)) if enough else 0.0)
            middle, low = np.quantile(own, (0.5, 0.1)) if enough else (0.0, 0.0)
            medians.append(float(middle))
            strange.append(float(middle - max(_DEVIATIONS * (middle - low) / 1.28, _STRANGE)) if enough else -np.inf)
        first, second = letters_of(source), letters_of(target)
        return cls((CharacterModel.learn(first), CharacterModel.learn(second)),
                   min(apart) if min(apart) >= _APART else 0.0, (medians[0], medians[1]), (strange[0], strange[1]),
                   (_scripts(first), _scripts(second)))

    def judge(self, source: Letters, target: Letters) -> tuple[Mask, Mask, Mask]:
        """Of each pair: whether its sides are swapped, whether both are like one side, and whether one is like none."""
        both = source, target
        means = [[model.means(letters) for model in self.models] for letters in both]
        gaps = [_gap(self.models[i], self.models[1 - i], letters) for i, letters in enumerate(both)]
        sums = [gap * letters.counts for gap, letters in zip(gaps, both, strict=True)]
        turned = (gaps[0] < 0) & (gaps[1] < 0)
        swapped = turned & (sums[0] + sums[1] < -1.5 * _SURE)
        one = [(total < -_SURE) & (gap < -self.apart / 3) for total, gap in zip(sums, gaps, strict=True)]
        is_known = self.apart > 0
        strange = [self._strange(letters, i, np.maximum(*means[i])) for i, letters in enumerate(both)]
        return swapped & is_known, (one[0] | one[1]) & ~turned & is_known, strange[0] | strange[1]

    def strangers(self, source: Letters) -> Mask:
        """Which of these source lines are like no others, where there is no second side."""
        return self._strange(source, 0, self.models[0].means(source))

    def _strange(self, letters: Letters, side: int, best: Numbers) -> Mask:
        """Lines that are strange alone, and those that stand among lines that are so on the average: what many of them
        have in common, they have taught the models."""
        judged = letters.counts >= _SHORTEST
        oddness = np.where(judged, (self.middle[side] - best) / (self.middle[side] - self.strange[side]), 0.0)
        around = np.convolve(np.minimum(oddness, 2.0), np.full(_CROWD, 1 / _CROWD), "same")[: len(oddness)]
        crowd = np.convolve(around > _ODD, np.ones(_CROWD), "same")[: len(oddness)] > 0
        return (oddness > 1) | (judged & crowd & (oddness > _ODD / 2))

    def foreign_script(self, letters: Letters, side: int) -> NDArray[np.int64]:
        """The number of the script that most letters of a line are in, where that side does not use it; else 0."""
        counts = letters.scripts[:, 1:]
        script = counts.argmax(1) + 1
        most = counts.max(1)
        foreign = ~np.isin(script, list(self.scripts[side])) & (most * 2 > counts.sum(1)) & (most >= 3)
        return np.where(foreign, script, 0)


def _gap(own: CharacterModel, other: CharacterModel, letters: Letters) -> Numbers:
    """Of each line, how much more frequent its trigrams are on its own side than on the other: the mean of the
    logarithm. Few strange lines hardly change it, whereas they do make their own characters foretellable."""
    frequencies = [(model.trigrams + 0.1) / max(model.trigrams.sum(), 1) for model in (own, other)]
    ratio = np.log(frequencies[0]) - np.log(frequencies[1])
    sums = np.bincount(letters.lines, ratio[letters.trigrams], len(letters.counts))
    return np.asarray(sums / np.maximum(letters.counts, 1))


def _scripts(letters: Letters) -> frozenset[int]:
    """Those that most letters are in, in one line of ten at least."""
    counts = letters.scripts[:, 1:]
    lines = np.bincount(counts.argmax(1)[counts.sum(1) > 0] + 1, minlength=len(SCRIPTS))
    return frozenset(np.flatnonzero(lines * 10 >= max(lines.sum(), 1)).tolist())
