"""Promise 13: ranks that are asked to stop save once and go, and one that hangs takes nobody with it for long.

    python tests/promises/13_stopped_ranks.py [--count 10] [--ranks 2] [--json FILE]

In turn: SIGTERM to torchrun, to one rank, to all ranks, and to all of them twice; what was learned must be saved once,
within five seconds, by a run that says so once, and no process be left. Then a rank that is halted (SIGSTOP): all must
have ended within `train.timeout` and the 30 seconds that torchrun gives its ranks, and no process be left.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from ranks import children, torchrun

WORDS = ["train", "copy", "--train.epochs", "null", "--train.steps", "100000", "--train.accumulate", "12",
         "--train.batch_sentences", "8", "--train.validate_every", "50", "--model.dropout", "0.1"]
TIMEOUT, TORCHRUN, SAVED = 10.0, 30.0, 5.0  # seconds


def at_work(ranks: int, out: Path) -> tuple[subprocess.Popen[str], list[int]]:
    """A training in the middle, and its ranks."""
    words = [*WORDS, "--train.timeout", str(TIMEOUT), "--out", str(out)]
    process = subprocess.Popen(torchrun(ranks, words), stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    while not (out / "last.json").exists():
        time.sleep(0.05)
    return process, children(process.pid)


def stop(case: str, process: subprocess.Popen[str], ranks: list[int], draw: random.Random) -> None:
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
    told = process.stderr.read() if process.stderr else ""
    return {"case": case, "saved": saved, "ended": time.monotonic() - asked, "code": process.returncode,
            "told": told.count("saved at step"), "codes": told.count("exitcode  : 143"), "left": left(there),
            "good": saved is not None and saved <= SAVED and told.count("saved at step") == 1 and not left(there)}


def halted(ranks: int, out: Path, draw: random.Random) -> dict[str, Any]:
    """What it is like when a rank does not answer any more."""
    process, there = at_work(ranks, out)
    asked = time.monotonic()
    os.kill(draw.choice(there), signal.SIGSTOP)
    told = process.communicate()[1]
    ended = time.monotonic() - asked
    return {"case": "a rank is halted", "ended": ended, "code": process.returncode, "left": left(there),
            "told": told.count("another rank is gone, or does not answer"),
            "good": ended <= TIMEOUT + TORCHRUN + SAVED and not left(there)}


def left(processes: list[int]) -> list[int]:
    """Which of these are still there."""
    return [number for number in processes if Path(f"/proc/{number}").exists()]


def main() -> int:
    """Prints a line a stop, and the promise's closing line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=10)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    draw, rows = random.Random(arguments.seed), []
    cases = ["torchrun", "one rank", "all ranks", "all ranks, twice", "halted"]
    with tempfile.TemporaryDirectory() as scratch:
        for number in range(arguments.count):
            case, out = cases[number % len(cases)], Path(scratch) / str(number)
            row = halted(arguments.ranks, out, draw) if case == "halted" else stopped(case, arguments.ranks, out, draw)
            rows.append(row)
            print(", ".join(f"{key} {value:.1f}" if isinstance(value, float) else f"{key} {value}"
                            for key, value in row.items()), flush=True)
    passed = sum(row["good"] for row in rows)
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    print(f"promise 13: {passed} of {len(rows)}")
    return 0 if passed == len(rows) else 1


if __name__ == "__main__":
    raise SystemExit(main())
