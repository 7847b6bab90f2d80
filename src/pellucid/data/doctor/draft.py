"""Findings in the making: numbers of records first; what stands there is fetched at the end, in one reading."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pellucid.data import sources
from pellucid.data.doctor.advice import ADVICE, Advice
from pellucid.data.doctor.finding import Example, Finding, Severity, Tally, shown
from pellucid.data.doctor.passes import Part
from pellucid.data.doctor.reading import Reading
from pellucid.errors import UserError

_STOP = Advice("", 0, 0, "training stops there", "")


@dataclass(frozen=True)
class Draft:
    """A finding without its examples' texts.

    Attributes:
        numbers: records to show; counted from 0 if `by_index`.
        side: 0 or 1 where it is about one side.
        say: in place of the usual sentence.
        severity: in place of the usual one.
        stretches: for each number, what to show in place of its text.
        stop: the error that it tells of.
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
    stretches: tuple[str, ...] = ()
    by_index: bool = False
    stop: UserError | None = None

    @classmethod
    def of(cls, kind: str, part: Part, tally: Tally, total: int, side: int | None = None, where: str = "") -> Draft:
        """From a tally; where its lines crowd is said, and is no note."""
        draft = cls(kind, part, tally.count, total, tuple(tally.numbers), side, where=where)
        if tally.block is None or tally.count * 2 > total:
            return draft
        usual = ADVICE[kind].severity(tally.count, total)
        first, last = tally.block
        return cls(kind, part, tally.count, total, (first, *[n for n in tally.numbers if n != first][:2]), side,
                   f"{ADVICE[kind].what}, most of them in lines {first:,} to {last:,}",
                   "warning" if usual == "note" and kind in _TELLING else None, where)


_TELLING = {"misaligned", "strange_language", "one_side_twice", "length_ratio", "copied", "empty", "foreign_script"}


def finish(drafts: Iterable[Draft]) -> list[Finding]:
    """The findings, with their examples."""
    drafts = list(drafts)
    texts: dict[str, dict[int, tuple[int, str, str]]] = {}
    for part in {draft.part.name: draft.part for draft in drafts}.values():
        of_part = [draft for draft in drafts if draft.part.name == part.name]
        texts[part.name] = _fetch(part, [n for d in of_part if not d.by_index for n in d.numbers],
                                  [n for d in of_part if d.by_index for n in d.numbers])
    return [_finished(draft, texts[draft.part.name]) for draft in drafts]


def _fetch(part: Part, numbers: Sequence[int], indices: Sequence[int]) -> dict[int, tuple[int, str, str]]:
    """Record number (or, for an index i, -1 - i) → number and both texts."""
    found: dict[int, tuple[int, str, str]] = {}
    wanted, by_index = set(numbers), set(indices)
    if not wanted and not by_index:
        return found
    index = 0
    for window in Reading(part.whole).windows():
        for number, a, b in zip(window.numbers, window.sources, window.targets, strict=True):
            if number in wanted:
                found[number] = number, a, b
            if index in by_index:
                found[-1 - index] = number, a, b
            index += 1
        if len(found) == len(wanted) + len(by_index):
            break
    return found


def _finished(draft: Draft, texts: dict[int, tuple[int, str, str]]) -> Finding:
    if draft.stop is not None:
        error = draft.stop
        what = error.what + (f" ({error.why})" if error.why else "")
        return Finding(draft.kind, "broken", draft.part.name, what, 1, 1,
                       (Example(error.where, ""),) if error.where else (), _STOP.cost, error.fix)
    advice = ADVICE[draft.kind]
    examples = []
    for i, number in enumerate(draft.numbers):
        key = -1 - number if draft.by_index else number
        record, a, b = texts.get(key, (number, "", ""))
        told = draft.stretches[i] if draft.stretches else _text(draft.side, a, b)
        examples.append(Example(_place(draft, record), told))
    return Finding(draft.kind, draft.severity or advice.severity(draft.count, draft.total),
                   draft.where or draft.part.name, draft.say or advice.what, draft.count, draft.total,
                   tuple(examples), advice.cost, advice.do)


def _text(side: int | None, a: str, b: str) -> str:
    return f"{shown(a, 34)} | {shown(b, 34)}" if side is None else shown((a, b)[side], 68)


def _place(draft: Draft, number: int) -> str:
    """``file:line`` of one side, the source's where it is about both."""
    pairs = draft.part.whole
    files = sources.paths(pairs.split)
    return f"{files[draft.side or 0]}:{number}" if len(files) == 2 else sources.place(pairs.split, number)
