"""How a training is asked to stop, and what it says when it has."""

import contextlib
import signal
from collections.abc import Iterator
from threading import current_thread, main_thread
from types import FrameType

from pellucid.train.world import ALONE, World


class Interrupted(Exception):
    """The run was asked to stop, has saved, and can be resumed."""

    def __init__(self, number: int, step: int) -> None:
        super().__init__(f"stopped by {signal.Signals(number).name}")
        self.number, self.step = number, step


@contextlib.contextmanager
def stop_on_signals(world: World = ALONE) -> Iterator[list[int]]:
    """Collects SIGINT and SIGTERM, so that the loop can save and stop. A second one ends the process at once, if it is
    alone: one of several ranks hears of the same stop from torchrun, and from whoever has started that. Python tells
    signals to the main thread alone: elsewhere there are none."""
    received: list[int] = []

    def on_signal(number: int, frame: FrameType | None) -> None:
        received.append(number)
        if world.size == 1:
            signal.signal(number, signal.SIG_DFL)

    heard = (signal.SIGINT, signal.SIGTERM) if current_thread() is main_thread() else ()
    before = {number: signal.signal(number, on_signal) for number in heard}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
