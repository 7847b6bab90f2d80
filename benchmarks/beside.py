"""Training and decoding beside a process that is always busy: `python -m benchmarks.beside RECIPE … [--key=value …]`.

Each recipe is trained for some seconds alone and as long beside the other process, in turns; then the lines of its
test split are decoded by the command line, alone and beside it. Speeds are source and target tokens a second of
updates, and lines a second of the whole command; medians. What this program does not know goes to `pellucid train`.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.arguments import above_zero, positive
from benchmarks.processes import ending
from pellucid.data.splits import open_splits
from pellucid.runs.run import load

PELLUCID = [sys.executable, "-m", "pellucid"]


@contextlib.contextmanager
def neighbour(is_there: bool) -> Iterator[None]:
    """A busy process, while this lasts; or none."""
    busy = subprocess.Popen([sys.executable, "-c", "while True: pass"]) if is_there else None
    try:
        yield
    finally:
        if busy is not None:
            busy.kill()
            busy.wait()


def updates_of(run: Path) -> list[dict[str, Any]]:
    """The lines of metrics.jsonl that tell of updates; none before the first is written."""
    path = run / "metrics.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True) if path.exists() else []
    return [line for line in map(json.loads, (line for line in lines if line.endswith("\n")))
            if line["event"] == "train"]


def train(recipe: str, more: list[str], run: Path, seconds: float) -> float:
    """Tokens a second of a training that is stopped after so many seconds of updates; it goes on where it was.

    Raises:
        SystemExit: it failed, or ended before that.
    """
    begun, ended_well = updates_of(run), {0}
    with run.with_suffix(".log").open("a") as log:
        process = subprocess.Popen([*PELLUCID, "train", recipe, "--out", str(run), "--train.log_every", "5",
                                    "--train.validate_every", "40", *more], stdout=log, stderr=log)
        while process.poll() is None:
            time.sleep(0.1)
            lines = updates_of(run)[len(begun):]
            if len(lines) > 1 and lines[-1]["seconds"] - lines[0]["seconds"] > seconds and (run / "best.json").exists():
                process.send_signal(signal.SIGTERM)
                process.wait()
                ended_well |= {128 + signal.SIGTERM, -signal.SIGTERM}
    lines, told = updates_of(run)[len(begun):], run.with_suffix(".log").read_text(encoding="utf-8")
    if process.returncode not in ended_well:
        raise SystemExit(f"{recipe}: its training {ending(process.returncode, told)}")
    if len(lines) < 2:
        raise SystemExit(f"{recipe} was not trained for {seconds:g} seconds more; give it more updates\n{told[-2000:]}")
    first, *_, last = lines
    tokens = sum(last[side] - first[side] for side in ("source_tokens", "target_tokens"))
    return float(tokens / (last["seconds"] - first["seconds"]))


def decode(run: Path, lines: int) -> float:
    """Lines a second of the command that decodes the first so many of the test split.

    Raises:
        SystemExit: it failed.
    """
    of_run = load(run)
    test = open_splits(of_run.config, run)["test"]
    source = run / "test.txt"
    texts = [text for text, _ in itertools.islice(test, lines)]
    source.write_text("\n".join(texts) + "\n", encoding="utf-8")
    verb = "classify" if of_run.config.task == "classification" else "generate"
    started = time.perf_counter()
    done = subprocess.run([*PELLUCID, verb, str(run), "--input", str(source), "--output", os.devnull], check=False,
                          stderr=subprocess.PIPE, text=True)
    elapsed = time.perf_counter() - started
    if done.returncode:
        raise SystemExit(f"{run.name}: its decoding {ending(done.returncode, done.stderr)}")
    return len(texts) / elapsed


HEAD = ("| recipe | training alone | training beside it | training × | decoding alone | decoding beside it | "
        "decoding × |\n|---|---|---|---|---|---|---|")


def measure(recipe: str, more: list[str], seconds: float, lines: int, repeat: int) -> str:
    """A row of the table."""
    rates: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        for is_busy in [False, True] * repeat:
            with neighbour(is_busy):
                rates.setdefault(f"train {is_busy}", []).append(train(recipe, more, run, seconds))
        decode(run, lines)  # the first one packs the weights
        for is_busy in [False, True] * repeat:
            with neighbour(is_busy):
                rates.setdefault(f"decode {is_busy}", []).append(decode(run, lines))
    middle = {name: statistics.median(found) for name, found in rates.items()}
    cells = [cell for what in ("train", "decode") for cell in (
        f"{middle[f'{what} False']:,.0f}", f"{middle[f'{what} True']:,.0f}",
        f"{middle[f'{what} True'] / middle[f'{what} False']:.2f}")]
    return f"| {' | '.join([recipe, *cells])} |"


def main() -> None:
    """Prints a row for each recipe."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe", nargs="+")
    parser.add_argument("--seconds", type=above_zero, default=8.0, help="of updates in each training")
    parser.add_argument("--lines", type=positive, default=1000, help="to decode")
    parser.add_argument("--repeat", type=positive, default=2)
    args, more = parser.parse_known_args()
    print(HEAD)
    for recipe in args.recipe:
        print(measure(recipe, more, args.seconds, args.lines, args.repeat), flush=True)


if __name__ == "__main__":
    main()
