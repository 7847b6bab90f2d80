"""A finding: what is wrong, how often, where, what it costs and what to do about it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from pellucid.data.splits import Pairs
from pellucid.errors import UserError
from pellucid.language import shortened

Severity = Literal["broken", "warning", "note"]
SEVERITIES: tuple[Severity, ...] = ("broken", "warning", "note")  # the worst first
MOST_EXAMPLES = 3
_CLOSE = 3  # lines apart, in a crowd
_LONGEST = 500  # characters of an example


@dataclass(frozen=True)
class Example:
    """One place, as ``file:line``, and what stands there: both sides of a pair, or one text, or nothing."""

    place: str
    texts: tuple[str, ...] = ()


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

    @classmethod
    def of_error(cls, kind: str, severity: Severity, where: str, error: UserError, cost: str) -> Finding:
        """What an error says."""
        what = f"{error.what} ({error.why})" if error.why else error.what
        return cls(kind, severity, where, what, examples=(Example(error.where),) if error.where else (), cost=cost,
                   do=error.fix)

    @classmethod
    def of_nothing(cls, pairs: Pairs) -> Finding:
        """That a split has no record, in files that can be read."""
        return cls.of_error("unreadable", "broken", pairs.name, pairs.nothing(),
                            "evaluation stops there" if pairs.name == "test" else "training stops there")

    @property
    def share(self) -> float | None:
        """Of all that were looked at."""
        return self.count / self.total if self.total else None


@dataclass(frozen=True)
class Crowd:
    """Numbers that stand close together: the first ones, the last, and how many."""

    numbers: tuple[int, ...] = ()
    last: int = 0
    many: int = 0


_NOBODY = Crowd()


@dataclass
class Tally:
    """Counts places, which come in order; keeps the first ones, and where most of them stand close together."""

    count: int = 0
    numbers: list[int] = field(default_factory=list)
    largest: Crowd = _NOBODY
    _crowd: Crowd = _NOBODY

    @classmethod
    def of(cls, numbers: Iterable[int]) -> Tally:
        """Of these numbers, in any order."""
        tally = cls()
        tally.add(sorted(numbers))
        return tally

    def add(self, numbers: Iterable[int]) -> None:
        """Counts each number, a line's or record's."""
        for number in numbers:
            self.count += 1
            if len(self.numbers) < MOST_EXAMPLES:
                self.numbers.append(number)
            crowd = self._crowd if number - self._crowd.last <= _CLOSE else _NOBODY
            self._crowd = Crowd((*crowd.numbers, number)[:MOST_EXAMPLES], number, crowd.many + 1)
            if self._crowd.many > self.largest.many:
                self.largest = self._crowd

    @property
    def block(self) -> Crowd | None:
        """Where they crowd, if ten or more, and half of them, do."""
        many = self.largest.many
        return self.largest if many >= 10 and many * 2 >= self.count else None


def shown(text: str) -> str:
    """A text for a report: cut where it is very long, and what cannot be seen is written out."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode()
                   for c in shortened(text, _LONGEST))
