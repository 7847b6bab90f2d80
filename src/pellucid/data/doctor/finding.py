"""A finding: what is wrong, how often, where, what it costs and what to do about it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

Severity = Literal["broken", "warning", "note"]
SEVERITIES: tuple[Severity, ...] = ("broken", "warning", "note")  # the worst first
MOST_EXAMPLES = 3
_CLOSE = 3  # lines apart, in a crowd


@dataclass(frozen=True)
class Example:
    """One place, as ``file:line``, and what stands there."""

    place: str
    text: str


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong.

    Attributes:
        kind: its name, for programs; docs/doctor.md has a section for each.
        severity: broken stops training or spoils what comes out; a warning costs quality or time; a note may be meant.
        where: the split ("train"), or "environment", or the run folder.
        what: one sentence.
        count, total: how many lines (or files) of how many; 0 of 0 where nothing is counted.
        examples: at most MOST_EXAMPLES.
        cost: what it costs.
        do: what to do about it.
    """

    kind: str
    severity: Severity
    where: str
    what: str
    count: int = 0
    total: int = 0
    examples: tuple[Example, ...] = ()
    cost: str = ""
    do: str = ""

    @property
    def share(self) -> float | None:
        """Of all that were looked at."""
        return self.count / self.total if self.total else None


@dataclass
class Tally:
    """Counts places, which come in order; keeps the first ones, and where most of them stand close together."""

    count: int = 0
    numbers: list[int] = field(default_factory=list)
    crowd: tuple[int, int, int] = (0, 0, 0)  # first number, last number, how many
    _run: tuple[int, int, int] = (0, 0, 0)

    def add(self, numbers: Iterable[int]) -> None:
        """Counts each number, a line's or record's."""
        for number in numbers:
            self.count += 1
            if len(self.numbers) < MOST_EXAMPLES:
                self.numbers.append(number)
            first, last, many = self._run
            self._run = (first, number, many + 1) if many and number - last <= _CLOSE else (number, number, 1)
            if self._run[2] > self.crowd[2]:
                self.crowd = self._run

    @property
    def block(self) -> tuple[int, int] | None:
        """First and last line of where they crowd, if ten or more, and half of them, do."""
        first, last, many = self.crowd
        return (first, last) if many >= 10 and many * 2 >= self.count else None


def by_share(count: int, total: int, warning: float, broken: float = 2.0) -> Severity:
    """How bad `count` of `total` is, given the shares from which it is a warning, and from which it is broken."""
    share = count / max(total, 1)
    return "broken" if share >= broken else "warning" if share >= warning else "note"


def shown(text: str, most: int = 60) -> str:
    """A text for one line of a report: cut, and what cannot be seen is written out."""
    cut = text if len(text) <= most else text[: most - 1] + "…"
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in cut)
