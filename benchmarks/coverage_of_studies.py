"""Whether a study keeps its word: false alarms of studies of nothing, and how often intervals hold the truth.

    python -m benchmarks.coverage_of_studies [--quick] [--json FILE]

Studies are made up as those that ship are, 2 to 18 cells and 3 or 5 seeds, and tested by the very code that writes the
reports. A loss varies over seeds around one mean. A test set of sentences is drawn anew for each study, harder for some
cells than for others as chance has it, and every run gets each sentence right or wrong. And how often a study finds
the one cell that differs by what a report tells to be found four times in five.
"""

import argparse
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np

from benchmarks.arguments import new_file
from pellucid.ablate.effects import Sample, compare, intervals
from pellucid.ablate.power import found_with
from pellucid.evaluate.holm import holm

LEVEL = 0.05
FAMILIES = (1, 2, 3, 6, 11, 17)  # cells beside the baseline
SEEDS = (3, 5)
SENTENCES = 500
Draw = Callable[[np.random.Generator, int, int], tuple[list[Sample], float]]


@dataclass(frozen=True)
class Row:
    """Of so many studies of one kind: percentages.

    Attributes:
        false_alarms: studies with a p at or below 0.05 after Holm's correction, though all cells are equal.
        covered, differences_covered: 95 % intervals of cells, and of differences, that hold the truth.
    """

    kind: str
    cells: int
    seeds: int
    studies: int
    false_alarms: float
    covered: float
    differences_covered: float


def losses(spread: Callable[[np.random.Generator, int], np.ndarray]) -> Draw:
    """Losses of median 0.7 over seeds; `spread` gives their standard deviation on the logarithm, cell by cell."""

    def draw(random: np.random.Generator, cells: int, seeds: int) -> tuple[list[Sample], float]:
        table = np.log(0.7) + random.normal(0, 0.02, seeds) + random.normal(0, 1, (cells, seeds)) * spread(
            random, cells)[:, None]
        return [Sample(dict(enumerate(np.exp(row).tolist())), {}) for row in table], 0.7

    return draw


def twins(random: np.random.Generator, cells: int, seeds: int) -> tuple[list[Sample], float]:
    """Half of the cells hardly differ from the baseline: the same first weights, the same order of batches."""
    table = random.normal(np.log(0.7), 0.04, (cells, seeds))
    half = cells // 2
    table[1: 1 + half] = table[0] + random.normal(0, 0.004, (half, seeds))
    return [Sample(dict(enumerate(np.exp(row).tolist())), {}) for row in table], 0.7


def exactness(percent: float) -> Draw:
    """Sentences right or wrong, `percent` of them right on average over seeds, sentences and cells."""
    middle = _logit_of_mean(percent / 100)

    def draw(random: np.random.Generator, cells: int, seeds: int) -> tuple[list[Sample], float]:
        hard = random.normal(0, 1.2, SENTENCES) + random.normal(0, 0.9, (cells, 1, SENTENCES))
        logits = middle + random.normal(0, 0.15, (cells, seeds, 1)) + hard
        right = random.random((cells, seeds, SENTENCES)) < 1 / (1 + np.exp(-logits))
        return [Sample(dict(enumerate((100 * cell.mean(axis=1)).tolist())),
                       {i: 100 * (run - run.mean()) for i, run in enumerate(cell)}, SENTENCES)
                for cell in right.astype(np.float64)], percent

    return draw


def _logit_of_mean(share: float) -> float:
    """The centre of logits whose probabilities have this mean."""
    nodes = np.random.default_rng(0).normal(0, (1.2**2 + 0.9**2 + 0.15**2) ** 0.5, 200_000)
    low, high = -20.0, 20.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if (1 / (1 + np.exp(-middle - nodes))).mean() < share else (low, middle)
    return low


KINDS: dict[str, tuple[str, Draw]] = {
    "loss, alike": ("validation.loss", losses(lambda random, cells: np.full(cells, 0.04))),
    "loss, unequal": ("validation.loss", losses(lambda random, cells: 0.03 * np.exp(random.normal(0, 0.5, cells)))),
    "loss, one loud": ("validation.loss", losses(lambda random, cells: np.r_[np.full(cells - 1, 0.03), 0.15])),
    "loss, loud baseline": ("validation.loss", losses(lambda random, cells: np.r_[0.06, np.full(cells - 1, 0.03)])),
    "loss, twins": ("validation.loss", twins),
    **{f"exact, {percent:g} %": ("test.exact", exactness(percent)) for percent in (0.1, 1, 25, 75, 99, 99.9)},
}


def simulate(kind: str, cells: int, seeds: int, studies: int, random: np.random.Generator) -> Row:
    """Studies of a baseline and so many cells that all equal it."""
    metric, draw = KINDS[kind]
    alarms, held, of_cells, held_differences, of_differences = 0, 0, 0, 0, 0
    for _ in range(studies):
        (baseline, *others), truth = draw(random, cells + 1, seeds)
        found = [test for test in compare(metric, [(other, baseline) for other in others]) if test is not None]
        alarms += any(p is not None and p <= LEVEL for p in holm([test.p for test in found]))
        spans = [interval for interval in intervals(metric, [baseline, *others]) if interval is not None]
        held += sum(span.low <= truth <= span.high for span in spans if span.low is not None and span.high is not None)
        held_differences += sum(test.difference.low <= 0 <= test.difference.high for test in found
                                if test.difference.low is not None and test.difference.high is not None)
        of_cells, of_differences = of_cells + len(spans), of_differences + len(found)
    return Row(kind, cells + 1, seeds, studies, 100 * alarms / studies, 100 * held / of_cells,
               100 * held_differences / of_differences)


def power(kind: str, cells: int, seeds: int, studies: int, random: np.random.Generator) -> float:
    """The percentage of studies of a loss that find the last cell, which differs by what would be found four times in
    five, reckoned before from how all cells vary."""
    metric, draw = KINDS[kind]
    tables = [np.log([list(sample.values.values()) for sample in draw(random, cells + 1, seeds)[0]])
              for _ in range(1000)]
    of_differences = float(np.mean([(table[1:] - table[0]).var(axis=1, ddof=1).mean() for table in tables]))
    effect = found_with(cells, seeds, 0.0).effect * math.sqrt(of_differences / seeds)
    hits = 0
    for _ in range(studies):
        samples, _ = draw(random, cells + 1, seeds)
        samples[-1] = replace(samples[-1], values={seed: value * math.exp(effect)
                                                   for seed, value in samples[-1].values.items()})
        found = compare(metric, [(other, samples[0]) for other in samples[1:]])
        p = holm([None if test is None else test.p for test in found])[-1]
        hits += p is not None and p <= LEVEL
    return 100 * hits / studies


def table_row(rows: Sequence[Row]) -> str:
    """Of a Markdown table: false alarms by the size of the family, then the mean share of intervals that hold the
    truth."""
    alarms = [row.false_alarms for row in rows]
    means = [np.mean([row.covered for row in rows]), np.mean([row.differences_covered for row in rows])]
    return f"| {rows[0].kind} | {rows[0].seeds} | " + " | ".join(f"{value:.1f}" for value in [*alarms, *means]) + " |"


def main() -> None:
    """Prints both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer studies of three kinds, in seconds")
    parser.add_argument("--json", type=new_file, help="also write every row there")
    arguments = parser.parse_args()
    kinds, families, studies = (list(KINDS)[::4], FAMILIES[1::2], 50) if arguments.quick else (KINDS, FAMILIES, 1000)
    random, found = np.random.default_rng(7), []
    print(f"| metric | seeds | {' | '.join(f'{cells} tested' for cells in families)} | intervals | differences |")
    print(f"|---|{'---:|' * (len(families) + 3)}")
    for kind in kinds:
        for seeds in SEEDS:
            rows = [simulate(kind, cells, seeds, studies, random) for cells in families]
            found += [asdict(row) for row in rows]
            print(table_row(rows), flush=True)
    random = np.random.default_rng(8)
    print(f"\n| one cell differs | seeds | {' | '.join(f'{cells} compared' for cells in families)} |")
    print(f"|---|{'---:|' * (len(families) + 1)}")
    for kind in list(KINDS)[:1 if arguments.quick else 2]:
        for seeds in SEEDS:
            powers = [power(kind, cells, seeds, studies, random) for cells in families]
            found += [{"kind": kind, "cells": cells + 1, "seeds": seeds, "studies": studies, "power": share}
                      for cells, share in zip(families, powers, strict=True)]
            print(f"| {kind} | {seeds} | " + " | ".join(f"{share:.0f}" for share in powers) + " |", flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps({"rows": found}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
