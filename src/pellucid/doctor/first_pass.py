"""The first pass over the files: counts and samples, on which the second pass judges."""

import contextlib
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from pellucid.config import Task
from pellucid.data.shards import lines_of
from pellucid.doctor.characters import tally_characters
from pellucid.doctor.duplicates import Seen
from pellucid.doctor.finding import Tally
from pellucid.doctor.labels import Labels
from pellucid.doctor.pairs import Sample
from pellucid.doctor.reading import Part, Progress, Reading, Window
from pellucid.errors import UserError
from pellucid.train.journal import how_far


@dataclass
class FirstPass:
    """What is counted in any order: characters, hashes, labels; and a sample.

    Attributes:
        characters: by side, kind → lines.
        records, filled, seen, labels: by split; filled are records with two sides.
    """

    part: Part
    task: Task
    reading: Reading = field(init=False)
    characters: tuple[dict[str, Tally], dict[str, Tally]] = field(
        default_factory=lambda: (defaultdict(Tally), defaultdict(Tally)))
    records: dict[str, int] = field(default_factory=dict)
    filled: dict[str, int] = field(default_factory=dict)
    seen: dict[str, Seen] = field(default_factory=dict)
    labels: dict[str, Labels] = field(default_factory=dict)
    sample: Sample = field(default_factory=Sample)

    def __post_init__(self) -> None:
        self.reading = Reading(self.part.whole)
        self.records = {share.name: 0 for share in self.part.shares}
        self.filled = dict(self.records)
        self.seen = {share.name: Seen() for share in self.part.shares}
        self.labels = {share.name: Labels() for share in self.part.shares}

    def run(self, progress: Progress) -> None:
        """Reads everything once."""
        begun, total = time.monotonic(), None
        with contextlib.suppress(UserError):  # reading tells it
            total = lines_of(self.part.whole.split)
        is_alone = self.part.whole.fields.are_one
        for window in self.reading.windows():
            sides = (window.sources,) if is_alone else (window.sources, window.targets)
            for texts, tallies in zip(sides, self.characters, strict=False):
                tally_characters(texts, window.numbers, tallies)
            self.sample.add(window)
            for name, share in self._by_share(window):
                filled = share.at([i for i, pair in enumerate(zip(share.sources, share.targets, strict=True))
                                   if all(text.strip() for text in pair)])
                self.records[name] += len(share)
                self.filled[name] += len(filled)
                self.seen[name].add(filled.numbers, filled.sources, filled.targets)
                if self.task == "classification":
                    self.labels[name].count(share.numbers, share.targets)
                    self.labels[name].compare(filled.numbers, filled.sources, filled.targets)
            progress(f"{self.part.name}: {how_far(self.reading.records, total, 'records read', begun)}")

    def sampled(self, split: str) -> Window:
        """What of the sample belongs to a split."""
        shares = [share for chunk in self.sample.chunks for name, share in self._by_share(chunk) if name == split]
        return Window([number for share in shares for number in share.numbers],
                      [text for share in shares for text in share.sources],
                      [text for share in shares for text in share.targets])

    def _by_share(self, window: Window) -> Iterator[tuple[str, Window]]:
        if len(self.part.shares) == 1:
            yield self.part.name, window
            return
        divisions = {share.division for share in self.part.shares if share.division is not None}
        parts = {division: [division.part_of(text) for text in window.sources] for division in divisions}
        for share in self.part.shares:
            found = window if share.division is None else window.at(
                [i for i, name in enumerate(parts[share.division]) if name == share.name])
            yield share.name, found
