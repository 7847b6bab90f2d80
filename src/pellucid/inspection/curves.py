"""Training as pictures: loss, rate and gradient norm over steps, and the flow of gradients through the parts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pellucid.inspection.record import spoken
from pellucid.inspection.style import COLOURS, SEQUENTIAL, as_png, drawing, log_scale

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Events = Sequence[dict[str, Any]]


def training_curves(events: Events, unit: str) -> bytes:
    """Loss, learning rate and whole gradient norm over the updates, one below the other, as a PNG."""
    from matplotlib.figure import Figure

    train = [event for event in events if event["event"] == "train"]
    validation = [event for event in events if event["event"] == "validation"]
    with drawing():
        figure = Figure(figsize=(8.5, 8.2), layout="constrained")
        loss, rate, norm = figure.subplots(3, 1, sharex=True, height_ratios=(3, 2, 2))
        _line(loss, train, "loss", "training, as minimised", 0)
        _line(loss, validation, "loss", "validation, plain cross-entropy", 1)
        _line(rate, train, "learning_rate", "", 0)
        _line(norm, train, "gradient_norm", "", 0)
        loss.set(title="Loss", ylabel=unit)
        loss.legend()
        rate.set(title="Learning rate", ylabel="step size")
        rate.ticklabel_format(axis="y", style="sci", scilimits=(-2, 2), useMathText=True)
        norm.set(title="Gradient norm, before clipping", ylabel="‖g‖₂, logarithmic", xlabel="update")
        _logarithmic(norm, [event["gradient_norm"] for event in train if event.get("gradient_norm")])
        for axes in (loss, rate, norm):
            axes.grid(visible=True)
        return as_png(figure)


def _line(axes: Axes, events: Events, key: str, label: str, colour: int) -> None:
    points = [(event["step"], event[key]) for event in events if key in event]
    marker = "o" if len(points) <= 30 else ""
    axes.plot([x for x, _ in points], [y for _, y in points], color=COLOURS[colour], label=label, marker=marker,
              markersize=4)


def _logarithmic(axes: Axes, values: Sequence[float]) -> None:
    if values:
        low, high, ticks = log_scale(values)
        axes.set(yscale="log", ylim=(low, high))
        axes.yaxis.set_major_locator(ticks)
        axes.yaxis.set_major_formatter("{x:g}")
        axes.minorticks_off()


def flow(events: Events, key: str, title: str, unit: str) -> bytes | None:
    """`key` of every part over the updates, as a PNG: a row a part, in the order of the model, grey where it is 0; None
    where the metrics have no such record."""
    from matplotlib.colors import LogNorm
    from matplotlib.figure import Figure
    from numpy import asarray, nan

    recorded = [event for event in events if event["event"] == "train" and event.get(key)]
    if not recorded:
        return None
    parts = list(dict.fromkeys(part for event in recorded for part in event[key]))
    values = asarray([[event[key].get(part) or nan for event in recorded] for part in parts])
    steps = [event["step"] for event in recorded]
    positive = values[values > 0].tolist()
    if not positive:
        return None
    low, high, ticks = log_scale(positive)
    with drawing():
        figure = Figure(figsize=(8.5, 0.3 * len(parts) + 1.6), layout="constrained")
        axes = figure.add_subplot()
        edges = [steps[0] - (steps[1] - steps[0] if len(steps) > 1 else 1), *steps]
        image = axes.pcolormesh(edges, range(len(parts) + 1), values, cmap=SEQUENTIAL, norm=LogNorm(low, high))
        axes.set_facecolor("#cccccc")
        axes.set_yticks([i + 0.5 for i in range(len(parts))], [spoken(part) for part in parts])
        axes.invert_yaxis()
        axes.tick_params(axis="y", length=0)
        axes.set(title=title, xlabel="update", xlim=(edges[0], edges[-1]))
        bar = figure.colorbar(image, ax=axes, label=unit, ticks=ticks, format="{x:g}")
        bar.minorticks_off()
        return as_png(figure)
