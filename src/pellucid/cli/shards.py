"""A folder of shards, translated by as many processes as are started: each takes what nobody has done or is doing."""

import contextlib
import signal
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from itertools import islice
from types import FrameType
from typing import TextIO

from pellucid.cli.lines import LINES_AT_ONCE
from pellucid.cli.remarks import WHAT, Result
from pellucid.data.claims import holder, share_out
from pellucid.errors import DataError
from pellucid.language import so_many
from pellucid.runs.decoder import Route
from pellucid.runs.shard_folder import ShardFolder
from pellucid.runs.texts import CutWarning
from pellucid.train.journal import Reporter, duration

_TOLD = 5  # shards that are named


class Shards:
    """The shards of a folder, as far as this process does them, and what it tells of that.

    Args:
        route: gives what decodes, for the records.
    """

    def __init__(self, folder: ShardFolder, route: Callable[[], Route]) -> None:
        self._folder, self._route, self._reporter = folder, cache(route), Reporter()
        self.say, self.renew = self._reporter.say, self._reporter.progress
        self._failed: dict[str, DataError] = {}
        self._did, self._all_of_it = 0, Counter[str]()
        self._begun, self._done = time.monotonic(), folder.done()
        self._there = self._bytes_done()  # when this process began
        self._name, self._lines, self._line, self._of_it = "", 0, 0, Counter[str]()  # of the shard at hand

    def note(self, first: int, results: Sequence[Result]) -> None:
        """Counts what is to be said of results."""
        self._of_it.update(cut=sum(one.cut > 0 for one in results), unknown=sum(bool(one.unknown) for one in results))

    def progress(self, done: int) -> None:
        """Tells how far it is, with so many lines of a block done."""
        if self._reporter.live:
            share = (self._line + done) / max(1, self._lines)
            self._reporter.progress(f"{self._how_far(share)}; {self._name}: {share:.0%}")

    def answer(self, answers: Callable[[list[str], int], Iterable[str]]) -> None:
        """Answers the lines of all shards that are left, and says at the end what was done.

        Raises:
            DataError: some shards cannot be read; all others have been done.
            OutputError: an output cannot be written.
            SystemExit: a SIGTERM came.
        """

        def fill(lines: Iterator[str], count: int, file: TextIO) -> dict[str, object]:
            self._lines, self._line = count, 0
            while block := list(islice(lines, LINES_AT_ONCE)):
                self.progress(0)
                for line in answers(block, self._line):
                    print(line, file=file)
                self._line += len(block)
            return {**self._of_it, "decoder": self._route().decoder, "precision": self._route().precision}

        def do(name: str) -> None:
            self._name, self._of_it, began = name, Counter(cut=0, unknown=0), time.monotonic()
            self._done = self._folder.done()
            with self._failures(name):
                record = self._folder.make(name, fill)
                self._did += 1
                self._all_of_it += self._of_it
                self._done = self._folder.done()
                if not self._reporter.live:
                    self.say(f"{name}: {record['lines']:,} lines in {duration(time.monotonic() - began)}; "
                             f"{self._how_far(0.0)}")

        def is_done(name: str) -> bool:
            with self._failures(name):
                return self._folder.is_done(name)
            return True  # as far as it will ever be

        with _stopped_by_sigterm(), self._reporter, warnings.catch_warnings():
            warnings.simplefilter("ignore", CutWarning)  # `note` counts them
            busy = share_out(self._folder.names, self._folder.claims, is_done, do)
            busy = [name for name in busy if not is_done(name)]  # by now
        self._conclude(busy)

    @contextlib.contextmanager
    def _failures(self, name: str) -> Iterator[None]:
        """Notes that this shard cannot be read."""
        try:
            yield
        except DataError as error:
            if name not in self._failed:
                self._failed[name] = error
                self.say(f"{name} is left out: {error.what} ({error.where})")

    def _conclude(self, busy: Sequence[str]) -> None:
        """What was done, and what was not."""
        total, done = len(self._folder.names), len(self._folder.names) - len(busy) - len(self._failed)
        self.say(f"{done:,} of {total:,} shards are done, {self._did:,} of them by this process, in "
                 f"{duration(time.monotonic() - self._begun)}")
        for kind, count in self._all_of_it.items():
            self.say(f"{so_many(count, 'line')} {'was' if count == 1 else 'were'} {WHAT[kind]}; .pellucid/records says "
                     "in which shards")
        if busy:
            others = _listed([f"{name} ({holder(self._folder.claims / name)})" for name in busy])
            self.say(f"others are at work on {others}; should one of them die, the same command does what it leaves")
        if self._failed:
            line = "\n         "
            errors = [f"{error.where}: {error.what}" for error in self._failed.values()]
            raise DataError(f"left out: {len(self._failed):,} of {total:,} shards",
                            why=f"these cannot be read, or were changed:{line}{_listed(errors, line)}",
                            fix="mend them, and run the same command again: it does no other")

    def _how_far(self, share: float) -> str:
        """How many shards are done, and how long the others will take; of the one at hand, this share is done, too."""
        sizes = self._folder.sizes
        now = self._bytes_done() + share * sizes.get(self._name, 0)
        left = sum(sizes.values()) - now - sum(sizes[name] for name in self._failed)
        speed = (now - self._there) / (time.monotonic() - self._begun)
        words = f"{len(self._done):,} of {len(sizes):,} shards done"
        return words + (f", about {duration(left / speed)} left" if speed > 0 and left > 0 else "")

    def _bytes_done(self) -> int:
        return sum(self._folder.sizes[name] for name in self._done)


def _listed(parts: Sequence[str], between: str = ", ") -> str:
    return between.join([*parts[:_TOLD], *([f"and {len(parts) - _TOLD:,} more"] if len(parts) > _TOLD else [])])


@contextlib.contextmanager
def _stopped_by_sigterm() -> Iterator[None]:
    """SIGTERM ends the process as Ctrl-C does: what is unfinished goes, and what is finished stays."""

    def stop(number: int, frame: FrameType | None) -> None:
        signal.signal(number, signal.SIG_IGN)  # schedulers send it twice
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    except SystemExit:
        print("pellucid: stopped; the same command goes on", file=sys.stderr)
        raise
    finally:
        signal.signal(signal.SIGTERM, before)
