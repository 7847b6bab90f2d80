"""`pellucid ablate` from end to end: read, plan, run what is missing, report."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pellucid.ablate.agenda import calibrate, in_turns, plan, steps_for, with_budget, write_tests
from pellucid.ablate.cells import Cell, cells_of
from pellucid.ablate.confounds import count_operations, operations_of
from pellucid.ablate.grid import Grid
from pellucid.ablate.power import Smallest, expected
from pellucid.ablate.processes import Pool
from pellucid.ablate.report import write_report
from pellucid.ablate.results import Result, results_of, smallest_effects
from pellucid.ablate.study import Study
from pellucid.config.lengths import too_short
from pellucid.files import make_folder
from pellucid.language import so_many
from pellucid.runs.folder import refuse_foreign
from pellucid.train.journal import Reporter
from pellucid.train.train import only_writer

_OURS = (".lock", "operations.json", "outcomes")  # one of these is in every folder that a study was begun in


def ablate(study: Study, out: Path, jobs: int, command: str, reporter: Reporter,
           ) -> tuple[list[Result], list[Grid]]:
    """Runs what is missing of the study in the folder `out`, and writes the report; also when it is stopped. Gives a
    result a cell, and what a grid says of each metric.

    Raises:
        Stopped: by a signal.
        UserError: the study or one of its runs cannot go on; `out` holds something else.
    """
    cells = cells_of(study)
    refuse_foreign(out, "study", _OURS)
    make_folder(out)
    with only_writer(out):
        cells = with_budget(study, cells, jobs, out, reporter.say)
        write_tests(study, cells[0].config.task, out)
        planned = plan(study, cells, out)
        for text in too_short_for(cells, [cell.config.train.steps for cell in cells]):
            reporter.say(f"note: {text}")
        pool = Pool(in_turns(planned, len(cells)), jobs, reporter)
        reporter.say(f"{study.name}: {so_many(len(cells), 'cell')} × {so_many(len(study.seeds), 'seed')}, "
                     f"{len(pool.waiting)} of {len(planned)} runs to do"
                     + (f", {jobs} at once; run the same command again to resume" if pool.waiting else ""))
        try:
            pool.work()
            count_operations(study, cells, out, reporter.progress)
        finally:
            found = write_report(study, cells, planned, command, out, operations_of(study, cells, out))
    return found


def dry_run(study: Study, jobs: int, reporter: Reporter, out: Path) -> dict[str, Any]:
    """What the study would run: each cell's parameters, updates, tokens and seconds, measured, and the smallest effects
    that it would find, from the runs in `out` where there are some; nothing is kept."""
    cells = cells_of(study)
    rows, counts, total = [], list[int](), 0.0
    for cell, measured in zip(cells, calibrate(cells, jobs, reporter.progress).values(), strict=True):
        steps = steps_for(study, measured)
        counts.append(steps)
        seconds = measured.preparation + steps * measured.seconds
        total += seconds * len(study.seeds)
        rows.append({"cell": cell.label, "baseline": cell.baseline, "levels": cell.levels,
                     "parameters": measured.parameters, "steps": steps, "tokens": round(steps * measured.tokens),
                     "seconds": round(seconds, 1)})
    found, origin = _smallest(study, cells, out)
    notes = too_short_for(cells, counts)
    return {"study": study.name, "cells": rows, "seeds": list(study.seeds), "runs": len(rows) * len(study.seeds),
            "seconds": round(total / jobs, 1), "at_once": jobs, "smallest_effects": [asdict(each) for each in found],
            "smallest_effects_from": origin, "notes": notes}


def too_short_for(cells: Sequence[Cell], steps: Sequence[int]) -> list[str]:
    """What the budget is too short for, a sentence each; of which cells, where it is not so of all."""
    labels: dict[str, list[str]] = {}
    for cell, count in zip(cells, steps, strict=True):
        for text in too_short(cell.config.train, count):
            labels.setdefault(text, []).append(cell.label)
    return [text if len(found) == len(cells) else f"{text} ({'; '.join(found)})" for text, found in labels.items()]


def _smallest(study: Study, cells: list[Cell], out: Path) -> tuple[list[Smallest], str]:
    """The smallest effects, and what they are reckoned from."""
    if out.exists():
        runs = [(planned, planned.read()) for planned in plan(study, cells, out)]
        if found := smallest_effects(study, results_of(study, cells, runs, {})):
            return found, f"the runs in {out}"
    compared = sum(not cell.is_baseline for cell in cells)
    guesses = [expected(metric, compared, len(study.seeds)) for metric in study.metrics]
    return [each for each in guesses if each is not None], "what such scores vary by in the shipped studies"
