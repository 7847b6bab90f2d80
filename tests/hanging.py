"""A test that hangs fails, and tells where it stood, and where the processes stand that were forked from it.

pyproject.toml's `faulthandler_timeout` ends the whole process, later, where a test hangs so that Python never runs.
"""

from __future__ import annotations

import faulthandler
import os
import re
import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

SECONDS = 600.0  # far longer than any test takes
_LOOK = 1.0  # seconds for a forked process to write down where it stands
_RUNNERS = "/(_pytest|pluggy|xdist|execnet)/|<string>"  # whose frames are in every stack
_TOLD, _PLACE = tempfile.mkstemp()  # a file without a name, for as long as the process lives
Path(_PLACE).unlink()
faulthandler.register(signal.SIGUSR2, _TOLD, all_threads=True)  # so it is in whatever is forked from here


@contextmanager
def noticed(seconds: float = SECONDS) -> Iterator[None]:
    """What lasts longer than so many seconds fails where it stands; whatever was forked meanwhile is ended, else a
    process would be left that keeps the pipe to xdist open, which then waits for ever."""
    def interrupt(*given: Any) -> None:
        forked = _forked()
        os.ftruncate(_TOLD, 0)  # of an earlier test
        os.lseek(_TOLD, 0, os.SEEK_SET)
        for process in forked:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGUSR2)
                time.sleep(_LOOK)
                os.kill(process, signal.SIGKILL)
        lines = os.pread(_TOLD, os.fstat(_TOLD).st_size, 0).decode().splitlines()
        told = "\n".join(line for line in lines if not re.search(_RUNNERS, line))
        pytest.fail(f"hangs: not done in {seconds:g} s; processes forked from it: {forked}\n{told}")

    before = signal.signal(signal.SIGALRM, interrupt)
    left, _ = signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, left)
        signal.signal(signal.SIGALRM, before)


def _forked() -> list[int]:
    """Processes that descend from this one and run its program."""
    parents: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
    found, ours = [os.getpid()], _program(os.getpid())
    for process in found:
        found += [child for child, parent in parents.items() if parent == process and _program(child) == ours]
    return found[1:]


def _program(process: int) -> bytes:
    with suppress(OSError):
        return Path(f"/proc/{process}/cmdline").read_bytes()
    return b""
