"""Systems in processes of their own, driven by lines: "run" in, one JSON object a line out. Imports no torch, so that a
process's memory is that of its system."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

System = tuple[str, str]  # its name and its setting
Chosen = list[list[System]]  # by each name that was given
_EVERY = 0.1  # seconds between two looks at a process


@dataclass
class Runner:
    """A system in its process, ready for a repetition; `log` has what it says on standard error."""

    system: str
    setting: str
    process: subprocess.Popen[str]
    log: Path
    about: dict[str, Any]
    runs: list[dict[str, Any]]

    def __str__(self) -> str:
        return f"{self.system} ({self.setting})"

    def run(self) -> None:
        """One repetition; errors as in `answer`."""
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it has ended, and `answer` tells how
            self.process.stdin.write("run\n")
            self.process.stdin.flush()
        self.runs.append(self.answer())

    def answer(self) -> dict[str, Any]:
        """The next line that the process writes.

        Raises:
            RuntimeError: it ended; with how, and what it said last.
        """
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line.endswith("\n"):
            raise RuntimeError(f"{self} {ending(self.process.wait(), self.log.read_text(errors='replace'))}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def stop(self) -> None:
        """Ends the process."""
        self.process.kill()
        with contextlib.suppress(BrokenPipeError):  # what it has not read is lost
            self.process.communicate()


def ending(status: int, said: str) -> str:
    """How a process ended, and the last lines of what it said on standard error."""
    how = f"ended with {status}" if status >= 0 else f"was ended by signal {-status} ({signal.strsignal(-status)})"
    return "\n    ".join([how, *said.strip().splitlines()[-3:]])


def named(systems: list[System], asked_alone: Sequence[System] = ()) -> Callable[[str], list[System]]:
    """The type of `--system`: the system of that name, as it is printed ("ctranslate2: int8 2x1", with a comma or in
    brackets, too), or else all whose names begin so.

    Args:
        asked_alone: further ones, which go by their whole names.
    """
    def find(name: str) -> list[System]:
        words = _words(name)
        found = ([system for system in (*systems, *asked_alone) if _words(": ".join(system)) == words]
                 or [system for system in systems if words and _words(": ".join(system))[:len(words)] == words])
        if not found:
            names = ", ".join(f'"{": ".join(system)}"' for system in (*systems, *asked_alone))
            raise argparse.ArgumentTypeError(f"there is no system {name!r}; there are {names}")
        return found

    return find


def _words(name: str) -> list[str]:
    return re.findall(r"[^\s:,()*]+", name)


def is_chosen(system: System, chosen: Chosen) -> bool:
    """Whether it is among these, or there are none."""
    return not chosen or any(system in some for some in chosen)


def start(module: str, system: str, setting: str, arguments: list[str], folder: Path, python: str | None) -> Runner:
    """Starts a system (`python -m MODULE SYSTEM SETTING ARGUMENTS`) and waits for the first thing it says.

    Args:
        folder: for its log.
        python: an interpreter in place of this one.

    Raises:
        RuntimeError: it ended.
    """
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(
        filter(None, [str(Path(__file__).parent.parent), os.environ.get("PYTHONPATH")]))}
    log = folder / f"{system}, {setting}.log"
    with log.open("w") as errors:
        process = subprocess.Popen([python or sys.executable, "-m", module, system, setting, *arguments], text=True,
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, env=environment)
    runner = Runner(system, setting, process, log, {}, [])
    try:
        runner.about = runner.answer()
    except RuntimeError:
        runner.stop()
        raise
    return runner


def interleave(runners: list[Runner], repeat: int, rate: Callable[[Runner], float]) -> list[Runner]:
    """`repeat` repetitions of every system, each time beginning with another one; then they are ended. One that ends
    by itself is left out, and why is told.

    Args:
        rate: the tokens a second of the last repetition.

    Returns:
        Those that made all repetitions.
    """
    left = list(runners)
    for number in range(repeat):
        first = number % max(len(left), 1)
        for runner in left[first:] + left[:first]:
            try:
                runner.run()
            except RuntimeError as error:
                say(f"  left out: {error}")
                left.remove(runner)
        say(f"  repetition {number + 1} of {repeat}: " + ", ".join(f"{runner} {rate(runner):,.0f}" for runner in left))
    for runner in runners:
        runner.stop()
    return left


def answers() -> TextIO:
    """The stream for this process's JSON lines; whatever else is printed goes to standard error from here on."""
    stream = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    return stream


def peak_memory() -> int:
    """The peak resident set of this process, in bytes, and of each that it has started what it does not share: maxima
    summed, whether or not they met."""
    return _kilobytes("self", "status")["VmHWM"] * 1024 + sum(map(_peak_of_its_own, descendants(os.getpid())))


def _peak_of_its_own(process: int) -> int:
    peak, rollup = _kilobytes(process, "status").get("VmHWM", 0), _kilobytes(process, "smaps_rollup")
    return 1024 * max(0, peak - rollup.get("Shared_Clean", 0) - rollup.get("Shared_Dirty", 0))


def resident(process: int) -> int:
    """Bytes that a process and all that it has started hold in memory now; 0 once it is gone.

    What several of them share counts once: memory by the share that each has of it (PSS), pages of files, which
    programs beside them map as well, as in the one that has most of them.
    """
    family = [process, *descendants(process)]
    shares = [_kilobytes(one, "smaps_rollup") for one in family]
    memory = sum(share.get("Pss_Anon", 0) + share.get("Pss_Shmem", 0) for share in shares)
    return 1024 * (memory + max(_kilobytes(one, "status").get("RssFile", 0) for one in family))


def descendants(process: int) -> list[int]:
    """The processes that one has started, and those that they have."""
    found: list[int] = []
    for path in Path(f"/proc/{process}/task").glob("*/children"):
        with contextlib.suppress(OSError):  # it has ended since
            for child in map(int, path.read_text(encoding="ascii").split()):
                found += [child, *descendants(child)]
    return found


def _kilobytes(process: int | str, file: str) -> dict[str, int]:
    """The sizes that a file of /proc tells of a process; none of one that is gone."""
    try:
        lines = Path(f"/proc/{process}/{file}").read_text(encoding="utf-8").splitlines()
    except OSError:
        return {}
    words = [line.split() for line in lines]
    return {line[0].rstrip(":"): int(line[1]) for line in words if len(line) == 3 and line[2] == "kB"}


def watch(command: list[str]) -> tuple[int, str]:
    """Runs a command: the peak of `resident`, looked at ten times a second, and what it printed.

    Raises:
        RuntimeError: it failed; with the end of what it said.
    """
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        process, peak = subprocess.Popen(command, stdout=output, stderr=errors), 0
        while process.poll() is None:
            peak = max(peak, resident(process.pid))
            time.sleep(_EVERY)
        output.seek(0)
        errors.seek(0)
        if process.returncode:
            raise RuntimeError(f"{' '.join(command)}: {errors.read()[-2000:]}")
        return peak, output.read()


def say(line: str) -> None:
    """To standard error, at once."""
    print(line, file=sys.stderr, flush=True)
