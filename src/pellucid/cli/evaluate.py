"""pellucid evaluate RUN [RUN …]"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tyro

from pellucid.cli.arguments import parse
from pellucid.errors import ConfigError


@dataclass
class Evaluate:
    """Scores on unseen data, each with its 95 % bootstrap interval; several runs are compared pairwise."""

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
    from pellucid.evaluate.runs import evaluate_runs
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
            lines.append(f"  signature       {run['signature']}")
    for c in report["comparison"]:
        lines.append(f"{c['score']:<15} {c['a']} - {c['b']}: {c['difference']:+.2f}   p = {c['p']:.4f}")
    return "\n".join(lines)
