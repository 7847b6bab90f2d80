"""pellucid ablate STUDY"""

import json
import shlex
import shutil
import sys
import textwrap
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pellucid import own
from pellucid.cli.arguments import parse_with_overrides
from pellucid.cli.fields import Positional
from pellucid.errors import ConfigError
from pellucid.language import MOST_COLUMNS, columns, fitted, padded, so_many


@dataclass
class Ablate:
    """Run a study: factors × seeds, a process a run, to a report with intervals over seeds and corrected tests.

    The same command again does what is missing: after a stop, or when the study got more seeds or values. Any
    configuration key can be given as --section.key value, and holds for all cells. Without a study, those that ship
    are listed.
    """

    study: Positional[str | None] = None
    """a shipped study's name or a YAML file"""
    out: Path | None = None
    """the study's folder; studies/NAME if left out"""
    dry_run: bool = False
    """print the grid, each cell's parameters, the expected time and the smallest effects found, and keep nothing"""
    jobs: int = 1
    """how many runs at once, each on its share of the cores; no more than there are cores"""
    json: bool = False
    """print the results as JSON"""


def main(program: str, words: Sequence[str]) -> int:
    """Runs, or shows what would be run."""
    arguments, overrides = parse_with_overrides(Ablate, program, words)
    if arguments.study is None:
        _list(arguments.json)
        return 0
    from pellucid.ablate.ablate import ablate, dry_run
    from pellucid.ablate.grid import as_data as grid_as_data
    from pellucid.ablate.processes import Stopped
    from pellucid.ablate.results import as_data, smallest_effects
    from pellucid.ablate.study import read_study
    from pellucid.kernels.levels import cores
    from pellucid.train.journal import Reporter

    if arguments.jobs < 1:
        raise ConfigError(f"--jobs {arguments.jobs}", where=program, fix=f"choose 1 to {cores()}, the cores there are")
    jobs = min(arguments.jobs, cores())
    reporter = Reporter()
    if jobs < arguments.jobs:
        reporter.say(f"--jobs {jobs}: runs that share a core only slow each other down")
    study = read_study(arguments.study, overrides)
    out = arguments.out or Path("studies") / study.name
    if arguments.dry_run:
        with reporter:
            report = dry_run(study, jobs, reporter, out)
        print(json.dumps(report, ensure_ascii=False) if arguments.json else
              _grid(report, shutil.get_terminal_size().columns))
        return 0
    command = shlex.join([*program.split(), *words, *own.words()])
    try:
        with reporter:
            results, grids = ablate(study, out, jobs, command, reporter)
    except Stopped as stop:
        print(f"pellucid: {stop}; what is done is kept. To go on:\n  {command}", file=sys.stderr)
        return 128 + stop.number
    if arguments.json:
        print(json.dumps({"study": study.name, "report": str(out / "report.html"),
                          "cells": [as_data(result) for result in results],
                          "grid": [grid_as_data(grid) for grid in grids],
                          "smallest_effects": [asdict(each) for each in smallest_effects(study, results)]},
                         ensure_ascii=False))
    else:
        from pellucid.ablate.report import markdown
        from pellucid.ablate.tables import overview
        from pellucid.ablate.words import in_words

        print(markdown(overview(study, results)) + "\n" + "\n".join(in_words(study, results, grids)))
        print(f"\n{out / 'report.html'}: open it in a browser; beside it report.md, report.tex, results.csv, figures")
    return 0


def _list(as_json: bool) -> None:
    from pellucid.studies import read_study_file, study_names

    studies = [read_study_file(name) for name in study_names()]
    if as_json:
        print(json.dumps([{"name": study.name, **study.about} for study in studies], ensure_ascii=False))
        return
    for study in studies:
        print(study.name)
        for key, text in study.about.items():
            print(f"    {key + ':':<10} {text}")
    print("\npellucid ablate NAME runs one; pellucid ablate NAME --dry-run shows its cells and what they cost")


def _grid(report: dict[str, Any], width: int) -> str:
    """What a dry run found, for people."""
    from pellucid.ablate.power import Smallest
    from pellucid.ablate.tables import either
    from pellucid.train.journal import duration

    def said(text: str) -> str:
        return textwrap.fill(text, min(width, MOST_COLUMNS), subsequent_indent="  ", break_on_hyphens=False)

    room = max(columns(row["cell"]) for row in report["cells"]) + 2
    lines, records = [f"{'cell':<{room}}{'parameters':>12}{'updates':>9}{'tokens':>13}  training, a run"], []
    for row in report["cells"]:
        cell, told = row["cell"], duration(row["seconds"])
        lines.append(f"{padded(cell, room)}{row['parameters']:>12,}{row['steps']:>9,}"
                     f"{row['tokens']:>13,}  {told}")
        records.append((cell, [f"{row['parameters']:,} parameters", f"{row['steps']:,} updates",
                               f"{row['tokens']:,} tokens", f"{told} of training"]))
    cells, seeds, runs = so_many(len(report["cells"]), "cell"), so_many(len(report["seeds"]), "seed"), report["runs"]
    summary = (f"{cells} × {seeds} = {so_many(runs, 'run')}, "
               f"{report['at_once']} at once: about {duration(report['seconds'])} of training; validation, evaluation "
               "and the start of each process come on top")
    found = [Smallest(**each) for each in report["smallest_effects"]]
    effects = [said("smallest effects found four times in five after Holm's correction, from "
                    f"{report['smallest_effects_from']}:") if found else "one seed, or one cell: nothing can be tested"]
    effects += [said(f"  {each.metric}: {either(each)}" + ("" if each.is_relative else f", from {each.baseline:.4g}"))
                for each in found]
    notes = [said(f"note: {text}") for text in report["notes"]]
    return "\n".join([*fitted(lines, records, width), "", said(summary), "", *effects, *notes])
