"""How much of the processors other processes take while something is timed here, where the system (Linux) tells it."""

import contextlib
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

BUSY = 0.1  # a share of the processors that is worth a word
_IDLE = (3, 4)  # of the numbers of a processor's line in /proc/stat: idle, and waiting for a disk


@dataclass
class Others:
    """The share of this process's processors that others had, from 0 to 1; None where nobody tells."""

    share: float | None = None


@contextlib.contextmanager
def watched(at_least: float = 0.0) -> Iterator[Others]:
    """What others have while this lasts, which is so many seconds at least; processes that were started within have to
    be waited for within."""
    others = Others()
    before, ours, begun = spent_by_all(), spent_here(), time.monotonic()
    yield others
    time.sleep(max(0.0, begun + at_least - time.monotonic()) if at_least else 0.0)
    after, elapsed = spent_by_all(), time.monotonic() - begun
    if before is not None and after is not None and elapsed > 0:
        share = (after - before - (spent_here() - ours)) / (elapsed * len(os.sched_getaffinity(0)))
        others.share = min(1.0, max(0.0, share))


def spent_by_all() -> float | None:
    """Seconds that the processors which this process may use have worked, whoever for; None where nobody tells."""
    try:
        mine = {f"cpu{number}" for number in os.sched_getaffinity(0)}
        lines = [line.split() for line in Path("/proc/stat").read_text(encoding="ascii").splitlines()]
        spent = [sum(int(number) for place, number in enumerate(words[1:9]) if place not in _IDLE)
                 for words in lines if words and words[0] in mine]
        return sum(spent) / os.sysconf("SC_CLK_TCK") if len(spent) == len(mine) else None
    except (AttributeError, OSError, ValueError):
        return None


def spent_here() -> float:
    """Seconds of processors that this process has had, and those it has started and waited for."""
    return sum(os.times()[:4])
