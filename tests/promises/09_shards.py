"""Promise 09: translators that share a folder of shards, and are killed with SIGKILL at random moments, write the bytes
that one process writes, and every shard once.

    python tests/promises/09_shards.py [--count 3] [--translators 3] [--shards 40] [--kills 20]
    python tests/promises/09_shards.py --run runs/multi30k-en-de-quick --source train.en

Without --run a small one is trained first, and its shards are lines of numbers. A killed translator is started again at
once. Beside the bytes, it is counted how often a shard was finished: a second time only where death came between the
output and its record.
"""

from __future__ import annotations

import argparse
import gzip
import itertools
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

SMALL = ["train", "copy", "--train.epochs", "null", "--train.steps", "100", "--train.validate_every", "50"]
FINISHED = re.compile(r"^(\S+): [\d,]+ lines in ", re.MULTILINE)


def start(words: list[str], log: Path) -> subprocess.Popen[bytes]:
    """`pellucid WORDS` on one thread, what it says added to a file."""
    with log.open("ab") as file:
        return subprocess.Popen([sys.executable, "-m", "pellucid", *words], stdout=subprocess.DEVNULL, stderr=file,
                                env=os.environ | {"OMP_NUM_THREADS": "1"})


def finish(words: list[str], log: Path) -> None:
    """The same, to its end."""
    if start(words, log).wait() != 0:
        raise SystemExit(f"pellucid {' '.join(words)} failed:\n{log.read_text()[-2000:]}")


def write_shards(folder: Path, count: int, source: Path | None, size: int) -> None:
    """`count` shards of about `size` lines of `source`, or of numbers; every fourth is packed."""
    draw = random.Random(1)
    if source is None:
        rows = (draw.choices(range(1, 30), k=draw.randrange(1, 16)) for _ in itertools.count())
        lines = (" ".join(map(str, row)) + "\n" for row in rows)
    else:
        lines = itertools.cycle(source.read_text(encoding="utf-8").splitlines(keepends=True))
    folder.mkdir()
    for number in range(count):
        text = "".join(itertools.islice(lines, draw.randrange(size // 2, size * 3 // 2))).encode()
        if number % 4 == 0:
            (folder / f"{number:03}.txt.gz").write_bytes(gzip.compress(text))
        else:
            (folder / f"{number:03}.txt").write_bytes(text)


def outputs(folder: Path) -> dict[str, bytes]:
    """The outputs by name; what is hidden is none."""
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.name[0] != "."}


def translate_and_kill(words: list[str], logs: Path, translators: int, kills: list[float]) -> int:
    """Translates with so many processes, one of them killed after each of `kills` seconds and started again; how many
    kills found one at work."""
    logs.mkdir()
    crew = [start(words, logs / str(number)) for number in range(translators)]
    landed = 0
    for number, seconds in enumerate(kills, start=translators):
        time.sleep(seconds)
        living = [process for process in crew if process.poll() is None]
        if not living:
            break
        victim = random.Random(number).choice(living)
        victim.send_signal(signal.SIGKILL)
        landed += victim.wait() == -signal.SIGKILL
        crew[crew.index(victim)] = start(words, logs / str(number))
    for process in crew:
        if process.wait() != 0:
            raise SystemExit(f"a translator ended with {process.returncode}; what it said is in {logs}")
    finish(words, logs / "last")  # what was in the hands of a process that died last
    return landed


def main() -> int:
    """Prints a line a trial, and the promise's closing line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=3, help="of trials")
    parser.add_argument("--translators", type=int, default=3)
    parser.add_argument("--shards", type=int, default=40)
    parser.add_argument("--kills", type=int, default=20, help="of each trial, at most")
    parser.add_argument("--lines", type=int, default=400, help="of a shard, about")
    parser.add_argument("--run", type=Path, help="a run folder")
    parser.add_argument("--source", type=Path, help="a text file to make shards of")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    draw, rows = random.Random(arguments.seed), []
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        run = arguments.run or folder / "run"
        if arguments.run is None:
            finish([*SMALL, "--out", str(run)], folder / "log")
        write_shards(folder / "in", arguments.shards, arguments.source, arguments.lines)
        words = ["translate", str(run), "--input", str(folder / "in"), "--output"]
        began = time.monotonic()
        finish([*words, str(folder / "one")], folder / "log")
        wanted, seconds = outputs(folder / "one"), time.monotonic() - began
        for trial in range(arguments.count):
            out, logs = folder / f"out-{trial}", folder / f"logs-{trial}"
            waits = [draw.random() * 2 * seconds / max(1, arguments.kills) for _ in range(arguments.kills)]
            landed = translate_and_kill([*words, str(out)], logs, arguments.translators, waits)
            found = outputs(out)
            times = Counter(name for log in logs.iterdir() for name in FINISHED.findall(log.read_text()))
            same = sum(found.get(name) == data for name, data in wanted.items())
            rows.append({"trial": trial, "kills": landed, "shards": len(wanted), "same": same,
                         "others": len(found.keys() - wanted.keys()), "twice": sum(n > 1 for n in times.values()),
                         "records": sum(1 for _ in (out / ".pellucid/records").iterdir())})
            print(json.dumps(rows[-1]), flush=True)
    passed = sum(row["same"] == row["shards"] == row["records"] and row["others"] == 0 for row in rows)
    if arguments.json:
        told = {"promise": 9, "seconds_of_one": round(seconds, 1), "rows": rows}
        arguments.json.write_text(json.dumps(told, indent=2) + "\n", encoding="utf-8")
    print(f"promise 09: {passed} of {len(rows)}")
    return 0 if passed == len(rows) else 1


if __name__ == "__main__":
    sys.exit(main())
