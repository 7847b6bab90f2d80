"""The two passes over the files: the first counts and samples, the second judges by what the sample has taught."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from pellucid.config import Task
from pellucid.data.doctor.characters import tally_characters
from pellucid.data.doctor.duplicates import Seen
from pellucid.data.doctor.finding import Tally
from pellucid.data.doctor.labels import Labels
from pellucid.data.doctor.pairs import PairCheck, Sample
from pellucid.data.doctor.reading import Reading, Window
from pellucid.data.doctor.tokens import LengthCheck
from pellucid.data.splits import Pairs, position

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Part:
    """The files of one split, or of several that are shares of them.

    Attributes:
        name: the first of its splits.
        whole: everything in the files.
        shares: the splits in them.
    """

    name: str
    whole: Pairs
    shares: tuple[Pairs, ...]


def parts_of(splits: dict[str, Pairs]) -> list[Part]:
    """The splits by their files, in the order train, validation, test."""
    by_files: dict[object, list[Pairs]] = {}
    for name in ("train", "validation", "test"):
        if name in splits:
            by_files.setdefault(splits[name].split, []).append(splits[name])
    return [Part(shares[0].name, dataclasses.replace(shares[0], interval=(0.0, 1.0)), tuple(shares))
            for shares in by_files.values()]


@dataclass
class FirstPass:
    """What is counted in any order: characters, hashes, labels; and a sample.

    Attributes:
        characters: by side, kind → lines.
        seen, labels: by split.
    """

    part: Part
    task: Task
    reading: Reading = field(init=False)
    characters: tuple[dict[str, Tally], dict[str, Tally]] = field(
        default_factory=lambda: (defaultdict(Tally), defaultdict(Tally)))
    seen: dict[str, Seen] = field(default_factory=dict)
    labels: dict[str, Labels] = field(default_factory=dict)
    sample: Sample = field(default_factory=Sample)

    def __post_init__(self) -> None:
        self.reading = Reading(self.part.whole)
        self.seen = {share.name: Seen() for share in self.part.shares}
        self.labels = {share.name: Labels() for share in self.part.shares}

    def run(self, progress: Progress) -> None:
        """Reads everything once."""
        is_alone = self.part.whole.fields.are_one
        for window in self.reading.windows():
            sides = (window.sources,) if is_alone else (window.sources, window.targets)
            for texts, tallies in zip(sides, self.characters, strict=False):
                tally_characters(texts, window.numbers, tallies)
            self.sample.add(window)
            for name, share in self._by_share(window):
                filled = [i for i in range(len(share)) if share.sources[i].strip() and share.targets[i].strip()]
                self.seen[name].add(*([side[i] for i in filled] for side in (share.numbers, share.sources,
                                                                             share.targets)))
                if self.task == "classification":
                    self.labels[name].add(share.numbers, share.sources, share.targets)
            progress(f"{self.part.name}: {self.reading.records:,} records read")

    def _by_share(self, window: Window) -> Iterator[tuple[str, Window]]:
        if len(self.part.shares) == 1:
            yield self.part.name, window
            return
        places = np.asarray([position(text) for text in window.sources])
        for share in self.part.shares:
            low, high = share.interval
            chosen = np.flatnonzero((places >= low) & (places < high))
            yield share.name, Window(*([side[i] for i in chosen]
                                       for side in (window.numbers, window.sources, window.targets)))


@dataclass
class SecondPass:
    """What is judged: pairs by what is normal, lengths by the tokenizer."""

    part: Part
    pairs: PairCheck
    lengths: LengthCheck | None

    def run(self, progress: Progress) -> None:
        """Reads everything once more."""
        reading = Reading(self.part.whole)
        for window in reading.windows():
            if self.lengths is not None:
                self.lengths.add(window)
            self.pairs.add(window)
            progress(f"{self.part.name}: {reading.records:,} records judged")
