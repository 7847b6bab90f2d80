"""Findings in the making: numbers of records first; what stands there is fetched at the end, in one reading."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pellucid.data.shards import place, shard_and_line, shards_of
from pellucid.doctor.advice import ADVICE
from pellucid.doctor.finding import Crowd, Example, Finding, Severity, Tally, shown
from pellucid.doctor.reading import Part, Reading

_TELLING = {"misaligned", "strange_language", "one_side_twice", "length_ratio", "copied", "empty", "foreign_script"}


@dataclass(frozen=True)
class Draft:
    """A finding without its examples' texts.

    Attributes:
        numbers: records to show.
        side: 0 or 1 where it is about one side.
        say, severity, where: in place of the usual ones.
        texts: for each number, what to show in place of its text.
    """

    kind: str
    part: Part
    count: int
    total: int
    numbers: tuple[int, ...] = ()
    side: int | None = None
    say: str = ""
    severity: Severity | None = None
    where: str = ""
    texts: tuple[str, ...] = ()

    @classmethod
    def of(cls, kind: str, part: Part, tally: Tally, total: int, side: int | None = None, where: str = "") -> Draft:
        """From a tally; where its lines crowd is said, and is no note."""
        draft = cls(kind, part, tally.count, total, tuple(tally.numbers), side, where=where)
        if tally.block is None or tally.count * 2 > total:
            return draft
        numbers, crowd = tally.block.numbers, _lines(part, tally.block)
        is_note = kind in _TELLING and ADVICE[kind].severity(tally.count, total) == "note"
        return cls(kind, part, tally.count, total, numbers, side,
                   f"{ADVICE[kind].what}, most of them in {crowd}",
                   "warning" if is_note else None, where)

    def finished(self, records: dict[int, tuple[str, str]]) -> Finding:
        """The finding, given both texts of each record that it shows."""
        advice, examples = ADVICE[self.kind], []
        for i, number in enumerate(self.numbers):
            texts = records.get(number, ())
            told = (self.texts[i],) if self.texts else texts if self.side is None else texts[self.side :][:1]
            examples.append(Example(self._place(number), tuple(map(shown, told))))
        return Finding(self.kind, self.severity or advice.severity(self.count, self.total),
                       self.where or self.part.name, self.say or advice.what, self.count, self.total, tuple(examples),
                       advice.cost, advice.do)

    def _place(self, number: int) -> str:
        """``file:line`` of one side, the source's where it is about both."""
        return place(self.part.whole.split, number, self.side or 0)


def _lines(part: Part, crowd: Crowd) -> str:
    """Where a crowd stands; it lies within one file."""
    (shard, begin), (_, end) = shard_and_line(crowd.numbers[0]), shard_and_line(crowd.last)
    shards = shards_of(part.whole.split)
    return f"lines {begin:,} to {end:,}" + (f" of {' and '.join(shards[shard].files)}" if len(shards) > 1 else "")


def finish(drafts: Iterable[Draft]) -> list[Finding]:
    """The findings, with their examples."""
    drafts = list(drafts)
    records: dict[str, dict[int, tuple[str, str]]] = {}
    for part in {draft.part.name: draft.part for draft in drafts}.values():
        records[part.name] = _fetch(part, {n for d in drafts if d.part.name == part.name for n in d.numbers})
    return [draft.finished(records[draft.part.name]) for draft in drafts]


def _fetch(part: Part, wanted: set[int]) -> dict[int, tuple[str, str]]:
    """Both texts of the records with these numbers."""
    found: dict[int, tuple[str, str]] = {}
    for window in Reading(part.whole).windows() if wanted else ():
        found |= {number: (a, b) for number, a, b in zip(window.numbers, window.sources, window.targets, strict=True)
                  if number in wanted}
        if len(found) == len(wanted):
            break
    return found
