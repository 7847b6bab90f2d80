"""Systems in processes of their own, driven by lines: "run" in, one JSON object a line out. Imports no torch, so that a
process's memory is that of its system."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO


@dataclass
class Runner:
    """A system in its process, ready for a repetition."""

    system: str
    setting: str
    process: subprocess.Popen[str]
    about: dict[str, Any]
    runs: list[dict[str, Any]]

    def run(self) -> None:
        """One repetition."""
        assert self.process.stdin is not None
        self.process.stdin.write("run\n")
        self.process.stdin.flush()
        self.runs.append(self.answer())

    def answer(self) -> dict[str, Any]:
        """The next line that the process writes.

        Raises:
            RuntimeError: it ended.
        """
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.system} ({self.setting}) ended")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def stop(self) -> None:
        """Ends the process."""
        self.process.kill()
        self.process.wait()


def start(module: str, system: str, setting: str, arguments: list[str], log: Path, python: str | None) -> Runner:
    """Starts a system (`python -m MODULE SYSTEM SETTING ARGUMENTS`) and waits for the first thing it says.

    Args:
        log: where its standard error goes.
        python: an interpreter in place of this one.
    """
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(
        filter(None, [str(Path(__file__).parent.parent), os.environ.get("PYTHONPATH")]))}
    with log.open("w") as errors:
        process = subprocess.Popen([python or sys.executable, "-m", module, system, setting, *arguments], text=True,
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, env=environment)
    runner = Runner(system, setting, process, {}, [])
    runner.about = runner.answer()
    return runner


def interleave(runners: list[Runner], repeat: int, report: Callable[[int], None]) -> None:
    """`repeat` repetitions of every system, each time beginning with another one.

    Args:
        report: called with the number of repetitions done.
    """
    for number in range(repeat):
        for runner in runners[number % len(runners):] + runners[: number % len(runners)]:
            runner.run()
        report(number + 1)


def answers() -> TextIO:
    """The stream for this process's JSON lines; whatever else is printed goes to standard error from here on."""
    stream = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    return stream


def peak_memory() -> int:
    """The peak resident set of this process, in bytes."""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))


def say(line: str) -> None:
    """To standard error, at once."""
    print(line, file=sys.stderr, flush=True)
