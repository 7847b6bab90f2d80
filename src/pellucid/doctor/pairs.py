"""What is wrong between the sides of pairs: slipped, swapped, in another language or script, of lengths or words that
do not go together. Learned from a sample of the training data, then asked of every line of every split.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pellucid.doctor import association, language
from pellucid.doctor.finding import MOST_EXAMPLES, Tally
from pellucid.doctor.reading import Window
from pellucid.doctor.shift import ShiftDetector, Stretch
from pellucid.doctor.words import words_of

_CHUNK = 1024  # consecutive records of the sample
_MOST_CHUNKS = 40
_FEWEST = 64  # records of a chunk that words are learned from
_MOST_WORDS = 64  # of a line that is learned from
_MOST_LETTERS = 2_000_000  # of a side that is learned from
_UNLIKELY = -6.0  # nats: a pair below says something else on either side
_POWER = 0.65  # below, the sides have too little to do with each other for words to tell anything
_TIMES = 3.0  # longer or shorter than usual, at least, to be told


@dataclass
class Sample:
    """Chunks of consecutive pairs, spread evenly over what has been read: 20 to 40 of them once there are so many."""

    chunks: list[Window] = field(default_factory=list)
    _stride: int = 1
    _count: int = 0

    def add(self, window: Window) -> None:
        """Takes in what belongs to the sample."""
        for start in range(0, len(window), _CHUNK):
            if self._count % self._stride == 0:
                self.chunks.append(window.at(range(start, min(start + _CHUNK, len(window)))))
                if len(self.chunks) > _MOST_CHUNKS:
                    self.chunks = self.chunks[::2]
                    self._stride *= 2
            self._count += 1

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """All of them."""
        return list(zip(*self.sides, strict=True))

    @property
    def sides(self) -> tuple[list[str], list[str]]:
        """Their sources, and their targets."""
        return ([text for chunk in self.chunks for text in chunk.sources],
                [text for chunk in self.chunks for text in chunk.targets])


@dataclass(frozen=True)
class Normal:
    """What pairs of this data are like.

    Attributes:
        sides: the letters of either side.
        words: which words go together, or None where they hardly do.
        ratio: the median of log (target characters / source characters), and how far from it a pair may be.
        copies: whether most pairs have the same text on both sides.
    """

    sides: language.Sides
    words: association.Association | None
    ratio: tuple[float, float]
    copies: bool

    @classmethod
    def learn(cls, sample: Sample, is_alone: bool) -> Normal:
        """From a sample of training pairs, or of texts that stand alone."""
        if is_alone:
            texts = _thinned(sample.sides[0])
            return cls(language.Sides.learn(texts, texts), None, (0.0, np.inf), False)
        sides = language.Sides.learn(*map(_thinned, sample.sides))
        listed = [(words_of(chunk.sources, _MOST_WORDS), words_of(chunk.targets, _MOST_WORDS))
                  for chunk in sample.chunks if len(chunk) >= _FEWEST]
        words = association.learn(listed) if listed else None
        if words is not None and words.power < _POWER:
            words = None
        ratios = log_ratios(*sample.sides)
        middle = float(np.median(ratios)) if len(ratios) else 0.0
        spread = float(np.median(np.abs(ratios - middle))) * 1.4826 if len(ratios) else 0.0
        same = [are_same(*pair) for pair in sample.pairs]
        return cls(sides, words, (middle, max(np.log(_TIMES), 5 * spread)), 2 * sum(same) > len(same))


def _thinned(texts: Sequence[str]) -> Sequence[str]:
    return texts[:: 1 + sum(map(len, texts)) // _MOST_LETTERS]


def are_same(source: str, target: str) -> bool:
    """Whether a pair has one text on both sides."""
    return source.strip() == target.strip()


def log_ratios(sources: Sequence[str], targets: Sequence[str]) -> NDArray[np.float64]:
    """log of target over source characters, both 10 longer than they are, so that short ones count less."""
    a, b = (np.fromiter(map(len, side), np.float64, len(side)) for side in (sources, targets))
    return np.asarray(np.log((b + 10) / (a + 10)))


@dataclass
class PairCheck:
    """One split's pairs, window by window.

    Attributes:
        tallies: "empty", "copied", "swapped", "one_side_twice", "foreign_script", "strange_language", "length_ratio" →
            the records' numbers.
        scripts: the foreign scripts met.
    """

    normal: Normal
    is_alone: bool = False  # only the sources are looked at
    tallies: dict[str, Tally] = field(default_factory=lambda: defaultdict(Tally))
    scripts: set[str] = field(default_factory=set)
    _detector: ShiftDetector | None = None
    _unlikely: list[NDArray[np.int64]] = field(default_factory=list)  # numbers of records
    _scores: list[association.Scores] = field(default_factory=list)  # of these

    def add(self, window: Window) -> None:
        """Takes in the next window."""
        masks = self._masks(window)
        told = np.zeros(len(window), dtype=np.bool_)
        numbers = np.asarray(window.numbers)
        for kind, mask in masks.items():  # a pair is told once, the first kind being the most certain
            self.tallies[kind].add(numbers[mask & ~told].tolist())
            told |= mask
        if self.normal.words is not None:
            self._align(window, numbers, told)

    def _masks(self, window: Window) -> dict[str, NDArray[np.bool_]]:
        sides = self.normal.sides
        texts = (window.sources,) if self.is_alone else (window.sources, window.targets)
        empty = np.any([[not text.strip() for text in side] for side in texts], axis=0)
        letters = [language.letters_of(side) for side in texts]
        foreign = [sides.foreign_script(side, i) for i, side in enumerate(letters)]
        self.scripts |= {language.SCRIPTS[i] for i in np.unique(np.concatenate(foreign)) if i}
        masks = {"empty": empty, "foreign_script": np.any([side > 0 for side in foreign], axis=0)}
        if self.is_alone:
            return {**masks, "strange_language": sides.strangers(letters[0])}
        swapped, one_side, strange = sides.judge(letters[0], letters[1])
        pairs = zip(window.sources, window.targets, strict=True)
        copied = np.asarray([not self.normal.copies and are_same(*pair) for pair in pairs])
        far = np.abs(log_ratios(window.sources, window.targets) - self.normal.ratio[0]) > self.normal.ratio[1]
        return {"empty": masks["empty"], "copied": copied,
                "foreign_script": masks["foreign_script"], "swapped": swapped, "one_side_twice": one_side,
                "strange_language": strange, "length_ratio": far}

    def _align(self, window: Window, numbers: NDArray[np.int64], told: NDArray[np.bool_]) -> None:
        words = self.normal.words
        assert words is not None
        if self._detector is None:
            self._detector = ShiftDetector(words)
        source = words.source_ids.ids(words_of(window.sources))
        target = words.target_ids.ids(words_of(window.targets))
        scores = self._detector.add(numbers, source, target, told)
        low = scores < _UNLIKELY
        self._unlikely.append(numbers[low])
        self._scores.append(scores[low])

    def slipped(self) -> list[Stretch]:
        """Where the sides have slipped."""
        stretches = self._detector.stretches if self._detector is not None else []
        return [part for part in stretches if part.offset != 0]

    def misaligned(self) -> Tally:
        """Pairs whose words do not go together, outside of what has slipped; the worst to be shown."""
        tally = Tally()
        if self._unlikely:
            numbers, scores = np.concatenate(self._unlikely), np.concatenate(self._scores)
            kept = np.ones(len(numbers), dtype=np.bool_)
            for part in self.slipped():
                kept &= (numbers < part.first) | (numbers >= part.last)
            tally.add(numbers[kept].tolist())
            tally.numbers = numbers[kept][np.argsort(scores[kept], kind="stable")][:MOST_EXAMPLES].tolist()
        return tally
