"""The tables of a report, as text in cells: written once, and set in Markdown, LaTeX and HTML."""

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass

from pellucid.ablate.cells import told_level
from pellucid.ablate.grid import Effect, Grid
from pellucid.ablate.power import LEVEL, Smallest
from pellucid.ablate.results import Result, Run, smallest_effects
from pellucid.ablate.scales import scale_of, unit_of
from pellucid.ablate.study import MEASURED, Study
from pellucid.ablate.telling import NONE, arrow, better, counted, number, probability, signed, span
from pellucid.train.journal import duration


@dataclass(frozen=True)
class Table:
    """A table of plain text; the columns in `numbers` are aligned to the right."""

    title: str
    lead: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numbers: tuple[int, ...]


def tables_of(study: Study, results: Sequence[Result], grids: Sequence[Grid]) -> list[Table]:
    """The overview, a table a metric, what the grid says of each, the cells, what the study could have found, and what
    diverged, if anything."""
    tables = [overview(study, results), *(metric_table(metric, results) for metric in study.metrics),
              *(grid_table(study, grid) for grid in grids), cells_table(results)]
    further = [smallest_table(smallest_effects(study, results)), divergences(results)]
    return tables + [table for table in further if table.rows]


def overview(study: Study, results: Sequence[Result]) -> Table:
    """Every metric of every cell: mean and interval."""
    rows = []
    for result in results:
        told = []
        for metric, score in result.scores.items():
            mark = " *" if score.differs else ""
            held = "" if score.interval is None or score.interval.high is None else \
                f" ({span(metric, score.interval, False)})"
            told.append(NONE if score.interval is None else f"{number(metric, score.interval.mean)}{held}{mark}")
        rows.append((_named(result), *told))
    lead = f"Mean over seeds (95 % interval). * differs from the baseline: p ≤ {LEVEL} after Holm's correction."
    if len(study.seeds) == 1:
        lead = "One seed: there is no interval and no test, and a difference may be chance."
    if "validation.loss" in study.metrics:
        lead += (" validation.loss is the best look during training: where there were several, it flatters all cells "
                 "a little.")
    head = ("cell", *(f"{_with_unit(metric)} {arrow(metric)}" for metric in study.metrics))
    return Table("Overview", lead, head, tuple(rows), tuple(range(1, len(study.metrics) + 1)))


def metric_table(metric: str, results: Sequence[Result]) -> Table:
    """One metric with intervals, differences and p-values."""
    rows = []
    for result in results:
        score = result.scores[metric]
        test = score.test
        rows.append((_named(result), str(len(score.values)),
                     NONE if score.interval is None else number(metric, score.interval.mean),
                     span(metric, score.interval, False),
                     NONE if test is None else signed(metric, test.difference.mean),
                     span(metric, None if test is None else test.difference, True),
                     probability(test.p if test else None), probability(score.p) + (" *" if score.differs else "")))
    scores = [result.scores[metric] for result in results]
    scored = [result for result in results if result.scores[metric].values]
    alone = [result.cell.label for result in scored if not result.scores[metric].with_sentences]
    over = "seeds alone" if len(alone) == len(scored) else "seeds and test sentences" + (
        f", but over seeds alone where they are of {'; '.join(alone)}, whose outputs or test data are gone"
        if alone else "")
    lead = ("Difference: the cell's minus the baseline's, seed by seed; p of the paired test, then after Holm's "
            "correction over the cells of this table.")
    if any(score.interval is not None and score.interval.low is not None for score in scores):
        lead += f" Intervals and tests are over {over}."
    if metric in MEASURED and (shared := max((result.at_once for result in results), default=1)) > 1:
        lead += f" Measured while {shared} runs shared the machine: what ran beside a cell weighs on it."
    return Table(f"{metric} ({better(metric)})", lead,
                 ("cell", "seeds", "mean", "95 % interval", "difference", "95 % interval", "p", "p, Holm"), tuple(rows),
                 tuple(range(1, 8)))


def grid_table(study: Study, grid: Grid) -> Table:
    """Main effects and interactions on one metric."""
    metric, effects = grid.metric, [*grid.main, *(effect for pair in grid.pairs for effect in pair.interactions)]
    rows = []
    for effect in effects:
        test = effect.test
        on_scale = NONE if test is None or test.on_scale is None else f"{test.on_scale:+.4f}".replace("-", "−")
        reach = NONE if test is None or test.error is None else f"± {test.error.reach():.4f}"
        rows.append((_effect(study, effect), NONE if test is None else signed(metric, test.difference.mean),
                     span(metric, None if test is None else test.difference, True), on_scale, reach,
                     probability(test.p if test else None), probability(effect.p) + (" *" if effect.differs else "")))
    scale = scale_of(metric, 500).kind
    lead = ("A level alone: what it does in place of the baseline's, on average over all levels of the other factors. "
            "Two with ×: what both come to beyond the sum of what each does alone. Both are measured, added up and "
            f"tested on the metric's scale ({scale}), and told in its unit: of an interaction, the score minus the one "
            "that the sum would give. p, Holm: over the rows of this table.")
    return Table(f"Main effects and interactions: {metric} ({better(metric)})", lead,
                 ("effect", "difference", "95 % interval", "on the scale", "95 % interval", "p", "p, Holm"),
                 tuple(rows), tuple(range(1, 7)))


def _effect(study: Study, effect: Effect) -> str:
    """``post-norm × 3 layers``."""
    return " × ".join(told_level(study, factor, level) for factor, level in effect.contrast.levels.items())


def smallest_table(effects: Sequence[Smallest]) -> Table:
    """What the study could have found."""
    rows = tuple((_with_unit(each.metric), str(each.cells), number(each.metric, each.baseline), lost(each),
                  gained(each)) for each in effects)
    return Table("Smallest effects that would be found",
                 "A cell that truly lies this far from the baseline is told apart in four of five such studies, after "
                 "Holm's correction; from the middle one of the errors that were seen. Smaller ones may well be there. "
                 f"Where {NONE} stands, no score lies that far from it: no such effect could be found.",
                 ("metric", "cells compared", "baseline", "below", "above"), rows, (1, 2, 3, 4))


def either(effect: Smallest) -> str:
    """Both ways, as far as there are such scores: ``−6 % or +7 %``."""
    told = [size for size in (lost(effect), gained(effect)) if size != NONE]
    return " or ".join(told) or "none that such scores could have"


def lost(effect: Smallest) -> str:
    """How far below the baseline a cell must lie to be found: ``−3.4``, ``−6 %``; ``–`` where no score does."""
    if effect.down is None:
        return NONE
    if effect.is_relative:
        return f"−{100 * effect.down / effect.baseline:.0f} %"
    return signed(effect.metric, 0.0 - effect.down)


def gained(effect: Smallest) -> str:
    """How far above."""
    if effect.up is None:
        return NONE
    if effect.is_relative:
        return f"+{100 * effect.up / effect.baseline:.0f} %"
    return signed(effect.metric, effect.up)


def cells_table(results: Sequence[Result]) -> Table:
    """What each cell costs, and where its comparison is confounded."""
    rows = [(_named(result), counted(result.parameters), counted(result.tokens),
             NONE if result.all_operations is None else f"{result.all_operations:.2e}",
             counted(result.tokens_per_second), NONE if result.seconds is None else duration(result.seconds),
             "; ".join(result.confounded) or NONE) for result in results]
    return Table("Cost, and what else differs",
                 "Means over seeds. Operations: floating-point, of the matrix products of a whole run, counted in a "
                 "rehearsal of one update. Where parameters, tokens, operations or updates of pretraining differ from "
                 "the baseline's by more than 3 %, the comparison is confounded: the difference may be theirs.",
                 ("cell", "parameters", "tokens", "operations", "tokens/s", "training time", "confounded by"),
                 tuple(rows), (1, 2, 3, 4, 5))


def divergences(results: Sequence[Result]) -> Table:
    """Every run that left the finite numbers."""
    rows = [(_named(result), str(seed), f"{found.step:,}", str(found))
            for result in results for seed, found in result.diverged.items()]
    return Table("Diverged", "These runs count as results, but have no score: the means of their cells are of the "
                 "other seeds, and look better than the cells are.", ("cell", "seed", "step", "what happened"),
                 tuple(rows), (1, 2))


def results_csv(study: Study, runs: Sequence[Run]) -> str:
    """A row a run."""
    factors = list(study.factors)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["cell", *factors, "seed", "status", "steps", "parameters", "source_tokens", "target_tokens",
                     "threads", "at_once", *MEASURED, *(m for m in study.metrics if m not in MEASURED), "diverged_at",
                     "why", "run"])
    for planned, outcome in runs:
        trained, diverged = outcome.trained or {}, outcome.diverged
        status = "diverged" if diverged else "missing" if planned.lacks(outcome) else "done"
        metrics = [*MEASURED, *(m for m in study.metrics if m not in MEASURED)]
        writer.writerow([planned.cell.label, *(planned.cell.levels[factor] for factor in factors), planned.config.seed,
                         status, *(trained.get(key, "") for key in ("step", "parameters", "source_tokens",
                                                                    "target_tokens")),
                         outcome.threads or "", outcome.at_once,
                         *("" if (value := outcome.value(metric)) is None else value for metric in metrics),
                         diverged.step if diverged else "", diverged or "", planned.folder])
    return text.getvalue()


def _with_unit(metric: str) -> str:
    return ", ".join(filter(None, (metric, unit_of(metric))))


def _named(result: Result) -> str:
    notes = [f"{len(result.diverged)} diverged"] if result.diverged else []
    notes += [f"{result.missing} to be done"] if result.missing else []
    notes += ["same outputs as the baseline"] if result.is_baseline_again else []
    return result.cell.label + (f" ({', '.join(notes)})" if notes else "")
