"""How often the 95 % intervals of all scores contain the truth, and how often the tests find a difference that is not
there, by simulation: the tables of docs/evaluation.md.

    python -m benchmarks.coverage            # a quarter of an hour on one core
    python -m benchmarks.coverage --quick    # a minute, and coarser

Populations are made of 2,000 sources with four rows each, whose outputs are damaged translations of random words, each
source as hard as chance has it; or of labels, of which some are rare. A test set is n rows of 1, 2 or 4 a source, drawn
at random; the truth is the score of the population. Equal systems have outputs that are exchanged by a coin.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from pellucid.evaluate.classification import classification_statistics
from pellucid.evaluate.macro_f1 import macro_f1
from pellucid.evaluate.perplexity import perplexity_statistics
from pellucid.evaluate.significance import (
    SentenceStatistics,
    approximate_randomisation,
    difference_interval,
    interval_of,
    mean_percentage,
    paired_bootstrap,
    share_interval,
)
from pellucid.evaluate.translation import translation_statistics

SOURCES, ROWS = 2000, 4
SHARED = 0.7  # of outputs, by two equal systems
WORDS = np.array([f"w{i}" for i in range(3000)])
ZIPF = 1 / np.arange(1, len(WORDS) + 1)
SIZES = (20, 50, 200, 2000)
DIFFERENCES = ((0.01, 0.0), (0.02, 0.005), (0.1, 0.05), (0.2, 0.2))  # shares that one system alone has right
Population = Callable[[int, int, np.random.Generator], SentenceStatistics]  # of n rows, so many a source


@dataclass(frozen=True)
class Score:
    """A population that test sets are drawn from, and the true score; and how two equal systems' outputs for the same n
    sentences are drawn, if not by mixing two test sets."""

    name: str
    draw: Population
    truth: float
    pair: Callable[[int, np.random.Generator], tuple[SentenceStatistics, SentenceStatistics]] | None = None


def damaged(words: NDArray[np.str_], rate: float, random: np.random.Generator) -> str:
    """The words, of which a share is replaced, lost or doubled."""
    kept = []
    for word, u in zip(words, random.random(len(words)) / max(rate, 1e-9), strict=True):
        kept += [] if 0.7 < u < 0.85 else [word] if u > 1 else [str(random.choice(WORDS))] * (1 if u < 0.7 else 2)
    return " ".join(kept) or "w0"


def translations(random: np.random.Generator) -> tuple[dict[str, SentenceStatistics], NDArray[np.int64]]:
    """Every score's statistics over all rows, and the source of each row: outputs a source differ little."""
    outputs, references, nats, tokens = [], [], [], []
    for _ in range(SOURCES):
        length, hard = int(np.clip(np.exp(random.normal(2.5, 0.45)), 4, 60)), random.beta(2, 4)
        words = random.choice(WORDS, length, p=ZIPF / ZIPF.sum())
        for _ in range(ROWS):
            rate = float(np.clip(hard + random.normal(0, 0.08), 0, 1))
            outputs.append(damaged(words, rate, random))
            references.append(damaged(words, 0.1, random))
            nats.append(float(random.gamma(0.6, 6 * rate + 0.3, length + 1).sum()))
            tokens.append(length + 1)
    found = translation_statistics(outputs, references, ("bleu", "chrf", "ter", "meteor"))
    return found | {"perplexity": perplexity_statistics(nats, tokens)}, np.repeat(np.arange(SOURCES), ROWS)


def of_rows(metric: SentenceStatistics) -> Score:
    """Test sets of its sources."""
    table = metric.statistics.reshape(SOURCES, ROWS, -1)

    def draw(n: int, rows: int, random: np.random.Generator) -> SentenceStatistics:
        source, first = random.integers(SOURCES, size=n // rows), random.integers(ROWS, size=n // rows)
        chosen = table[source[:, None], (first[:, None] + np.arange(rows)) % ROWS].reshape(n // rows * rows, -1)
        return replace(metric, statistics=chosen, sources=np.repeat(np.arange(n // rows), rows) if rows > 1 else None)

    return Score(metric.name, draw, metric.score(metric.statistics.sum(axis=0)))


def of_share(name: str, p: float) -> Score:
    """Exact matches or accuracy: rows of a source have a beta-distributed p in common."""
    def draw(n: int, rows: int, random: np.random.Generator) -> SentenceStatistics:
        common = np.full(n // rows, p) if rows == 1 else random.beta(1.5 * p, 1.5 * (1 - p), n // rows)
        hits = (random.random((n // rows, rows)) < common[:, None]).astype(float).ravel()
        sources = np.repeat(np.arange(n // rows), rows) if rows > 1 else None
        return SentenceStatistics(name, np.stack([hits, np.ones_like(hits)], axis=1), mean_percentage, share_interval,
                                  sources=sources)

    return Score(f"{name}, {100 * p:g} %", draw, 100 * p)


def of_labels(name: str, shares: Callable[[int], NDArray[np.float64]], n: int, right: float | None,
              random: np.random.Generator) -> Score:
    """Labels that the classifier gets right so often; None draws how often for each."""
    share = shares(n)
    labels = [f"label {i}" for i in range(len(share))]
    recall = np.full(len(share), right) if right else np.clip(random.beta(2, 1.5, len(share)), 0.05, 0.97)
    joint = np.zeros((len(share), len(share)))
    for i, of in enumerate(share):
        others = np.where(np.arange(len(share)) == i, 0, share)
        joint[i] = of * (1 - recall[i]) * others / others.sum()
        joint[i, i] = of * recall[i]

    def draw(n: int, rows: int, random: np.random.Generator) -> SentenceStatistics:
        true, predicted = np.divmod(random.choice(joint.size, n // rows, p=joint.ravel()).repeat(rows), len(share))
        sources = np.repeat(np.arange(n // rows), rows) if rows > 1 else None
        found = classification_statistics([labels[i] for i in predicted], [labels[i] for i in true], labels)
        return replace(found["macro_f1"], sources=sources)

    def pair(n: int, random: np.random.Generator) -> tuple[SentenceStatistics, SentenceStatistics]:
        true = random.choice(len(share), n, p=share)
        outputs = [np.array([random.choice(len(share), p=joint[i] / share[i]) for i in true]) for _ in range(2)]
        outputs[1] = np.where(random.random(n) < SHARED, outputs[0], outputs[1])
        one, other = (classification_statistics([labels[i] for i in side], [labels[i] for i in true],
                                                labels)["macro_f1"] for side in outputs)
        return one, other

    return Score(f"macro-F₁, {name}", draw, macro_f1(joint), pair)


def labels_of(n: int, random: np.random.Generator) -> list[Score]:
    """Populations for macro-F₁ at n."""
    kinds = {"three labels": lambda n: np.full(3, 1 / 3),
             "six labels, one rare": lambda n: np.array([0.25, 0.22, 0.2, 0.18, 0.13, 0.02]),
             "two labels and ten rare ones": lambda n: np.r_[[0.5 - 5 / n] * 2, [1 / n] * 10],
             "twenty by Zipf": lambda n: 1 / np.arange(1, 21) / (1 / np.arange(1, 21)).sum()}
    return [of_labels(name, shares, n, right, random) for name, shares in kinds.items() for right in (0.9, 0.6, None)]


def coverage(score: Score, n: int, rows: int, times: int, random: np.random.Generator) -> float:
    """The percentage of test sets whose interval contains the truth."""
    hits = 0
    for _ in range(times):
        low, high = interval_of(score.draw(n, rows, random))
        hits += low <= score.truth <= high
    return 100 * hits / times


def coverage_of_difference(a_alone: float, b_alone: float, n: int, rows: int, times: int,
                           random: np.random.Generator) -> float:
    """The percentage of test sets on which the interval of a difference of shares contains the truth, where of all rows
    such shares are right by one system alone, and half of the others by both."""
    hits, truth, sources = 0, 100 * (a_alone - b_alone), np.repeat(np.arange(n // rows), rows) if rows > 1 else None
    for _ in range(times):
        chances = np.array([a_alone, b_alone, 1 - a_alone - b_alone])
        alike = rows > 1  # rows of one source have their chances in common
        of_source = random.dirichlet(1.5 * np.maximum(chances, 1e-12), n // rows) if alike else np.tile(chances, (n, 1))
        drawn = (random.random((n // rows, rows, 1)) > of_source.cumsum(axis=1)[:, None, :2]).sum(axis=2).ravel()
        both = random.random(n) < 0.5
        sides = [SentenceStatistics("exact", np.stack([np.where(drawn == 2, both, drawn == alone), np.ones(n)], axis=1),
                                    mean_percentage, share_interval, sources=sources) for alone in (0, 1)]
        low, high = difference_interval(*sides)
        hits += low <= truth <= high
    return 100 * hits / times


def mixed(score: Score, n: int, random: np.random.Generator) -> tuple[SentenceStatistics, SentenceStatistics]:
    """Two systems with some outputs in common."""
    one, other = score.draw(n, 1, random), score.draw(n, 1, random)
    shared = random.random((n, 1)) < SHARED
    return one, replace(one, statistics=np.where(shared, one.statistics, other.statistics))


def false_positives(score: Score, n: int, times: int, random: np.random.Generator) -> tuple[float, float]:
    """The percentage of pairs of equal systems with p ≤ 0.05: paired bootstrap, approximate randomisation."""
    found = np.zeros(2)
    for i in range(times):
        both = (score.pair or partial(mixed, score))(n, random)
        by_exchange = approximate_randomisation(*both, trials=199, seed=i)
        p = paired_bootstrap(*both, resamples=199, seed=i).p if both[0].is_smooth else by_exchange
        found += (p <= 0.05, by_exchange <= 0.05)
    return tuple(100 * found / times)  # type: ignore[return-value]


def row(name: str, values: Sequence[float]) -> str:
    """Of a Markdown table."""
    return f"| {name} | " + " | ".join(f"{value:.1f}" for value in values) + " |"


def main() -> None:
    """Prints the three tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the test sets, no more than 200 rows")
    quick = parser.parse_args().quick
    times, sizes = (200, SIZES[:3]) if quick else (2000, SIZES)
    random = np.random.default_rng(1)
    statistics, _ = translations(random)
    scores = [of_rows(metric) for metric in statistics.values()]
    columns = [(n, 1) for n in sizes] + [(n, rows) for rows in (2, 4) for n in (40, 200)]
    heads = [f"{n}" if rows == 1 else f"{n} = {n // rows} × {rows}" for n, rows in columns]
    print(f"| score | {' | '.join(heads)} |\n|---|{'---:|' * len(columns)}")
    for score in scores:
        found = [coverage(score, n, rows, times if n < 1000 else times // 4, random) for n, rows in columns]
        print(row(score.name, found), flush=True)
    shares = [of_share("", p) for p in (0.02, 0.05, 0.1, 0.3, 0.5, 0.7, 0.9, 0.95, 0.98)]
    print(row("exact, accuracy (mean of 2 to 98 %)",
              [float(np.mean([coverage(s, n, rows, times, random) for s in shares])) for n, rows in columns]))
    many = [coverage(s, 200, 20, times, np.random.default_rng(2)) for s in shares]
    by_name: dict[str, list[float]] = {}
    for n, rows in columns:
        for score in labels_of(n, random):
            by_name.setdefault(score.name, []).append(coverage(score, n, rows, times // 4, random))
    for name, values in by_name.items():  # right 90 %, 60 %, and as often as chance has it
        print(row(name, list(np.reshape(values, (len(columns), -1)).mean(axis=1))), flush=True)
    print(f"\n10 sources with 20 rows each, exact: {np.mean(many):.1f} on average, {min(many):.1f} at least")
    alone = " | ".join(f"{100 * a:g} % and {100 * b:g} %" for a, b in DIFFERENCES)
    print(f"\n| rows | {alone} |\n|---|{'---:|' * len(DIFFERENCES)}")
    for head, (n, rows) in zip(heads, columns, strict=True):
        print(row(head, [coverage_of_difference(*of, n, rows, times if n < 1000 else times // 4, random)
                         for of in DIFFERENCES]), flush=True)
    print("\n| equal systems | " + " | ".join(f"bootstrap, {n} | randomisation, {n}" for n in sizes[:3]) + " |")
    print("|---|" + "---:|" * 2 * len(sizes[:3]))
    tested = [*scores, of_share("exact", 0.3), of_share("exact", 0.9), *labels_of(200, random)[6:7]]
    for score in tested:
        found = [p for n in sizes[:3] for p in false_positives(score, n, times // 2, random)]
        print(row(score.name, found), flush=True)


if __name__ == "__main__":
    main()
