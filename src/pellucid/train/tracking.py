"""Trackers: who is told of a training while it goes, as TensorBoard is, or a listener of one's own.

They are told what metrics.jsonl gets, and stop nothing: one that fails is said to have failed, once, and hears no more.
"""

import contextlib
import itertools
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pellucid.errors import CheckpointError
from pellucid.files import read_json, write_json

_RECORD = "tracking.json"  # of each tracker: what it calls the run, and the last event that it was told of
Event = Mapping[str, Any]


@dataclass(frozen=True)
class Tracked:
    """The run that a tracker is told of.

    Attributes:
        folder: the run folder.
        config: the resolved configuration, as plain data.
        step: updates that were made before; 0 of a new run.
        id: what `begin` gave when the run began; None of a new one.
    """

    folder: Path
    config: dict[str, Any]
    step: int
    id: str | None


class Tracker:
    """A listener; override what it is to hear. Events are the lines of metrics.jsonl.

    Attributes:
        takes_back: whether `begin` takes back what was told of steps after `run.step`, which then come again, the same
            as before. If not, they do not come again.
    """

    takes_back = False

    def begin(self, run: Tracked) -> str | None:
        """A training begins, or goes on; gives what it will be known by when it goes on."""

    def train(self, event: Event) -> None:
        """Every `train.log_every` updates: step, loss, learning_rate, gradient_norm, and so on."""

    def validation(self, event: Event) -> None:
        """After a validation: step, loss, perplexity, and other scores."""

    def end(self, summary: Event | None) -> None:
        """The training has ended, with what `pellucid train --json` prints; or, with None, stops to go on later."""


def scalars(event: Event) -> dict[str, float]:
    """The numbers of an event as trackers show them: ``train/loss``, ``train/gradient_norms/encoder.closing_norm``."""
    found: dict[str, float] = {}
    for key, value in event.items():
        if isinstance(value, Mapping):
            found |= {f"{event['event']}/{key}/{part}": float(number) for part, number in value.items()}
        elif isinstance(value, int | float) and key != "step":
            found[f"{event['event']}/{key}"] = float(value)
    return found


def with_own(shipped: Mapping[str, Tracker], own: Iterable[Tracker]) -> dict[str, Tracker]:
    """All trackers by name: one's own have that of their class, with a number from the second of a name on."""
    found = dict(shipped)
    for tracker in own:
        names = (type(tracker).__name__ + f" {number}" * (number > 1) for number in itertools.count(1))
        found[next(name for name in names if name not in found)] = tracker
    return found


class Tracking:
    """The trackers of a run, by name."""

    def __init__(self, trackers: Mapping[str, Tracker], folder: Path, config: dict[str, Any],
                 say: Callable[[str], None]) -> None:
        self._trackers, self._folder, self._config, self._say = dict(trackers), folder, config, say
        self._told: dict[str, dict[str, Any]] = {}
        self._before: dict[str, list[Any]] = {}  # the last event that each heard of before this process
        self._has_begun = False
        self.summary: Event | None = None  # once the training has ended

    def begin(self, step: int) -> None:
        """Tells all that the training goes on after `step`; only the first time."""
        if self._has_begun or not self._trackers:
            return
        self._has_begun, kept = True, self._kept() if step else {}
        for name, tracker in list(self._trackers.items()):
            record = kept.get(name, {"id": None, "last": [0, ""]})
            self._told[name], self._before[name] = record, [0, ""] if tracker.takes_back else record["last"]
            with self._guarding(name):
                record["id"] = tracker.begin(Tracked(self._folder, self._config, step, record["id"]))

    def tell(self, event: Event) -> None:
        """Passes an event on to all who have not heard it yet: at one step, training comes before validation."""
        self.begin(event["step"] - 1)
        place = [event["step"], event["event"]]
        for name, tracker in list(self._trackers.items()):
            if place > self._before[name]:
                with self._guarding(name):
                    {"train": tracker.train, "validation": tracker.validation}[event["event"]](event)
                    self._told[name]["last"] = place
        if self._trackers:
            with self._guarding(*self._trackers):
                write_json(self._folder / _RECORD, self._told)

    def end(self) -> None:
        """Tells all that the training has ended, if there is a summary of it, or that it stops to go on later."""
        for name, tracker in list(self._trackers.items()) if self._has_begun else ():
            with self._guarding(name):
                tracker.end(self.summary)

    @contextlib.contextmanager
    def _guarding(self, *names: str) -> Iterator[None]:
        """Whatever goes wrong meanwhile is told, and is the last that is heard of these trackers. What they print is
        no answer of ours, and goes to standard error."""
        try:
            with contextlib.redirect_stdout(sys.stderr):
                yield
        except Exception as error:
            self._say(f"{', '.join(names)} failed, and will not be told of this training any more: "
                      f"{type(error).__name__}: {str(error).partition(chr(10))[0]}")
            for name in names:
                del self._trackers[name]

    def _kept(self) -> dict[str, dict[str, Any]]:
        """What was remembered of each tracker; nothing, if that is damaged."""
        try:
            kept = dict(read_json(self._folder / _RECORD))
            return {name: {"id": record["id"], "last": [int(record["last"][0]), str(record["last"][1])]}
                    for name, record in kept.items()}
        except (CheckpointError, TypeError, ValueError, LookupError):
            return {}
