"""How long what waits to be decoded will take, predicted from what was decoded before.

Each way of searching has a rate of its own: what a beam of 32 takes says nothing of a beam of one. A run has as many
rates as there are widths that may be asked for, with prefixes and the like or without, in each precision: some hundreds
at the most.
"""

from __future__ import annotations

from collections import Counter
from weakref import WeakKeyDictionary

from pellucid.runs.run import Run
from pellucid.serve.tasks import Ask, Kind, Way

_FIRST_RATE = 50e-6  # seconds a character, before anything has been measured
_MEMORY = 0.8  # of what has been measured, when something new is


class Load:
    """What waits or is under way, in characters, and what was measured. Predictions may be read while another thread
    counts.

    Args:
        threads: that decode it, side by side.
    """

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._units: Counter[Kind] = Counter()
        self._turns: Counter[Kind] = Counter()
        self._rates: WeakKeyDictionary[Run, dict[Way, float]] = WeakKeyDictionary()  # seconds a character

    def add(self, ask: Ask, units: int) -> None:
        """So many characters more are to be decoded; fewer, below 0."""
        _add(self._units, ask.kind, units)

    def add_turn(self, ask: Ask, units: int) -> None:
        """So many characters more are decoded in a turn, in which everybody who waits gives one text."""
        _add(self._turns, ask.kind, units)

    def rate(self, kind: Kind) -> float:
        """Seconds a character; of what was never searched in this way, a guess by the ways in which it was."""
        run, way = kind
        known = self._rates.get(run, {})
        return known.get(way) or max((rate * way.width / other.width for other, rate in list(known.items())),
                                     default=_FIRST_RATE)

    def note(self, ask: Ask, units: int, seconds: float) -> None:
        """Learns from a batch."""
        (run, way), rate = ask.kind, seconds / units
        rates = self._rates.setdefault(run, {})
        rates[way] = _MEMORY * rates.get(way, rate) + (1 - _MEMORY) * rate

    def share(self, ask: Ask) -> float:
        """Characters that each thread has to decode of those that are searched in this way."""
        return self._units[ask.kind] / self._threads

    @property
    def seconds(self) -> float:
        """Until all of it is done."""
        return sum(self.rate(kind) * units for kind, units in list(self._units.items())) / self._threads

    def seconds_before(self, texts: int) -> float:
        """Until somebody who comes now has had a turn for each of so many texts, at most; what is being decoded left
        out."""
        return sum(self.rate(kind) * min(units, texts * self._turns.get(kind, 0))
                   for kind, units in list(self._units.items())) / self._threads


def _add(counter: Counter[Kind], kind: Kind, units: int) -> None:
    counter[kind] += units
    if not counter[kind]:
        del counter[kind]  # it would hold the run
