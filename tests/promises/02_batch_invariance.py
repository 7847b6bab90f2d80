"""Promise 02: with decode.exact a text and its score have the same bits whatever is decoded beside it.

    python tests/promises/02_batch_invariance.py RUN --source train.en [--count 10000] [--beam-size 4]

Decodes the first lines of a file in batches of 1, 7 and 64, in their order and in a drawn one, and in the default way,
whose agreement and price are told beside it.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import time
from dataclasses import replace
from pathlib import Path

import pellucid
from pellucid.config import DecodeConfig
from pellucid.runs.run import Run

SIZES = (1, 7, 64)


def decoded(run: Run, lines: list[str], order: list[int], size: int, options: DecodeConfig) -> list[tuple[str, float]]:
    """The text and the score of every line, decoded `size` at a time in this order."""
    found: dict[int, tuple[str, float]] = {}
    for start in range(0, len(order), size):
        numbers = order[start : start + size]
        for i, one in zip(numbers, run.generate([lines[i] for i in numbers], options=options), strict=True):
            found[i] = (one.text, one.score)
    return [found[i] for i in range(len(lines))]


def main() -> int:
    """Prints a line for each way of batching, and the promise's closing line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--source", type=Path, required=True, help="a file of lines")
    parser.add_argument("--count", type=int, default=10_000, help="of lines")
    parser.add_argument("--beam-size", type=int, default=4)
    parser.add_argument("--precision", default="auto", choices=["auto", "fp32", "bf16", "int8"])
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    run = pellucid.load(arguments.run)
    with arguments.source.open(encoding="utf-8") as file:
        lines = [line.rstrip("\n") for line in itertools.islice(file, arguments.count)]
    options = replace(run.config.decode, beam_size=arguments.beam_size, precision=arguments.precision, n_best=1)
    shuffled = random.Random(1).sample(range(len(lines)), len(lines))
    started = time.perf_counter()
    default = decoded(run, lines, list(range(len(lines))), len(lines), options)
    print(f"the default way: {time.perf_counter() - started:.1f} s")
    exact, rows, reference = replace(options, exact=True), [], None
    for size, (name, order) in itertools.product(SIZES, (("in order", list(range(len(lines)))),
                                                         ("shuffled", shuffled))):
        started = time.perf_counter()
        found = decoded(run, lines, order, size, exact)
        reference = reference or found
        rows.append({"batch": size, "order": name, "seconds": time.perf_counter() - started,
                     "same": sum(a == b for a, b in zip(found, reference)),
                     "same_as_default": sum(a == b for a, b in zip(found, default))})
        print(f"{size} at a time, {name}: {rows[-1]['seconds']:.1f} s, {rows[-1]['same']:,} of {len(lines):,} "
              f"the same, {rows[-1]['same_as_default']:,} as by default", flush=True)
    passed = sum(row["same"] == len(lines) for row in rows)
    if arguments.json:
        arguments.json.write_text(json.dumps({"lines": len(lines), "rows": rows}, indent=1) + "\n", encoding="utf-8")
    print(f"promise 02: {passed} of {len(rows)}")
    return 0 if passed == len(rows) else 1


if __name__ == "__main__":
    raise SystemExit(main())
