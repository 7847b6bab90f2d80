"""How long `pellucid doctor` takes: `python -m benchmarks.doctor [--pairs N] [--json FILE]`.

A corpus of so many made-up pairs is written: words whose frequencies fall like those of a language, 4 to 30 a line,
each with one translation, neighbours sometimes exchanged; a hundredth of the pairs stand there twice. Doctor examines
it in a process of its own, with a line missing in the middle, which it must find; seconds from start to end, those of
processors (which do not count waiting for other programs), and the most memory that it ever held.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import machine
from benchmarks.arguments import new_file, positive

PAIRS = 1_000_000
WORDS = 50_000
PAIRS_AT_ONCE = 20_000
SYLLABLES = [a + b for a in "bcdfghjklmnprstvwz" for b in ("a", "e", "i", "o", "u", "an", "er", "in")]


def words(seed: int, ending: str) -> list[str]:
    """Made-up words, the frequent ones short."""
    random = np.random.default_rng(seed)
    made: dict[str, None] = {}
    while len(made) < WORDS:
        count = 1 + (len(made) >= 100) + (len(made) >= 8000)
        made["".join(random.choice(SYLLABLES, count)) + ending] = None
    return list(made)


def write_corpus(folder: Path, pairs: int) -> None:
    """{train,validation,test}.{source,target}; the training target lacks its middle line."""
    random = np.random.default_rng(1)
    sides = np.asarray(words(1, "")), np.asarray(words(2, "o"))
    share = 1 / np.arange(1, WORDS + 1) ** 0.9
    share /= share.sum()
    for name, count in (("validation", 1000), ("test", 1000), ("train", pairs)):
        with (folder / f"{name}.source").open("w") as source, (folder / f"{name}.target").open("w") as target:
            done = 0
            while done < count:
                number = min(PAIRS_AT_ONCE, count - done)
                lengths = random.integers(4, 31, number)
                drawn = random.choice(WORDS, int(lengths.sum()), p=share)
                turned = drawn.copy()
                places = random.choice(len(drawn) - 1, len(drawn) // 10)
                turned[places], turned[places + 1] = drawn[places + 1], drawn[places]
                cuts = np.cumsum(lengths)[:-1]
                lines = [[" ".join(row) + " ." for row in np.split(side[ids], cuts)]
                         for side, ids in zip(sides, (drawn, turned), strict=True)]
                lines = [[*side[: number // 100], *side[: number - number // 100]] for side in lines]
                source.write("".join(line + "\n" for line in lines[0]))
                if name == "train" and done <= count // 2 < done + number:
                    del lines[1][count // 2 - done]
                target.write("".join(line + "\n" for line in lines[1]))
                done += number


def worker(folder: Path) -> None:
    """The other process: examines, and prints what it found and held."""
    from pellucid.cli import main

    words = [f"--data.{name}.{side}={folder / name}.{side}" for name in ("train", "validation", "test")
             for side in ("source", "target")]
    (folder / "run.yaml").write_text("task: seq2seq\n")
    main(["doctor", str(folder / "run.yaml"), "--json", *words])
    usage = resource.getrusage(resource.RUSAGE_SELF)
    print(json.dumps({"processor_seconds": round(usage.ru_utime + usage.ru_stime, 1),
                      "peak_memory_bytes": usage.ru_maxrss * 1024}))


def measure(folder: Path) -> dict[str, Any]:
    """Seconds, peak memory, and where the missing line was placed."""
    began = time.monotonic()
    own_cache = {**os.environ, "PELLUCID_CACHE": str(folder / "cache")}
    done = subprocess.run([sys.executable, "-m", "benchmarks.doctor", "--worker", str(folder)], check=True,
                          stdout=subprocess.PIPE, text=True, env=own_cache)
    seconds = time.monotonic() - began
    report, usage = done.stdout.strip().splitlines()
    found = {finding["kind"]: finding for finding in json.loads(report)["findings"]}
    return {"seconds": round(seconds, 1), **json.loads(usage), "kinds": sorted(found),
            "slip": found["shifted"]["examples"][0]["place"].rsplit(":", 1)[1]}


def main() -> None:
    """Parses, makes the corpus, measures, prints, writes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=positive, default=PAIRS)
    parser.add_argument("--quick", action="store_true", help="30,000 pairs in place of --pairs")
    parser.add_argument("--json", type=new_file, help="where to write the results")
    parser.add_argument("--worker", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        worker(args.worker)
        return
    pairs = 30_000 if args.quick else args.pairs
    with tempfile.TemporaryDirectory() as name:
        write_corpus(Path(name), pairs)
        row = {"workload": f"{pairs:,} pairs", "system": "pellucid", "setting": "doctor", **measure(Path(name))}
    print(f"{pairs:,} pairs  {row['seconds']:.1f} s, {row['processor_seconds']:.1f} s of processors  "
          f"{row['peak_memory_bytes'] / 2**30:.2f} GiB  slip at line {row['slip']} (seeded at {pairs // 2 + 1})  "
          f"{', '.join(row['kinds'])}")
    if args.json:
        machine.write([row], args.json)


if __name__ == "__main__":
    main()
