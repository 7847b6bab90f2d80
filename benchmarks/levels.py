"""One search by the kernels of each level that this processor runs: `python -m benchmarks.levels [--repeat N]`.

48 sentences of 14 tokens by a model of width 256 with 3 + 3 layers and 8,000 words, random weights, 24 tokens each, on
one thread: milliseconds, the least of nine searches in each of N processes a level, which take turns; and how many
times as fast as in fp32 that is.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections import defaultdict

from benchmarks.arguments import positive

SEARCHES = {"greedy": 1, "beam 4": 4}
PRECISIONS = ["fp32", "bf16", "int8"]


def times() -> dict[str, float]:
    """Milliseconds of each search, in this process."""
    import numpy as np
    import torch

    from pellucid.config import ModelConfig
    from pellucid.engine.engine import Engine
    from pellucid.kernels.compiled import use_kernels
    from pellucid.model.build import build
    from pellucid.search.options import SearchOptions, Specials

    torch.set_num_threads(1)
    if (kernels := use_kernels(torch.device("cpu"))) != "compiled":
        raise SystemExit(f"there are no kernels: {kernels}")
    sizes = ModelConfig(d_model=256, n_heads=4, d_ff=1024, encoder_layers=3, decoder_layers=3, max_length=128)
    model = build(sizes, 8000, 8000, shared=True, seed=1).eval()
    lengths = np.full(48, 14, dtype=np.int64)
    tokens = np.random.default_rng(0).integers(4, 8000, int(lengths.sum()))
    found = {}
    for precision in PRECISIONS:
        frozen = Engine(model, precision).frozen(64, 64)
        for name, beam in SEARCHES.items():
            seconds = []
            for _ in range(9):
                begun = time.perf_counter()
                frozen.search(tokens, lengths, SearchOptions(beam_size=beam, max_length=24), Specials(1, 2, 0))
                seconds.append(time.perf_counter() - begun)
            found[f"{name}, {precision}"] = 1000 * min(seconds)
    return found


def main() -> None:
    """Prints a row for each level and search."""
    from pellucid.kernels.levels import LEVELS, instructions, levels_here, machine

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=positive, default=2, help="processes for each level")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)  # what each of them is told
    args = parser.parse_args()
    if args.here:
        print(json.dumps(times()))
        return
    for level in LEVELS:
        if level.machine == machine() and (lacking := sorted(level.needs - instructions())):
            print(f"{level.name} is left out: this processor has no {', '.join(lacking)}", file=sys.stderr)
    least: dict[str, dict[str, float]] = defaultdict(dict)
    for _ in range(args.repeat):
        for level in levels_here():
            told = subprocess.run([sys.executable, "-m", "benchmarks.levels", "--here"], check=True,
                                  env=os.environ | {"PELLUCID_KERNELS": level.name}, stdout=subprocess.PIPE)
            for search, time_taken in json.loads(told.stdout).items():
                least[level.name][search] = min(time_taken, least[level.name].get(search, time_taken))
    print("| level, search | fp32 | bf16 | int8 | bf16 × | int8 × |\n|---|---|---|---|---|---|")
    for level_name, found in least.items():
        for name in SEARCHES:
            fp32, bf16, int8 = (found[f"{name}, {precision}"] for precision in PRECISIONS)
            print(f"| {level_name}, {name} | {fp32:.0f} | {bf16:.0f} | {int8:.0f} | {fp32 / bf16:.2f} | "
                  f"{fp32 / int8:.2f} |")


if __name__ == "__main__":
    main()
