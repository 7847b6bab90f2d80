"""Promise 01: a training killed with SIGKILL at random moments, and started again, ends with the same bytes.

    python tests/promises/01_exact_resume.py                      small runs, five kills each
    python tests/promises/01_exact_resume.py --count 1 --kills 3 --reference runs/multi30k-en-de-quick \\
        multi30k-en-de-quick --data.train.source train.en …      a recipe, against a run that was never interrupted

Whatever follows the flags goes to `pellucid train`. Without --reference, the uninterrupted run is made first.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SMALL = ["copy", "--train.epochs", "3", "--train.validate_every", "20", "--train.average_last", "3", "--model.dropout",
         "0.1", "--train.ema_decay", "0.9", "--train.accumulate", "2"]


def command(words: list[str], out: Path) -> list[str]:
    """The training's command line."""
    return [sys.executable, "-m", "pellucid", "train", *words, "--out", str(out)]


def digests(run: Path) -> dict[str, str]:
    """The SHA-256 of the final weights: the last checkpoint's, and those in use."""
    last = json.loads((run / "last.json").read_text())["checkpoint"]
    best = json.loads((run / "best.json").read_text())["checkpoint"]
    return {place: hashlib.sha256((run / "checkpoints" / name / "model.safetensors").read_bytes()).hexdigest()
            for place, name in (("last", last), ("best", best))}


def train_and_kill(words: list[str], out: Path, kills: list[float]) -> int:
    """Trains in `out`, killed after each of `kills` seconds; how many kills found the training at work."""
    landed = 0
    for seconds in kills:
        process = subprocess.Popen(command(words, out), stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        try:
            process.wait(timeout=seconds)
            break
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
            landed += 1
            print(f"killed after {seconds:.1f} s", flush=True)
    subprocess.run(command(words, out), check=True, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    return landed


def main() -> int:
    """Prints a line a run, and the promise's closing line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=3)
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--reference", type=Path, help="a finished run of the same command, never interrupted")
    parser.add_argument("--within", type=float, help="each kill comes within so many seconds of its start")
    parser.add_argument("--keep", type=Path, help="a folder for the killed runs, which are removed otherwise")
    parser.add_argument("--json", type=Path)
    arguments, words = parser.parse_known_args()
    words = words or SMALL
    draw = random.Random(arguments.seed)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        whole = arguments.reference or Path(folder) / "whole"
        if arguments.reference is None:
            subprocess.run(command(words, whole), check=True, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        wanted = digests(whole)
        events = [json.loads(line) for line in (whole / "metrics.jsonl").read_text().splitlines()]
        seconds = next(e["seconds"] for e in reversed(events) if e["event"] == "train")
        within = arguments.within or 5 + seconds / max(arguments.kills, 1)
        for number in range(arguments.count):
            out = (arguments.keep or Path(folder)) / f"killed-{number}"
            began = time.monotonic()
            landed = train_and_kill(words, out, [2 + draw.random() * within for _ in range(arguments.kills)])
            found = digests(out)
            rows.append({"run": number, "kills": landed, "identical": found == wanted, "sha256": found["last"],
                         "seconds": round(time.monotonic() - began, 1)})
            print(json.dumps(rows[-1]), flush=True)
            if arguments.keep is None:
                shutil.rmtree(out)
    passed = sum(row["identical"] for row in rows)
    if arguments.json:
        arguments.json.write_text(json.dumps({"promise": 1, "reference": wanted, "rows": rows}, indent=2))
    print(f"promise 01: {passed} of {arguments.count}")
    return 0 if passed == arguments.count else 1


if __name__ == "__main__":
    sys.exit(main())
