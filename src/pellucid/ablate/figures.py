"""The figures of a study: learning curves with bands over seeds, a forest of effects, scores over test sets."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pellucid.ablate.results import Result, Run, is_lower_better, is_tested
from pellucid.ablate.scales import unit_of
from pellucid.ablate.study import Study
from pellucid.inspection.style import COLOURS, LINES, as_png, drawing, log_scale
from pellucid.language import so_many
from pellucid.train.journal import read_metrics

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_IN_A_PANEL = 6  # cells beside the baseline
_BASELINE = "#000000"
_REACH = 20.0  # an interval is drawn as far as so many times the largest difference, or a few seeds' hides all others
Curve = dict[int, list[float]]  # by step, the values of all seeds


def curves_of(runs: Sequence[Run]) -> dict[str, Curve]:
    """The validation loss over steps of each cell, of its trained runs."""
    curves: dict[str, Curve] = {}
    for planned, outcome in runs:
        if outcome.trained is not None:
            curve = curves.setdefault(planned.cell.label, {})
            for event in read_metrics(planned.folder / "metrics.jsonl"):
                if event["event"] == "validation":
                    curve.setdefault(event["step"], []).append(event["loss"])
    return curves


def panels(results: Sequence[Result]) -> list[tuple[str, list[str]]]:
    """Cells that are shown together: each baseline with a few of those that are compared with it."""
    found = []
    for baseline in [result.cell for result in results if result.cell.is_baseline]:
        others = [r.cell.label for r in results if r.cell.baseline == baseline.label and not r.cell.is_baseline]
        parts = range(0, max(len(others), 1), _IN_A_PANEL)
        found += [(baseline.label, others[i: i + _IN_A_PANEL]) for i in parts]
    return found


def learning_curves(results: Sequence[Result], curves: dict[str, Curve]) -> bytes | None:
    """Validation loss over steps: the mean over seeds, in a band from the lowest to the highest; None without any."""
    from matplotlib.figure import Figure

    shown = [(baseline, [label for label in (baseline, *others) if label in curves])
             for baseline, others in panels(results)]
    shown = [(baseline, labels) for baseline, labels in shown if labels]
    if not shown:
        return None
    across = min(2, len(shown))
    down = -(-len(shown) // across)
    every = [value for _, labels in shown for label in labels for values in curves[label].values() for value in values]
    low, high, ticks = log_scale([value for value in every if value > 0] or [1.0])
    with drawing():
        figure = Figure(figsize=(1.2 + 5.6 * across, 0.6 + 3.8 * down), layout="constrained")
        axes = figure.subplots(down, across, squeeze=False, sharey=True).flatten()
        for place, (baseline, labels) in zip(axes, shown):
            for i, label in enumerate(labels):
                colour = _BASELINE if label == baseline else COLOURS[(i - (labels[0] == baseline)) % 6]
                _band(place, curves[label], colour, label, "-" if label == baseline else LINES[i // 6])
            place.set(xlabel="update", yscale="log", ylim=(low, high))
            place.xaxis.get_major_locator().set_params(integer=True)
            place.yaxis.set_major_locator(ticks)
            place.yaxis.set_major_formatter("{x:g}")
            place.minorticks_off()
            place.grid(visible=True)
            place.legend(fontsize=8)
        for spare in axes[len(shown):]:
            spare.set_visible(False)
        figure.supylabel("validation loss, nats, logarithmic", fontsize=10)
        figure.suptitle("Learning curves: mean over seeds, band from lowest to highest")
        return as_png(figure)


def _band(axes: Axes, curve: Curve, colour: str, label: str, dash: str) -> None:
    steps = sorted(curve)
    axes.plot(steps, [sum(curve[s]) / len(curve[s]) for s in steps], dash, color=colour, label=label,
              marker="o" if len(steps) <= 12 else "", markersize=3)
    axes.fill_between(steps, [min(curve[s]) for s in steps], [max(curve[s]) for s in steps], color=colour, alpha=0.15,
                      linewidth=0)


def forest(metric: str, results: Sequence[Result]) -> bytes | None:
    """The difference of each cell to its baseline with its 95 % interval, and every seed's; None without any."""
    from matplotlib.figure import Figure

    rows = [result for result in results if not result.cell.is_baseline]
    if not any(result.scores[metric].test for result in rows):
        return None
    baselines = {result.cell.label: result for result in results}
    most = _REACH * max((abs(value) for result in rows for value in _by_seed(
        result.scores[metric].values, baselines[result.cell.baseline].scores[metric].values)), default=0.0) or math.inf
    with drawing():
        figure = Figure(figsize=(8.0, 0.36 * len(rows) + 1.5), layout="constrained")
        axes = figure.add_subplot()
        axes.axvline(0, color=_BASELINE, linewidth=1)
        for y, result in enumerate(rows):
            score, other = result.scores[metric], baselines[result.cell.baseline].scores[metric].values
            if score.test is None and result.is_baseline_again:
                axes.annotate("same outputs as the baseline", (0, y), xytext=(5, 0), textcoords="offset points",
                              va="center", fontsize=9)
                continue
            if score.test is None:
                axes.annotate(_without(metric, result), (0, y), xytext=(5, 0),
                              textcoords="offset points", va="center", fontsize=9, color=COLOURS[1])
                continue
            colour = COLOURS[0] if score.differs else "#888888"
            effect = score.test.difference
            seeds = _by_seed(score.values, other)
            axes.plot(seeds, [y + 0.18] * len(seeds), "|", color=colour, markersize=6, alpha=0.7)
            if effect.low is not None and effect.high is not None:
                ends = max(effect.low, -most), min(effect.high, most)
                axes.plot(ends, [y, y], "-", color=colour, linewidth=2)
                for end, whole, arrow in zip(ends, (effect.low, effect.high), "<>", strict=True):
                    if end != whole:
                        axes.plot([end], [y], arrow, color=colour, markersize=6)
            axes.plot([effect.mean], [y], "o", color=colour, markersize=6)
        axes.set_yticks(range(len(rows)), [result.cell.label + (" †" if result.confounded else "") for result in rows])
        axes.set_ylim(len(rows) - 0.4, -0.6)
        axes.tick_params(axis="y", length=0)
        better = "left" if is_lower_better(metric) else "right"
        unit = ", ".join(filter(None, (unit_of(metric), f"{better} of 0 is better")))
        axes.set(xlabel=f"{metric}: difference to the baseline ({unit})",
                 title="Effects with 95 % intervals; blue: p ≤ 0.05 after Holm; small ticks: seeds; † confounded")
        axes.locator_params(axis="x", nbins=6)
        axes.xaxis.set_major_formatter("{x:,.10g}")  # the factor of a million would lie upon the label
        axes.grid(visible=True, axis="x")
        return as_png(figure)


def _by_seed(values: Mapping[int, float], other: Mapping[int, float]) -> list[float]:
    """The differences, of the seeds that both have."""
    return [value - other[seed] for seed, value in values.items() if seed in other]


def _without(metric: str, result: Result) -> str:
    """Why a cell has no difference to its baseline."""
    if result.scores[metric].values and not is_tested(result, metric):
        return "a mean over other tokens: not compared"
    if result.diverged:
        return f"diverged under {so_many(len(result.diverged), 'seed')}"
    return "no run to compare"


def over_test_sets(study: Study, results: Sequence[Result], score: str) -> bytes | None:
    """A score over the test sets in their order, a line a cell; None where fewer than two sets have it, as before the
    first evaluation."""
    from matplotlib.figure import Figure

    sets = [name for name in ("test", *study.tests) if f"{name}.{score}" in study.metrics]
    if sum(any(result.scores[f"{name}.{score}"].values for result in results) for name in sets) < 2:
        return None
    with drawing():
        figure = Figure(figsize=(8.0, 4.6), layout="constrained")
        axes = figure.add_subplot()
        for i, result in enumerate(results):
            found = [(x, result.scores[f"{name}.{score}"].values.values()) for x, name in enumerate(sets)]
            curve = {x: list(values) for x, values in found if values}
            colour = _BASELINE if result.cell.is_baseline else COLOURS[(i - 1) % 6]
            if curve:
                _band(axes, curve, colour, result.cell.label, LINES[max(i - 1, 0) // 6 % len(LINES)])
        axes.set_xticks(range(len(sets)), sets)
        unit = ", ".join(filter(None, (score, unit_of(score))))
        axes.set(xlabel="test set", ylabel=unit, title=f"{score}: mean over seeds, band from lowest to highest")
        axes.grid(visible=True)
        axes.legend(fontsize=8)
        return as_png(figure)
