"""Training as pictures: loss, scores, rate and gradient norm over steps, and the flow of gradients through parts."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pellucid.inspection.points import Points
from pellucid.inspection.record import spoken
from pellucid.inspection.style import SEQUENTIAL, as_png, drawing, drawn, drawn_name, line_of, log_scale, logarithmic

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Events = Sequence[dict[str, Any]]
Line = list[tuple[int, float]]  # updates and values
_NO_SCORES = {"event", "step", "loss", "perplexity"}
_NAMES = {"bleu": "BLEU", "macro_f1": "macro-F1"}  # of scores, where not their key


def line(events: Events, event: str, key: str) -> Line:
    """A number of the events of a kind over the updates, where it is one and finite."""
    return [(one["step"], float(one[key])) for one in events if one["event"] == event and _is_number(one.get(key))]


def recorded(events: Events, key: str) -> list[tuple[int, dict[str, float]]]:
    """What was logged by part: the update, and the part's numbers."""
    tables = [(one["step"], one[key]) for one in events if one["event"] == "train" and isinstance(one.get(key), dict)]
    numbers = [(step, {part: float(value) for part, value in table.items() if _is_number(value)})
               for step, table in tables]
    return [(step, table) for step, table in numbers if table]


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


def scores(events: Events) -> dict[str, Line]:
    """Every score of the validations besides the loss, in the order in which they come: percentages."""
    names = dict.fromkeys(key for one in events if one["event"] == "validation" for key in one
                          if key not in _NO_SCORES)
    found = {name: line(events, "validation", name) for name in names}
    return {name: points for name, points in found.items() if points}


def training_points(events: Events) -> Points:
    """All that the picture of training draws, and the perplexity."""
    keys = [("train", key) for key in ("loss", "learning_rate", "gradient_norm")]
    keys += [("validation", key) for key in ("loss", "perplexity", *scores(events))]
    return Points(("event", "measure", "step", "value"),
                  ((event, key, step, value) for event, key in keys for step, value in line(events, event, key)))


def training_curves(events: Events, unit: str) -> bytes:
    """Loss, validation scores if there are some, learning rate and whole gradient norm over the updates, one below the
    other, as a PNG."""
    from matplotlib.figure import Figure

    scored = scores(events)
    panels = ["loss", *["scores"] * bool(scored), "rate", "norm"]
    with drawing():
        figure = Figure(figsize=(8.5, 8.2 + 2.2 * bool(scored)), layout="constrained")
        axes = dict(zip(panels, figure.subplots(len(panels), 1, sharex=True, height_ratios=[
            3 if panel == "loss" else 2 for panel in panels]), strict=True))
        _draw(axes["loss"], line(events, "train", "loss"), drawn("training, as minimised"), 0)
        _draw(axes["loss"], line(events, "validation", "loss"), drawn("validation, plain cross-entropy"), 1)
        axes["loss"].set(title=drawn("Loss"), ylabel=drawn(unit))
        axes["loss"].legend()
        for i, (name, points) in enumerate(scored.items(), start=1):
            wider = 1.2 * (len(scored) - i)  # so that of equal ones all are seen
            _draw(axes["scores"], points, _NAMES.get(name) or drawn(name), i, wider)
        if scored:
            axes["scores"].set(title=drawn("Validation scores"), ylabel="%")
            axes["scores"].legend()
            _keep_to_shares(axes["scores"], [value for points in scored.values() for _, value in points])
        _draw(axes["rate"], line(events, "train", "learning_rate"), "", 0)
        axes["rate"].set(title=drawn("Learning rate"), ylabel=drawn("step size"))
        axes["rate"].ticklabel_format(axis="y", style="sci", scilimits=(-2, 2), useMathText=True)
        norms = line(events, "train", "gradient_norm")
        _draw(axes["norm"], norms, "", 0)
        axes["norm"].set(title=drawn("Gradient norm, before clipping"), ylabel=drawn("‖g‖₂, logarithmic"),
                         xlabel=drawn("update"))
        logarithmic(axes["norm"], "y", [value for _, value in norms])
        _count_whole(axes["norm"])
        for one in axes.values():
            one.grid(visible=True)
        return as_png(figure)


def _keep_to_shares(axes: Axes, values: Sequence[float]) -> None:
    """No number beside the axis is below 0 % or above 100 %, unless a value is."""
    low, high = axes.get_ylim()
    low, high = max(low, min(0.0, *values)), min(high, max(100.0, *values))
    axes.set_yticks([tick for tick in axes.get_yticks() if low <= tick <= high])


def _count_whole(axes: Axes) -> None:
    """Whole numbers across: there is no half of an update."""
    from matplotlib.ticker import MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator("auto", integer=True, min_n_ticks=1))  # of one update, too


def _draw(axes: Axes, points: Line, label: str, i: int, wider: float = 0.0) -> None:
    colour, dash = line_of(i)
    (one,) = axes.plot([x for x, _ in points], [y for _, y in points], color=colour, linestyle=dash, label=label,
                       marker="o" if len(points) <= 30 else "", markersize=4 + 2 * wider)
    one.set_linewidth(one.get_linewidth() + wider)


def flow_points(events: Events, key: str) -> Points:
    """`key` of every part over the updates."""
    return Points(("step", "part", "value"), _flow_rows(events, key))


def _flow_rows(events: Events, key: str) -> Iterator[tuple[object, ...]]:
    for step, values in recorded(events, key):
        yield from ((step, part, value) for part, value in values.items())


def flow(events: Events, key: str, title: str, unit: str, names: Mapping[str, str]) -> bytes | None:
    """`key` of every part over the updates, as a PNG: a row a part, in the order of the model, grey where it is 0; None
    where the metrics have no such record. `names` are those of the parts that the model has."""
    from matplotlib.colors import LogNorm
    from matplotlib.figure import Figure
    from numpy import asarray, nan

    found = recorded(events, key)
    parts = list(dict.fromkeys(part for _, values in found for part in values))
    values = asarray([[each.get(part) or nan for _, each in found] for part in parts])
    positive = values[values > 0].tolist()
    if not positive:
        return None
    low, high, ticks = log_scale(positive)
    steps = [step for step, _ in found]
    with drawing():
        figure = Figure(figsize=(8.5, 0.3 * len(parts) + 1.6), layout="constrained")
        axes = figure.add_subplot()
        edges = [steps[0] - (steps[1] - steps[0] if len(steps) > 1 else 1), *steps]
        image = axes.pcolormesh(edges, range(len(parts) + 1), values, cmap=SEQUENTIAL, norm=LogNorm(low, high))
        axes.set_facecolor("#cccccc")
        axes.set_yticks([i + 0.5 for i in range(len(parts))],
                        [drawn_name(names.get(part) or spoken(part)) for part in parts])
        axes.invert_yaxis()
        axes.tick_params(axis="y", length=0)
        axes.set(title=title, xlabel=drawn("update"), xlim=(edges[0], edges[-1]))
        _count_whole(axes)
        bar = figure.colorbar(image, ax=axes, label=unit, ticks=ticks, format="{x:g}")
        bar.minorticks_off()
        return as_png(figure)
