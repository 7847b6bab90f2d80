"""A few threads beside the event loop decode; texts that wait for the same run and options join one batch.

Each thread takes its share of what waits, and searches on one processor: none waits for another, and while one is
between two batches the others decode. A batch is some 50 ms of predicted work (`BATCH_SECONDS`), or eight texts where
those take longer, up to half a second. So nothing in the kernels need know of cancelling, fairness or draining: between
two batches a request that has gone, or is late, is left out, and each that waits gives one text in its turn, however
many it has. Who would wait too long, as is predicted, is refused at once (`Busy`): by those turns, so that a request of
many texts is no reason to refuse one of few; and before anything of its request is done.
"""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from pellucid.kernels.compiled import find_library
from pellucid.runs.candidates import Generated
from pellucid.serve.load import Load
from pellucid.serve.tasks import Ask, Part, Task, outcomes, settle, tell

BATCH_SECONDS = 0.05
_LEAST_TEXTS = 8  # of a batch, if there are as many: that takes little longer than one, and tells what many take
_LONG_SECONDS = 0.5  # from which on it does not, and others would wait
_ALONE_SECONDS = 0.1  # predicted of work that is done by itself, before there was any
_LATEST = 0.25  # what the latest of it counts for

Result = TypeVar("Result")


class Busy(Exception):
    """Too much waits already.

    Attributes:
        retry_after: whole seconds until it is predicted to be done.
    """

    def __init__(self, seconds: float) -> None:
        super().__init__(f"busy for {seconds:.1f} seconds")
        self.retry_after = max(1, math.ceil(seconds))


class Late(Exception):
    """The deadline came before the answer."""


class Scheduler:
    """The threads that decode, and what waits for them.

    Args:
        most_seconds: of predicted work that may be done before a request.
        most_tasks: requests that may wait.
        threads: that decode; one more than there are processors, if left out.

    Attributes:
        batches, texts: how many were decoded.
        seconds: that the threads have worked, added up.
    """

    def __init__(self, most_seconds: float, most_tasks: int = 4096, threads: int | None = None) -> None:
        self.most_seconds, self.most_tasks = most_seconds, most_tasks
        self._library = find_library()
        threads = threads or 1 + (1 if isinstance(self._library, str) else self._library.most_threads)
        self.batches = self.texts = 0
        self.seconds = 0.0
        self._waiting: deque[Task] = deque()
        self._load = Load(threads)
        self._alone, self._alone_seconds = 0, _ALONE_SECONDS
        self._changed = threading.Condition(threading.Lock())
        self._is_closing = self._is_working_alone = False
        self._threads = [threading.Thread(target=self._work, name=f"decoding {number}", daemon=True)
                         for number in range(threads)]

    def start(self) -> None:
        """Begins to decode."""
        for thread in self._threads:
            thread.start()

    def close(self, at_once: bool = False) -> None:
        """Decodes what waits, and ends; or leaves it as it is."""
        with self._changed:
            self._is_closing = True
            self._changed.notify_all()
        for thread in () if at_once else self._threads:
            thread.join()

    @property
    def waiting(self) -> int:
        """Requests of which something waits."""
        return len(self._waiting)

    @property
    def predicted(self) -> float:
        """Seconds until what waits is done."""
        return self._load.seconds + self._alone * self._alone_seconds

    def require_room(self) -> None:
        """Raises Busy where `generate` would for a single text."""
        self._require_room(1)

    def _require_room(self, texts: int, has_begun: bool = False) -> None:
        # not held: a look at what changes costs nobody a wait
        ahead = self._load.seconds_before(texts) + self._alone * self._alone_seconds
        is_full = ahead > self.most_seconds or len(self._waiting) >= self.most_tasks
        if self._is_closing or (is_full and not has_begun):
            raise Busy(ahead)

    async def generate(self, ask: Ask, texts: Sequence[str], deadline: float,
                       prefixes: Sequence[str] = (), has_begun: bool = False) -> list[Generated]:
        """What `Run.generate` gives for these texts.

        Args:
            deadline: on the clock of `time.monotonic`.
            has_begun: they are of a request for which something was done already, which is not refused any more.

        Raises:
            Busy: too much waits.  Late: the deadline came first.
            Whatever `Run.generate` raises for one of them.
        """
        if not texts:
            return []
        found: list[Generated] = await self._enter(Task(_future(), ask, texts, prefixes), deadline, has_begun)
        return found

    async def alone(self, work: Callable[[], Result], deadline: float, has_begun: bool = False) -> Result:
        """What `work` gives, called on a thread that decodes, one such work at a time. Raises as `generate` does."""
        found: Result = await self._enter(Task(_future(), None, work=work), deadline, has_begun)
        return found

    async def _enter(self, task: Task, deadline: float, has_begun: bool) -> Any:
        with self._changed:
            self._require_room(max(1, len(task.texts)), has_begun)
            self._count(task, range(len(task.texts)), 1)
            self._count_turn(task, 1)
            self._waiting.append(task)
            self._changed.notify()
        alarm = task.done.get_loop().call_later(max(0.0, deadline - time.monotonic()), settle, [(task, None, Late())])
        try:
            return await task.done
        finally:
            alarm.cancel()
            self._leave(task)

    def _leave(self, task: Task) -> None:
        """Takes away what still waits of a task."""
        if task.ask is not None and task.taken == len(task.texts):
            return  # as of every request that is answered
        with self._changed:
            if task in self._waiting:
                self._waiting.remove(task)
                self._count(task, range(task.taken, len(task.texts)), -1)
                self._count_turn(task, -1)

    def _count(self, task: Task, places: range, sign: int) -> None:
        """Adds some texts of a task, or its work, to what waits or is under way, or takes them away."""
        if task.ask is None:
            self._alone += sign
        else:
            self._load.add(task.ask, sign * sum(map(task.cost, places)))

    def _count_turn(self, task: Task, sign: int) -> None:
        """A task with texts waits (1), or waits no more (-1)."""
        if task.ask is not None:
            self._load.add_turn(task.ask, sign * task.turn)

    def _work(self) -> None:
        if not isinstance(self._library, str):
            self._library.use_threads(1)
        while (parts := self._next()) is not None:
            begun, ask = time.perf_counter(), parts[0][0].ask
            over = outcomes(ask, parts)
            self._note(ask, parts, time.perf_counter() - begun)  # before: who has an answer weighs on nobody
            tell(over)

    def _next(self) -> list[Part] | None:
        """The next batch, as soon as there is one; None at the end."""
        with self._changed:
            while not (parts := self._take()):
                if self._is_closing and not self._waiting:
                    return None
                self._changed.wait()
            if self._waiting:
                self._changed.notify()  # of a request of many texts this is only a share
            return parts

    def _take(self) -> list[Part]:
        """The next batch, which may be empty; a task that has no texts is one by itself."""
        first = next((task for task in self._waiting if task.ask is not None or not self._is_working_alone), None)
        if first is None:
            return []
        ask = first.ask
        if ask is None:
            self._waiting.remove(first)
            self._is_working_alone = True
            return [(first, 0)]
        room, share = BATCH_SECONDS / self._load.rate(ask.kind), self._load.share(ask)
        least = room - _LONG_SECONDS / self._load.rate(ask.kind)  # below 0
        parts: list[Part] = []
        others: list[Task] = []
        again: deque[Task] = deque()  # they have had their turn, and have more
        while share > 0 and (room > (least if len(parts) < _LEAST_TEXTS else 0)) and (self._waiting or again):
            if not self._waiting:
                self._waiting, again = again, self._waiting
            task = self._waiting.popleft()
            if task.ask != ask or (ask.options.sample and parts and parts[0][0] is not task):
                others.append(task)  # what is drawn goes by its number among the texts of its request
                continue
            parts.append((task, task.taken))
            cost = task.cost(task.taken)
            room, share = room - cost, share - cost
            task.taken += 1
            if task.taken < len(task.texts):
                again.append(task)
            else:
                self._count_turn(task, -1)
        self._waiting.extendleft(reversed(others))
        self._waiting.extend(again)
        return parts

    def _note(self, ask: Ask | None, parts: Sequence[Part], seconds: float) -> None:
        """Learns from a batch how long a character takes, or what is done by itself."""
        with self._changed:
            self.seconds += seconds
            for task, place in parts:
                self._count(task, range(place, place + 1), -1)
            if ask is None:
                self._is_working_alone = False
                self._alone_seconds += _LATEST * (seconds - self._alone_seconds)
                self._changed.notify_all()
                return
            self._load.note(ask, sum(task.cost(place) for task, place in parts), seconds)
            self.batches, self.texts = self.batches + 1, self.texts + len(parts)


def _future() -> asyncio.Future[Any]:
    return asyncio.get_running_loop().create_future()
