"""What waits to be decoded: everybody gets their own, in turn, or is told at once."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from pellucid.config import DecodeConfig
from pellucid.serve.scheduler import Busy, Late, Scheduler
from pellucid.serve.tasks import Ask, Task

OPTIONS = DecodeConfig()


@dataclass(eq=False)
class Echo:
    """Stands for a run: says what it is told, and remembers its batches.

    Attributes:
        goes: cleared, it waits in the middle of a batch.
    """

    batches: list[list[str]] = field(default_factory=list)
    goes: threading.Event = field(default_factory=threading.Event)

    def generate(self, texts: Sequence[str], **told: Any) -> list[str]:
        self.batches.append(list(texts))
        assert self.goes.wait(10)
        if "poison" in texts:
            raise ValueError("poison")
        return [f"{told['first'] + place if told['options'].sample else ''}{text}" for place, text in enumerate(texts)]


@dataclass(eq=False)
class Together(Echo):
    """Its batches end only where three threads have one each."""

    everybody: threading.Barrier = field(default_factory=lambda: threading.Barrier(3, timeout=10))

    def generate(self, texts: Sequence[str], **told: Any) -> list[str]:
        self.everybody.wait()
        return super().generate(texts, **told)


@pytest.fixture
def echo() -> Echo:
    found = Echo()
    found.goes.set()
    return found


@pytest.fixture
def scheduler() -> Iterator[Scheduler]:
    """With one thread, so that batches have an order."""
    made = Scheduler(5.0, threads=1)
    made.start()
    yield made
    made.close()


def ask(run: Any, sample: bool = False, min_length: int = 0) -> Ask:
    return Ask(run, DecodeConfig(sample=sample, min_length=min_length, max_length=1024))


def soon() -> float:
    return time.monotonic() + 30


async def held(scheduler: Scheduler, echo: Echo) -> asyncio.Future[Any]:
    """A request in the middle of its batch."""
    echo.goes.clear()
    first = asyncio.ensure_future(scheduler.generate(ask(echo), ["held"], soon()))
    while not echo.batches:
        await asyncio.sleep(0.001)
    return first


def test_each_gets_what_it_asked_for(scheduler: Scheduler, echo: Echo) -> None:
    asked = [[f"{number} {place}" for place in range(number % 7)] for number in range(60)]

    async def all_of_them() -> list[Any]:
        return await asyncio.gather(*(scheduler.generate(ask(echo), texts, soon()) for texts in asked))

    assert asyncio.run(all_of_them()) == asked
    assert scheduler.waiting == 0
    assert scheduler.predicted == 0
    assert sorted(text for batch in echo.batches for text in batch) == sorted(text for texts in asked for text in texts)


def test_a_long_request_lets_others_have_their_turn(scheduler: Scheduler, echo: Echo) -> None:
    async def both() -> None:
        first = await held(scheduler, echo)
        texts = [f"long {n} " + "x" * 80 for n in range(200)]
        long = asyncio.ensure_future(scheduler.generate(ask(echo), texts, soon()))
        await asyncio.sleep(0)
        short = asyncio.ensure_future(scheduler.generate(ask(echo), ["short"], soon()))
        await asyncio.sleep(0)
        echo.goes.set()
        await asyncio.gather(first, long, short)

    asyncio.run(both())
    assert "short" in echo.batches[1]  # with the first of the long one's texts
    assert sum(len(batch) for batch in echo.batches) == 202


class Counted(threading.Condition):
    """One that knows how many threads sleep."""

    sleeping = 0  # changed by who holds the lock

    def wait(self, timeout: float | None = None) -> bool:
        self.sleeping += 1
        try:
            return super().wait(timeout)
        finally:
            self.sleeping -= 1


def test_a_request_of_many_texts_is_shared_out_among_all_threads() -> None:
    scheduler, together, texts = Scheduler(5.0, threads=3), Together(), [f"text {n:02}" for n in range(30)]
    scheduler._changed = sleep = Counted()
    together.goes.set()
    scheduler.start()
    while sleep.sleeping < 3:
        time.sleep(0.001)
    try:
        assert asyncio.run(scheduler.generate(ask(together), texts, soon())) == texts
    finally:
        scheduler.close()
    assert [len(batch) for batch in together.batches] == [10] * 3


def test_other_options_are_another_batch_and_samples_are_numbered_in_their_request(scheduler: Scheduler,
                                                                                   echo: Echo) -> None:
    async def all_of_them() -> list[Any]:
        first = await held(scheduler, echo)
        asked = [asyncio.ensure_future(scheduler.generate(ask(echo, sample), ["a", "b"], soon()))
                 for sample in (False, True, True)]
        await asyncio.sleep(0)
        echo.goes.set()
        await first
        return await asyncio.gather(*asked)

    assert asyncio.run(all_of_them()) == [["a", "b"], ["0a", "1b"], ["0a", "1b"]]
    assert echo.batches[1:] == [["a", "b"], ["a", "b"], ["a", "b"]]


def test_a_text_that_fails_fails_alone(scheduler: Scheduler, echo: Echo) -> None:
    async def three() -> list[Any]:
        first = await held(scheduler, echo)
        asked = [asyncio.ensure_future(scheduler.generate(ask(echo), texts, soon()))
                 for texts in (["a"], ["b", "poison", "c"], ["d"])]
        await asyncio.sleep(0)
        echo.goes.set()
        await first
        return await asyncio.gather(*asked, return_exceptions=True)

    good, bad, other = asyncio.run(three())
    assert (good, other) == (["a"], ["d"])
    assert isinstance(bad, ValueError)
    assert scheduler.waiting == 0
    assert scheduler.predicted == 0


def test_who_goes_takes_nothing_of_the_others_time(scheduler: Scheduler, echo: Echo) -> None:
    async def leave() -> None:
        first = await held(scheduler, echo)
        gone = [asyncio.ensure_future(scheduler.generate(ask(echo), ["gone"] * 9, soon())) for _ in range(20)]
        stays = asyncio.ensure_future(scheduler.generate(ask(echo), ["stays"], soon()))
        await asyncio.sleep(0)
        assert scheduler.waiting == 21
        for task in gone:
            task.cancel()
        await asyncio.gather(*gone, return_exceptions=True)
        assert scheduler.waiting == 1
        echo.goes.set()
        assert await stays == ["stays"]
        await first

    asyncio.run(leave())
    assert echo.batches == [["held"], ["stays"]]


def test_what_is_late_is_told_so_and_is_not_decoded(scheduler: Scheduler, echo: Echo) -> None:
    async def late() -> None:
        first = await held(scheduler, echo)
        with pytest.raises(Late):
            await scheduler.generate(ask(echo), ["late"], time.monotonic() + 0.01)
        echo.goes.set()
        await first

    asyncio.run(late())
    assert echo.batches == [["held"]]


def test_what_is_too_much_is_refused_at_once(echo: Echo) -> None:
    scheduler = Scheduler(1.0, most_tasks=3, threads=1)  # it has not begun: nothing is taken away

    async def ask_much() -> None:
        waits = [asyncio.ensure_future(scheduler.generate(ask(echo), ["x" * 30_000], soon()))]  # 1.5 s by a first guess
        await asyncio.sleep(0)
        with pytest.raises(Busy) as refused:
            await scheduler.generate(ask(echo), ["a"], soon())
        assert refused.value.retry_after == 2
        with pytest.raises(Busy):
            scheduler.require_room()
        waits[0].cancel()
        await asyncio.gather(*waits, return_exceptions=True)
        waits = [asyncio.ensure_future(scheduler.generate(ask(echo), ["a"], soon())) for _ in range(3)]
        await asyncio.sleep(0)
        with pytest.raises(Busy):
            await scheduler.generate(ask(echo), ["a"], soon())
        for task in waits:
            task.cancel()
        await asyncio.gather(*waits, return_exceptions=True)
        scheduler.require_room()

    asyncio.run(ask_much())
    assert scheduler.waiting == 0


def test_who_has_gone_is_no_reason_to_refuse_others(echo: Echo) -> None:
    scheduler = Scheduler(1.0, threads=1)  # it has not begun

    async def ask_much() -> None:
        text = "x" * 984  # 50 ms by a first guess
        gone = [asyncio.ensure_future(scheduler.generate(ask(echo), [text], soon())) for _ in range(20)]
        await asyncio.sleep(0)
        for task in gone:
            task.cancel()
        await asyncio.gather(*gone, return_exceptions=True)
        stays = asyncio.ensure_future(scheduler.generate(ask(echo), [text] * 100, soon()))
        await asyncio.sleep(0)
        scheduler.require_room()
        stays.cancel()
        await asyncio.gather(stays, return_exceptions=True)

    asyncio.run(ask_much())


def test_work_by_itself_is_waited_for_only_so_long() -> None:
    scheduler = Scheduler(0.95, threads=1)  # it has not begun

    async def ask_much() -> None:
        waits = [asyncio.ensure_future(scheduler.alone(lambda: None, soon())) for _ in range(10)]  # 0.1 s by a guess
        await asyncio.sleep(0)
        assert scheduler.predicted == pytest.approx(1.0)
        with pytest.raises(Busy):
            scheduler.require_room()
        waits.pop().cancel()
        await asyncio.sleep(0)
        scheduler.require_room()
        for task in waits:
            task.cancel()
        await asyncio.gather(*waits, return_exceptions=True)

    asyncio.run(ask_much())
    assert scheduler.predicted == 0


def test_work_by_itself_is_done_one_at_a_time(echo: Echo) -> None:
    scheduler, at_once, most = Scheduler(60.0, threads=3), [0], [0]
    scheduler.start()

    def work() -> int:
        at_once[0] += 1
        most[0] = max(most[0], at_once[0])
        time.sleep(0.005)
        at_once[0] -= 1
        return 7

    async def all_of_them() -> list[int]:
        return await asyncio.gather(*(scheduler.alone(work, soon()) for _ in range(12)))

    try:
        assert asyncio.run(all_of_them()) == [7] * 12
    finally:
        scheduler.close()
    assert most == [1]


def test_how_long_work_done_alone_takes_is_learned(scheduler: Scheduler) -> None:
    async def some_of_it() -> float:
        for _ in range(6):
            await scheduler.alone(lambda: time.sleep(0.5), soon())
        waiting = [asyncio.ensure_future(scheduler.alone(lambda: time.sleep(0.1), soon())) for _ in range(4)]
        await asyncio.sleep(0)
        predicted = scheduler.predicted
        await asyncio.gather(*waiting)
        return predicted

    assert asyncio.run(some_of_it()) > 4 * 0.3  # at first 0.1 s are assumed of each


def test_what_waits_is_decoded_before_the_end_and_nothing_enters_after_it(echo: Echo) -> None:
    scheduler = Scheduler(5.0, threads=2)

    async def close() -> list[str]:
        waits = asyncio.ensure_future(scheduler.generate(ask(echo), ["a", "b"], soon()))
        await asyncio.sleep(0)
        scheduler.start()
        await asyncio.to_thread(scheduler.close)
        with pytest.raises(Busy):
            await scheduler.generate(ask(echo), ["c"], soon())
        found: list[str] = await waits
        return found

    assert asyncio.run(close()) == ["a", "b"]
    assert not any(thread.is_alive() for thread in scheduler._threads)


def test_a_run_that_nobody_asks_any_more_is_let_go(scheduler: Scheduler) -> None:
    echo = Echo()
    echo.goes.set()
    asyncio.run(scheduler.generate(ask(echo), ["a"], soon()))
    there = weakref.ref(echo)
    del echo
    asyncio.run(scheduler.alone(lambda: None, soon()))  # what the thread held before is let go
    gc.collect()
    assert there() is None


def test_a_text_costs_its_characters_and_its_prefix() -> None:
    loop = asyncio.new_event_loop()
    task = Task(loop.create_future(), None, ["abc", ""], ["de", ""])
    loop.close()
    assert (task.cost(0), task.cost(1)) == (21, 16)


def test_a_text_costs_the_least_length_that_is_asked_for() -> None:
    loop = asyncio.new_event_loop()
    task = Task(loop.create_future(), ask(Echo(), min_length=100), ["abc", "x" * 1000])
    loop.close()
    assert [task.cost(0), task.cost(1)] == [16 + 400, 16 + 1000]


def test_a_batch_of_texts_that_take_long_has_few(scheduler: Scheduler, echo: Echo) -> None:
    long = ask(echo, min_length=1000)

    async def both() -> None:
        echo.goes.clear()
        first = asyncio.ensure_future(scheduler.generate(long, [f"long {n}" for n in range(24)], soon()))
        while not echo.batches:
            await asyncio.sleep(0.001)
        short = asyncio.ensure_future(scheduler.generate(ask(echo), ["short"], soon()))
        await asyncio.sleep(0)
        echo.goes.set()
        await asyncio.gather(first, short)

    asyncio.run(both())
    assert len(echo.batches[0]) < 4
    assert ["short"] in echo.batches[:3]


def test_a_request_of_many_texts_is_no_reason_to_refuse_one_of_few(echo: Echo) -> None:
    scheduler = Scheduler(1.0, threads=1)  # it has not begun

    async def ask_much() -> None:
        texts = ["x" * 984] * 100  # 50 ms each by a first guess, 5 s together
        waits = [asyncio.ensure_future(scheduler.generate(ask(echo), texts, soon()))]
        await asyncio.sleep(0)
        assert scheduler.predicted == pytest.approx(5.0)
        with pytest.raises(Busy):
            await scheduler.generate(ask(echo), ["x"] * 30, soon())  # its thirtieth has to wait for thirty of those
        waits += [asyncio.ensure_future(scheduler.generate(ask(echo), ["x"] * 20, soon())),
                  asyncio.ensure_future(scheduler.generate(ask(echo), ["x"], soon()))]
        await asyncio.sleep(0)
        assert scheduler.waiting == 3
        for task in waits:
            task.cancel()
        await asyncio.gather(*waits, return_exceptions=True)

    asyncio.run(ask_much())
    assert scheduler.predicted == 0
    scheduler.require_room()
