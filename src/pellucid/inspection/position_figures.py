"""Positions as pictures: the matrix and some of its curves, or the biases, or the angles of a scheme."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor

from pellucid.inspection.positions import by_distance
from pellucid.inspection.sheet import Colours, lay, lay_scale, new_sheet
from pellucid.inspection.style import COLOURS, DIVERGING, as_png, as_sheet_png, drawing, drawn, line_of, stand

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_ACROSS, _WIDE = 8, 8.8  # maps of biases in a row, and the inches that these take, at most
_GAP, _ABOVE, _NAME = 0.2, 0.25, 0.5  # inches: beside and above such a map, and for the name above those of a layer
_NEAR = 32  # tokens, that curves of a bias show on either side
_FEW = 36  # points of a curve that are marked each


def encoding(matrix: Tensor, title: str) -> bytes:
    """A matrix [positions, D] that is added to embeddings: itself, some of its columns as curves, and the cosine
    similarity of every two positions."""
    from matplotlib.figure import Figure

    width, limit = matrix.shape[1], float(matrix.abs().max()) or 1.0
    with drawing():
        figure = Figure(figsize=(9.0, 7.6), layout="constrained")
        figure.suptitle(title)
        places = figure.subplot_mosaic([["matrix", "matrix"], ["curves", "cosine"]], width_ratios=(1.4, 1))
        image = places["matrix"].imshow(matrix.numpy(), aspect="auto", cmap=DIVERGING, vmin=-limit, vmax=limit,
                                        interpolation="nearest")
        places["matrix"].set(title=drawn("Added to the embedding at each position"), xlabel=drawn("feature"),
                             ylabel=drawn("position"))
        figure.colorbar(image, ax=places["matrix"], label=drawn("value"), aspect=20)
        features = [int(width * share) // 2 * 2 for share in (0, 0.1, 0.2, 0.35, 0.5)]
        _curves(places["curves"], matrix, features, drawn("Some of the features"), drawn("feature"), drawn("value"))
        unit = torch.nn.functional.normalize(matrix, dim=-1)
        image = places["cosine"].imshow((unit @ unit.T).numpy(), cmap=DIVERGING, vmin=-1, vmax=1)
        places["cosine"].set(title=drawn("Similarity of positions"), xlabel=drawn("position"),
                             ylabel=drawn("position"))
        figure.colorbar(image, ax=places["cosine"], label=drawn("cosine similarity"), shrink=0.75)
        for name in ("matrix", "cosine"):
            _count(places[name], "both")
        return as_png(figure)


def rotation(cosines: Tensor, title: str) -> bytes:
    """cos of rotary angles [positions, pairs]: the matrix, some pairs as curves, and how q·k of equal vectors changes
    with their distance."""
    from matplotlib.figure import Figure

    pairs = cosines.shape[1]
    with drawing():
        figure = Figure(figsize=(9.0, 7.6), layout="constrained")
        figure.suptitle(title)
        places = figure.subplot_mosaic([["matrix", "matrix"], ["curves", "product"]])
        image = places["matrix"].imshow(cosines.T.numpy(), aspect="auto", cmap=DIVERGING, vmin=-1, vmax=1,
                                        interpolation="nearest")
        places["matrix"].set(title=drawn("Rotation of each pair of features"), xlabel=drawn("position"),
                             ylabel=drawn("pair of features"))
        _count(places["matrix"], "both")
        figure.colorbar(image, ax=places["matrix"], label=drawn("cos(angle)"), aspect=20)
        _curves(places["curves"], cosines, [int(pairs * share) for share in (0, 0.125, 0.25, 0.5, 0.75)],
                drawn("Some of the pairs"), drawn("pair"), drawn("cos(angle)"))
        places["product"].plot(cosines.mean(1).numpy(), color=line_of(0)[0])
        places["product"].set(title=drawn("q·k of equal vectors"), xlabel=drawn("distance (tokens)"),
                              ylabel=drawn("q·k, 1 at distance 0"))
        places["product"].grid(visible=True)
        return as_png(figure)


def _curves(axes: Axes, matrix: Tensor, columns: Sequence[int], title: str, what: str, unit: str) -> None:
    """Some columns of a matrix [positions, columns] as lines over the positions."""
    for i, column in enumerate(dict.fromkeys(columns)):
        colour, dash = line_of(i)
        axes.plot(matrix[:, column].numpy(), color=colour, linestyle=dash, label=f"{column}")
    axes.set(title=title, xlabel=drawn("position"), ylabel=unit)
    axes.legend(title=what, fontsize=9, loc="center left", bbox_to_anchor=(1.0, 0.5))
    axes.grid(visible=True)
    _count(axes, "x")


def _count(axes: Axes, which: Literal["x", "both"]) -> None:
    """Whole numbers at the ticks."""
    axes.locator_params(axis=which, integer=True, min_n_ticks=1)


def bias_matrices(biases: Sequence[Tensor], names: Sequence[str], title: str) -> bytes:
    """Biases [H, L, L]: rows of maps an attention, a map a head, one scale for all; nothing where they are NaN."""
    heads, limit = len(biases[0]), max(float(bias.nan_to_num().abs().max()) for bias in biases) or 1.0
    down = -(-heads // _ACROSS)
    across = -(-heads // down)
    side = min(1.5, _WIDE / across - _GAP)
    wide, high = side + _GAP, side + _ABOVE
    block = high * down + _NAME
    right, top, colours = wide * across, block * len(biases), Colours(DIVERGING, -limit, limit)
    with drawing():
        sheet = new_sheet(right, top)
        for i, (bias, name) in enumerate(zip(biases, names, strict=True)):
            above = top - block * i - _NAME
            sheet.text(0, above + 0.05, name, va="bottom", fontsize=11)
            for head, matrix in enumerate(bias):
                row, column = divmod(head, across)
                x, y = wide * column, above - high * (row + 1)
                lay(sheet, matrix.numpy(), (x, x + side, y, y + side), colours)
                sheet.text(x + side / 2, y + side + 0.05, drawn("head {number}").format(number=head + 1), ha="center",
                           va="bottom", fontsize=9)
                _count_ends(sheet, len(matrix), (x, y, side), column == 0, head + across >= heads)
        middle = (right - _GAP) / 2
        sheet.text(middle, top, title, ha="center", va="bottom", fontsize=12)
        sheet.text(middle, -0.3, drawn("position of the key"), ha="center", va="top")
        stand(sheet.text(-0.35, top / 2, drawn("position of the query"), rotation=90, ha="right", va="center"), "right")
        lay_scale(sheet, right, top / 2, min(4.0, 0.9 * top), colours, drawn("added to the score"))
        return as_sheet_png(sheet)


def _count_ends(sheet: Axes, length: int, place: tuple[float, float, float], is_left: bool, is_lowest: bool) -> None:
    """The first and the last position at a map that begins there and has such a side: the queries', where it is on the
    left, and the keys', where none is below it."""
    x, y, side = place
    for position in sorted({0, length - 1}):
        far = side * (position + 0.5) / length
        if is_left:
            sheet.text(x - 0.05, y + side - far, str(position), ha="right", va="center_baseline", fontsize=9)
        if is_lowest:
            sheet.text(x + far, y - 0.05, str(position), ha="center", va="top", fontsize=9)


def near(bias: Tensor) -> tuple[Tensor, Tensor]:
    """`by_distance` as far as the curves go, and where the bias is not NaN."""
    distances, values = by_distance(bias)
    kept = (distances.abs() <= _NEAR) & ~values[0].isnan()
    return distances[kept], values[:, kept]


def bias_curves(biases: Sequence[Tensor], names: Sequence[str], title: str) -> bytes:
    """The same biases over the distance: a panel an attention, a line a head."""
    from matplotlib.figure import Figure

    across = min(2, len(biases))
    down = -(-len(biases) // across)
    with drawing():
        figure = Figure(figsize=(4.4 * across + 1.0, 2.8 * down + 0.9), layout="constrained")
        figure.suptitle(title)
        axes = figure.subplots(down, across, squeeze=False, sharex=True, sharey=True).flatten()
        for spare in axes[len(biases):]:
            spare.set_visible(False)
        for place, bias, name in zip(axes, biases, names, strict=False):
            distances, values = near(bias)
            is_marked = len(distances) <= _FEW and len(values) <= len(COLOURS)  # marks would hide dashes
            for head, line in enumerate(values):
                colour, dash = line_of(head)
                place.plot(distances.numpy(), line.numpy(), color=colour, linestyle=dash, drawstyle="steps-mid",
                           label=drawn("head {number}").format(number=head + 1),
                           marker="o" if is_marked else "", markersize=3)
            place.set_title(name, fontsize=10)
            place.grid(visible=True)
            _count(place, "x")
        figure.legend(*axes[0].get_legend_handles_labels(), loc="outside right upper", fontsize=9)
        figure.supxlabel(drawn("position of the key − position of the query (tokens)"), fontsize=10)
        stand(figure.supylabel(drawn("added to the score"), fontsize=10), "left")
        return as_png(figure)
