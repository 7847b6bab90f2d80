"""Runs beside each other: every score with both tests, where they differ, and the page that tells it."""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations, islice
from typing import Any

from pellucid.data.splits import open_splits
from pellucid.errors import UserError
from pellucid.evaluate.differences import (
    Words,
    by_frequency,
    by_length,
    count_words,
    most_different,
    word_splitter,
)
from pellucid.evaluate.significance import SentenceStatistics, approximate_randomisation, paired_bootstrap
from pellucid.runs.run import Run

_MOST_PAIRS = 500_000  # of the training data, that words are counted in


@dataclass(frozen=True)
class Evaluated:
    """A run's outputs on the pairs, and the statistics of its scores."""

    name: str
    run: Run
    outputs: list[str]
    statistics: dict[str, SentenceStatistics]


def compare(runs: Sequence[Evaluated], pairs: Sequence[tuple[str, str]],
            say: Callable[[str], None]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Every two runs: the rows of all scores, and where they differ, as plain data."""
    rows: list[dict[str, Any]] = []
    details: list[dict[str, Any]] = []
    frequencies: Frequencies | None = None
    for a, b in combinations(runs, 2):
        say(f"comparing {a.name} with {b.name}")
        rows += [_row(a, b, score) for score in a.statistics if score in b.statistics]
        score = "chrf" if "chrf" in a.statistics else "accuracy"
        of_a, of_b, outputs = a.statistics[score], b.statistics[score], (a.outputs, b.outputs)
        words = word_splitter([source for source, _ in pairs])
        detail: dict[str, Any] = {"a": a.name, "b": b.name, "score": score}
        detail["by_length"] = by_length(of_a, of_b, [len(words(source)) for source, _ in pairs])
        if score == "chrf":
            references = [reference for _, reference in pairs]
            frequencies = frequencies or _frequencies(runs[0].run, references)
            detail["by_frequency"] = by_frequency(outputs, references, frequencies.counts, frequencies.words)
            detail["frequency_in"] = frequencies.where
        detail["sentences"] = most_different(of_a, of_b, pairs, outputs)
        details.append({key: [asdict(one) for one in value] if isinstance(value, list) else value
                        for key, value in detail.items()})
    return rows, details


def _row(a: Evaluated, b: Evaluated, score: str) -> dict[str, Any]:
    both = a.statistics[score], b.statistics[score]
    return {**asdict(paired_bootstrap(*both, (a.name, b.name))), "p_randomisation": approximate_randomisation(*both)}


@dataclass(frozen=True)
class Frequencies:
    """How often each word occurs, and where that was counted."""

    counts: Counter[str]
    where: str
    words: Words


def _frequencies(run: Run, references: Sequence[str]) -> Frequencies:
    """Of the training targets of `run`; of the references, where those are not there any more."""
    words = word_splitter(references)
    try:
        training = open_splits(run.config, run.folder)["train"]
        return Frequencies(count_words((target for _, target in islice(training, _MOST_PAIRS)), words),
                           "the training data", words)
    except UserError:
        return Frequencies(count_words(references, words), "the references", words)


def as_markdown(report: dict[str, Any]) -> str:
    """The comparison as a page: a table of scores, tables of differences, and the sentences."""
    lines = [f"# Runs compared on {report['runs'][0]['split']}, {report['runs'][0]['n']:,} examples", "",
             "p: paired bootstrap (Koehn 2004), and approximate randomisation (Riezler and Maxwell 2005). Intervals "
             "are 95 %, of the difference a − b."]
    for detail in report["differences"]:
        a, b = detail["a"], detail["b"]
        lines += ["", f"## a = {a}, b = {b}", "", "| score | a − b | p, bootstrap | p, randomisation |",
                  "|---|---|---|---|"]
        lines += [f"| {row['score']} | {row['difference']:+.2f} | {row['p']:.4f} | {row['p_randomisation']:.4f} |"
                  for row in report["comparison"] if (row["a"], row["b"]) == (a, b)]
        for title, key in ((f"{detail['score']} by length of the source", "by_length"),
                           (f"F₁ of words, by how often they are in {detail.get('frequency_in')}", "by_frequency")):
            if detail.get(key):
                lines += ["", f"### {title}", "", "| group | n | a | b | a − b | interval |",
                          "|---|---|---|---|---|---|"]
                lines += [f"| {g['group']} | {g['n']:,} | {g['a']:.2f} | {g['b']:.2f} | {g['difference']:+.2f} | "
                          f"{g['interval'][0]:+.2f} to {g['interval'][1]:+.2f} |" for g in detail[key]]
        lines += ["", "### The sentences that differ most"]
        for one in detail["sentences"]:
            lines += ["", f"Line {one['line']}: a {one['a']:.1f}, b {one['b']:.1f}", ""]
            lines += [f"- {name}: {_escaped(one[key])}" for name, key in
                      (("source", "source"), ("reference", "reference"), ("a", "output_a"), ("b", "output_b"))]
    return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    """Text that Markdown shows as it is."""
    return re.sub(r"([\\`*_\[\]<>#|&])", r"\\\1", " ".join(text.splitlines()))
