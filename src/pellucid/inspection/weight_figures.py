"""The weights as pictures: how those of each part are spread, and how large they are beside their gradients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from torch import Tensor

from pellucid.inspection.style import COLOURS, as_png, drawing, drawn, drawn_name, logarithmic
from pellucid.inspection.weights import KINDS, Matrices

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_HIGH = 1.4  # rows that the highest hill takes
_HILL, _ROW = 0.42, 0.3  # inches
Range = tuple[float, float, float]  # the 10th percentile, the median, the 90th


def hills(edges: Tensor, matrices: Sequence[Matrices], names: Mapping[str, str]) -> bytes:
    """A row a part, in it a hill for each kind of matrix: the histogram of its weights, each of the same area. `names`
    are those of the parts."""
    from matplotlib.figure import Figure

    parts = list(dict.fromkeys(one.part for one in matrices))
    middles = ((edges[:-1] + edges[1:]) / 2).numpy()
    scale = _HIGH / max(float(one.shares.max()) for one in matrices)
    with drawing():
        figure = Figure(figsize=(8.5, _HILL * (len(parts) + _HIGH) + 1.6), layout="constrained")
        axes = figure.add_subplot()
        for one in matrices:
            row = parts.index(one.part)
            curve, colour = row - scale * one.shares.numpy(), COLOURS[KINDS.index(one.kind)]
            axes.fill_between(middles, row, curve, color=colour, alpha=0.2, linewidth=0, zorder=2 * row)
            axes.plot(middles, curve, color=colour, linewidth=1.1, zorder=2 * row + 1)
        _rows(axes, [names[part] for part in parts], _HIGH)
        axes.axvline(0, color="#00000033", linewidth=0.8)
        axes.set(title=drawn("Distribution of the weights, by part"), xlabel=drawn("weight"),
                 xlim=(float(edges[0]), float(edges[-1])))
        _kinds(axes, matrices)
        return as_png(figure)


def sizes(matrices: Sequence[Matrices], gradients: Mapping[str, Range], names: Mapping[str, str]) -> bytes:
    """The root mean square of each part's matrices; beside it the norm of its gradient, where that is known. `names`
    are those of the parts."""
    from matplotlib.figure import Figure

    parts = list(dict.fromkeys(one.part for one in matrices))
    with drawing():
        figure = Figure(figsize=(8.5 if gradients else 6.0, _ROW * len(parts) + 1.8), layout="constrained")
        axes = figure.subplots(1, 2 if gradients else 1, sharey=True, squeeze=False)[0]
        for one in matrices:
            axes[0].plot(one.size, parts.index(one.part), "o", color=COLOURS[KINDS.index(one.kind)], markersize=6)
        _rows(axes[0], [names[part] for part in parts], 0.5)
        logarithmic(axes[0], "x", [one.size for one in matrices])
        axes[0].set(title=drawn("Size of the weights"), xlabel=drawn("root mean square, logarithmic"))
        _kinds(axes[0], matrices)
        if gradients:
            shown = {part: gradients[part] for part in parts if part in gradients}
            for part, (low, middle, high) in shown.items():
                axes[1].plot([low, high], [parts.index(part)] * 2, color=COLOURS[3], linewidth=3, alpha=0.5)
                axes[1].plot(middle, parts.index(part), "o", color=COLOURS[3], markersize=6)
            logarithmic(axes[1], "x", [value for values in shown.values() for value in values])
            axes[1].tick_params(axis="y", length=0)
            axes[1].set(title=drawn("Gradient norm, before clipping"),
                        xlabel=drawn("‖g‖₂ of logged updates: median, 10 % to 90 %"))
        for one in axes:
            one.grid(visible=True)
        return as_png(figure)


def _rows(axes: Axes, names: Sequence[str], above: float) -> None:
    """The names of the parts, the first one at the top."""
    axes.set_yticks(range(len(names)), [drawn_name(name) for name in names])
    axes.set_ylim(len(names) - 0.5, -above)
    axes.tick_params(axis="y", length=0)


def _kinds(axes: Axes, matrices: Sequence[Matrices]) -> None:
    """Which colour is which kind, below the axes."""
    from matplotlib.lines import Line2D

    found = {one.kind for one in matrices}
    axes.legend(handles=[Line2D([], [], color=COLOURS[i], linewidth=4, label=drawn(kind))
                         for i, kind in enumerate(KINDS) if kind in found],
                loc="lower center", bbox_to_anchor=(0.5, 1.08), ncols=3)
