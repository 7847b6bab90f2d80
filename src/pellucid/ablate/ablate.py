"""`pellucid ablate` from end to end: read, plan, run what is missing, report."""

from pathlib import Path
from typing import Any

from pellucid.ablate.agenda import calibrate, plan, steps_for, with_budget, write_tests
from pellucid.ablate.cells import cells_of
from pellucid.ablate.processes import Pool
from pellucid.ablate.report import write_report
from pellucid.ablate.results import Result
from pellucid.ablate.study import Study
from pellucid.files import make_folder
from pellucid.train.journal import Reporter
from pellucid.train.train import only_writer


def ablate(study: Study, out: Path, jobs: int, command: str, reporter: Reporter) -> list[Result]:
    """Runs what is missing of the study in the folder `out`, and writes the report; also when it is stopped.

    Raises:
        Stopped: by a signal.
        UserError: the study or one of its runs cannot go on.
    """
    cells = cells_of(study)
    make_folder(out)
    with only_writer(out):
        cells = with_budget(study, cells, jobs, out, reporter.say)
        write_tests(study, cells[0].config.task, out)
        planned = plan(study, cells, out)
        pool = Pool(planned, jobs, reporter)
        reporter.say(f"{study.name}: {len(cells)} cells × {len(study.seeds)} seeds, {len(pool.waiting)} of "
                     f"{len(planned)} runs to do, {jobs} at once; run the same command again to resume")
        try:
            pool.work()
        finally:
            results = write_report(study, cells, planned, command, out)
    return results


def dry_run(study: Study, jobs: int, reporter: Reporter) -> dict[str, Any]:
    """What the study would run: each cell's parameters, updates, tokens and seconds, measured; nothing is kept."""
    cells = cells_of(study)
    rows, total = [], 0.0
    for cell, measured in zip(cells, calibrate(cells, jobs, reporter.progress).values(), strict=True):
        steps = steps_for(study, measured)
        seconds = measured.preparation + steps * measured.seconds
        total += seconds * len(study.seeds)
        rows.append({"cell": cell.label, "baseline": cell.baseline, "levels": cell.levels,
                     "parameters": measured.parameters, "steps": steps, "tokens": round(steps * measured.tokens),
                     "seconds": round(seconds, 1)})
    return {"study": study.name, "cells": rows, "seeds": list(study.seeds), "runs": len(rows) * len(study.seeds),
            "seconds": round(total / jobs, 1), "at_once": jobs}
