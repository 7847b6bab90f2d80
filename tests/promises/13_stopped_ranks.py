"""Promise 13: ranks that are asked to stop save once and go, and one that hangs takes nobody with it for long.

    python tests/promises/13_stopped_ranks.py [--count 10] [--ranks 2] [--json FILE]

In turn: SIGTERM to torchrun, to one rank, to all ranks, and to all of them twice; what was learned must be saved once,
within five seconds, by a run that says so once, and no process be left. Then a rank that is halted (SIGSTOP): all must
have ended within `train.timeout` and the 30 seconds that torchrun gives its ranks, and no process be left.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from ranks import arguments_of, await_checkpoint, children, close, train_with

WORDS = ["train", "copy", "--train.epochs", "null", "--train.steps", "100000", "--train.accumulate", "12",
         "--train.batch_sentences", "8", "--train.validate_every", "50", "--model.dropout", "0.1"]
TIMEOUT, TORCHRUN, SAVED = 10.0, 30.0, 5.0  # seconds


def at_work(ranks: int, out: Path) -> tuple[subprocess.Popen[bytes], list[int]]:
    """A training in the middle, and its ranks."""
    process = train_with(ranks, [*WORDS, "--train.timeout", str(TIMEOUT)], out)
    await_checkpoint(process, out)
    return process, children(process.pid)


def stop(case: str, process: subprocess.Popen[bytes], ranks: list[int], draw: random.Random) -> None:
    """Sends the signals of a case."""
    chosen = {"torchrun": [process.pid], "one rank": [draw.choice(ranks)]}.get(case, ranks)
    for number in chosen:
        os.kill(number, signal.SIGTERM)
    if case == "all ranks, twice":
        process.terminate()
        time.sleep(0.05)
        for number in ranks:
            with contextlib.suppress(ProcessLookupError):  # has saved and gone already
                os.kill(number, signal.SIGTERM)


def stopped(case: str, ranks: int, out: Path, draw: random.Random) -> dict[str, Any]:
    """What a stop is like."""
    process, there = at_work(ranks, out)
    time.sleep(draw.uniform(0, 1))
    before = {path.name for path in out.glob("checkpoints/step-*")}
    asked, saved = time.monotonic(), None
    stop(case, process, there, draw)
    while process.poll() is None:
        if saved is None and {path.name for path in out.glob("checkpoints/step-*")} - before:
            saved = time.monotonic() - asked
        time.sleep(0.01)
    told = told_by(out)
    return {"case": case, "saved": saved, "ended": time.monotonic() - asked, "code": process.returncode,
            "told": told.count("saved at step"), "codes": told.count("exitcode  : 143"), "left": left(there),
            "good": saved is not None and saved <= SAVED and told.count("saved at step") == 1 and not left(there)}


def halted(ranks: int, out: Path, draw: random.Random) -> dict[str, Any]:
    """What it is like when a rank does not answer any more."""
    process, there = at_work(ranks, out)
    asked = time.monotonic()
    os.kill(draw.choice(there), signal.SIGSTOP)
    process.wait()
    ended = time.monotonic() - asked
    return {"case": "a rank is halted", "ended": ended, "code": process.returncode, "left": left(there),
            "told": told_by(out).count("another rank is gone, or does not answer"),
            "good": ended <= TIMEOUT + TORCHRUN + SAVED and not left(there)}


def told_by(out: Path) -> str:
    """What the ranks in `out` have told."""
    return (out.parent / f"{out.name}.log").read_text(encoding="utf-8")


def left(processes: list[int]) -> list[int]:
    """Which of these are still there."""
    return [number for number in processes if Path(f"/proc/{number}").exists()]


def main() -> int:
    """Prints a line a stop, and the promise's closing line."""
    arguments = arguments_of(__doc__, count=10, ranks=2)
    draw, rows = random.Random(arguments.seed), []
    cases = ["torchrun", "one rank", "all ranks", "all ranks, twice", "halted"]
    with tempfile.TemporaryDirectory() as scratch:
        for number in range(arguments.count):
            case, out = cases[number % len(cases)], Path(scratch) / str(number)
            row = halted(arguments.ranks, out, draw) if case == "halted" else stopped(case, arguments.ranks, out, draw)
            rows.append(row)
            print(", ".join(f"{key} {value:.1f}" if isinstance(value, float) else f"{key} {value}"
                            for key, value in row.items()), flush=True)
    return close(13, sum(row["good"] for row in rows), len(rows), rows, arguments.json)


if __name__ == "__main__":
    raise SystemExit(main())
