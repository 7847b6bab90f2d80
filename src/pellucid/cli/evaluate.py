"""pellucid evaluate RUN [RUN …]"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tyro

from pellucid.cli.arguments import parse
from pellucid.errors import ConfigError

_SHOWN = 5  # sentences on the terminal
_WIDTH = 65  # characters of a sentence there


@dataclass
class Evaluate:
    """Scores on unseen data, each with its 95 % bootstrap interval; several runs are compared pairwise: two tests of
    every score, differences by length and word frequency, and the sentences that differ most."""

    runs: tyro.conf.Positional[tuple[Path, ...]]
    """run folders"""
    split: str = "test"
    """train, validation or test, as the run's configuration has them"""
    source: Path | None = None
    """a text file to score on in place of a split …"""
    target: Path | None = None
    """… and its references (or labels), line for line"""
    json: bool = False
    """print the report as JSON"""


def main(program: str, words: Sequence[str]) -> int:
    """Evaluates, and prints a table."""
    arguments = parse(Evaluate, program, words)
    if not arguments.runs:
        raise ConfigError("give a run folder at least", where=program)
    if (arguments.source is None) != (arguments.target is None):
        raise ConfigError("--source and --target go together", where=program)
    from pellucid.evaluate.evaluate import evaluate_runs
    from pellucid.train.journal import Reporter

    files = None if arguments.source is None else (str(arguments.source), str(arguments.target))
    report = evaluate_runs(arguments.runs, arguments.split, files, Reporter().progress)
    print(json.dumps(report, ensure_ascii=False) if arguments.json else as_text(report))
    return 0


def as_text(report: dict[str, Any]) -> str:
    """The report for people: a score a line, with its interval."""
    lines = []
    for run in report["runs"]:
        lines.append(f"{run['run']}  {run['split']}, {run['n']:,} examples")
        for name, (low, high) in run["interval"].items():
            lines.append(f"  {name:<15} {run[name]:8.2f}   95 % interval {low:.2f} to {high:.2f}")
        if "confusion" in run:
            import numpy as np

            from pellucid.evaluate.classification import confusion_text

            lines.append(confusion_text(np.asarray(run["confusion"]), run["labels"]))
        else:
            lines.append(_searched(run["search"]))
            lines.append(f"  signature       {run['signature']}")
    for detail in report["differences"]:
        lines += ["", *_compared(detail, report["comparison"])]
    return "\n".join(lines)


def _searched(search: dict[str, Any]) -> str:
    """Whose fault the wrong outputs are."""
    return (f"  search errors   {search['search_errors']:,} of {search['n']:,} outputs ({100 * search['share']:.1f} %) "
            f"are less probable\n                  than the reference; model errors {search['model_errors']:,}, "
            f"exact {search['exact']:,}")


def _compared(detail: dict[str, Any], rows: list[dict[str, Any]]) -> Iterator[str]:
    """Two runs beside each other, in 80 columns."""
    yield f"a = {detail['a']}\nb = {detail['b']}\n"
    yield f"  {'':<20}{'a - b':>12}{'p bootstrap':>16}{'p randomisation':>20}"
    for row in rows:
        if (row["a"], row["b"]) == (detail["a"], detail["b"]):
            yield f"  {row['score']:<20}{row['difference']:>+12.2f}{row['p']:>16.4f}{row['p_randomisation']:>20.4f}"
    for title, key in ((f"{detail['score']} by length", "by_length"), ("F1 of words", "by_frequency")):
        groups = detail.get(key)
        if groups:
            where = f", by how often in {detail['frequency_in']}" if key == "by_frequency" else ""
            yield f"\n  {title}{where}"
            yield f"  {'':<20}{'n':>8}{'a':>8}{'b':>8}{'a - b':>9}   95 % interval"
            for g in groups:
                low, high = g["interval"]
                yield (f"  {g['group']:<20}{g['n']:>8,}{g['a']:>8.2f}{g['b']:>8.2f}{g['difference']:>+9.2f}   "
                       f"{low:+.2f} to {high:+.2f}")
    sentences = detail["sentences"][:_SHOWN]
    if sentences:
        yield f"\n  The sentences that differ most (all {len(detail['sentences'])} are in evaluation/ of a)"
    for one in sentences:
        yield f"  line {one['line']:,}: a {one['a']:.1f}, b {one['b']:.1f}"
        for name, key in (("source", "source"), ("reference", "reference"), ("a", "output_a"), ("b", "output_b")):
            yield f"    {name:<10} {_short(one[key])}"


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _WIDTH else line[: _WIDTH - 1] + "…"
