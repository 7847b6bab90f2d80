"""How memory and time grow with the number of tokens: `python -m benchmarks.memory [--json FILE] [--figure FILE]`.

A small model trains on sentences of one length, in a process of its own for each point, with as many workers as
`pellucid train` takes: over the batch size at 64 tokens a sentence, and over the length at 32 sentences a batch.
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from benchmarks import machine
from benchmarks.arguments import new_file
from benchmarks.processes import say
from benchmarks.train import start
from benchmarks.workloads import EOS, FIRST, IDS, MODELS

SENTENCES, LENGTH = (16, 32, 64, 128, 256), (16, 32, 64, 128, 256, 512)


def measure(sentences: int, length: int, repeat: int) -> dict[str, Any]:
    """One point: the peak memory of the process and its workers, and the seconds of an update."""
    model = MODELS["small"]
    random = np.random.default_rng(1)
    ids = random.integers(FIRST, model.vocabulary, (2, sentences, length))
    ids[:, :, -1] = EOS
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / IDS
        sizes = {f"model.{key}": np.asarray(value) for key, value in asdict(model).items()}
        np.savez(path, source0=ids[0], target0=ids[1], **sizes)
        runner = start("pellucid", "default", path, None)
        for _ in range(repeat):
            runner.run()
        runner.stop()
    seconds = sorted(run["seconds"] for run in runner.runs)
    tokens = 2 * sentences * length
    return {"workload": f"{sentences} x {length}", "model": "small", "system": "pellucid", "setting": "default",
            "sentences": sentences, "length": length, "tokens": tokens, "seconds": seconds[len(seconds) // 2],
            "tokens_per_second": tokens / seconds[len(seconds) // 2], "low": tokens / seconds[-1],
            "high": tokens / seconds[0], "fraction_of_limit": None,
            "peak_memory_bytes": max(run["peak_memory_bytes"] for run in runner.runs)}


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    """Memory and seconds over tokens, one line over the batch size and one over the length."""
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    lines = {"more sentences of 64 tokens": sorted((r for r in rows if r["length"] == 64), key=lambda r: r["tokens"]),
             "longer sentences, 32 a batch": sorted((r for r in rows if r["sentences"] == 32),
                                                    key=lambda r: r["tokens"])}
    for name, points in lines.items():
        tokens = [p["tokens"] for p in points]
        axes[0].plot(tokens, [p["peak_memory_bytes"] / 2**30 for p in points], "o-", label=name)
        axes[1].plot(tokens, [p["seconds"] for p in points], "o-", label=name)
    axes[0].set_ylabel("peak memory with all workers, GiB")
    axes[1].set_ylabel("seconds an update")
    for axis in axes:
        axis.set_xlabel("source and target tokens a batch")
        axis.set_ylim(bottom=0)
        axis.legend(frameon=False)
    figure.savefig(path, dpi=150)


def main() -> None:
    """Parses, measures every point, draws, writes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="two repetitions in place of five, and no longest batches")
    parser.add_argument("--json", type=new_file, help="where to write the results")
    parser.add_argument("--figure", type=new_file, help="where to draw them")
    args = parser.parse_args()
    points = {(n, 64) for n in SENTENCES} | {(32, t) for t in LENGTH}
    if args.quick:
        points = {p for p in points if p[0] * p[1] <= 8192}
    rows = []
    for sentences, length in sorted(points):
        rows.append(measure(sentences, length, 2 if args.quick else 5))
        say(f"{sentences:4} sentences of {length:3}: {rows[-1]['peak_memory_bytes'] / 2**30:5.2f} GiB  "
            f"{rows[-1]['seconds']:6.3f} s  {rows[-1]['tokens_per_second']:7,.0f} tokens/s")
    if args.json:
        machine.write(rows, args.json)
    if args.figure:
        draw(rows, args.figure)


if __name__ == "__main__":
    main()
