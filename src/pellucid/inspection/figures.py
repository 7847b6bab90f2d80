"""Figures of attention and of what is told of each head, as PNG."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from pellucid.errors import ConfigError
from pellucid.files import write_bytes
from pellucid.inspection.examples import attend, encode, token_names
from pellucid.inspection.measures import HeadTable
from pellucid.inspection.record import spoken
from pellucid.inspection.style import (
    DIVERGING,
    SEQUENTIAL,
    Lie,
    as_png,
    drawing,
    drawn,
    drawn_name,
    ink,
    letters,
    lie_of,
)
from pellucid.model.transformer import Transformer
from pellucid.runs.run import Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_WIDEST = 14.0  # inches that the maps of one row may take
_BAR, _GAP, _ABOVE = 0.16, 0.2, 0.45  # inches: the width of a colour bar, and what is beside and above a map


def draw_cross_attention(run: Run, source: str, target: str, path: Path) -> None:
    """Where each target token looked in the source: the mean over heads of every decoder layer, as a PNG file.

    Raises:
        ConfigError: the run is a classifier.
    """
    if not isinstance(run.model, Transformer):
        raise ConfigError("only an encoder–decoder has cross-attention", where=str(run.folder))
    source_ids, target_ids = encode(run, [(source, target)])[0]
    weights = attend(run, source_ids, target_ids)
    layers = [weights[name].mean(0) for name in weights if name.endswith("cross_attention")]
    write_bytes(path, attention_maps(
        layers, token_names(run.tokenizers.target, target_ids), token_names(run.tokenizers.source, source_ids),
        [drawn_name(f"decoder layer {i + 1}") for i in range(len(layers))], drawn("Cross-attention, mean over heads")))


def attention_maps(maps: Sequence[Tensor], rows: Sequence[str], columns: Sequence[str], names: Sequence[str],
                   title: str) -> bytes:
    """Attention weights [T, S] side by side, as a PNG: a row is the token on its left, and looks at the columns."""
    from matplotlib.figure import Figure

    assert all(matrix.shape == (len(rows), len(columns)) for matrix in maps)
    cell = 0.2 if max(len(columns), len(rows)) > 12 else 0.26  # inches
    wide, high = max(1.6, cell * len(columns)), max(0.6, cell * len(rows))
    across = max(1, min(4, len(maps), int(_WIDEST / wide)))
    down = -(-len(maps) // across)
    left = 0.09 * max(map(letters, rows), default=0) + 0.35
    below = max(map(_height, columns, lie_of(columns)), default=0) + 0.35
    right, top = left + (wide + _GAP) * across, below + (high + _ABOVE) * down
    size = (max(right + 1.2, 0.1 * letters(title) + 0.5), top + 0.5)
    with drawing():
        figure = Figure(figsize=size)  # laid out by hand: to have all labels measured takes longer than to draw them

        def axes_at(x: float, y: float, width: float, height: float) -> Axes:
            return figure.add_axes((x / size[0], y / size[1], width / size[0], height / size[1]))

        for i, (matrix, name) in enumerate(zip(maps, names, strict=True)):
            row, column = divmod(i, across)
            place = axes_at(left + (wide + _GAP) * column, top - (high + _ABOVE) * (row + 1), wide, high)
            image = place.imshow(matrix.numpy(), cmap=SEQUENTIAL, vmin=0, vmax=1, aspect="equal")
            _label(place, rows if column == 0 else (), columns if i + across >= len(maps) else ())
            place.set_title(name)
            if i + across >= len(maps):
                place.set_xlabel(drawn("attends to"))
            if column == 0:
                place.set_ylabel(drawn("while reading" if tuple(rows) == tuple(columns) else "while writing"))
        figure.text((left + right - _GAP) / 2 / size[0], (top - 0.1) / size[1], title, ha="center", va="bottom",
                    fontsize="large")
        tall = min(4.0, high * down)
        bar = axes_at(right, (below + top - _ABOVE - tall) / 2, _BAR, tall)
        figure.colorbar(image, cax=bar, label=drawn("attention weight"))
        return as_png(figure)


def _label(axes: Axes, rows: Sequence[str], columns: Sequence[str]) -> None:
    axes.set_yticks(range(len(rows)), rows, fontsize=9, parse_math=False)  # a $ is a dollar
    lies = lie_of(columns)
    written = ["\n".join(column) if lie == "stacked" else column for column, lie in zip(columns, lies, strict=True)]
    axes.set_xticks(range(len(columns)), written, fontsize=9, parse_math=False, linespacing=1.0)
    for tick, lie in zip(axes.xaxis.get_major_ticks(), lies, strict=True):
        if lie == "slanted":
            tick.label1.set(rotation=45, rotation_mode="anchor", horizontalalignment="right")
        elif lie == "turned":
            tick.label1.set_rotation(90)
    axes.tick_params(length=0)


def _height(column: str, lie: Lie) -> float:
    """Inches that the label of a column takes below it."""
    length = 0.09 * letters(column)
    return {"flat": 0.15, "stacked": 0.13 * len(column), "turned": length, "slanted": 0.7 * length + 0.1}[lie]


def head_table(table: HeadTable, title: str, unit: str, signed: bool = False) -> bytes:
    """A number for each head as a coloured table, the numbers written into it; in bold where they are more than two
    standard errors from 0."""
    from matplotlib.figure import Figure

    rows, heads = table.values.shape
    with drawing():
        figure = Figure(figsize=(max(6.4, 0.72 * heads + 3.4), 0.36 * rows + 1.4), layout="constrained")
        axes = figure.add_subplot()
        limit = float(table.values.abs().max()) or 1.0
        image = axes.imshow(table.values.numpy(), aspect="auto", cmap=DIVERGING if signed else SEQUENTIAL,
                            vmin=-limit if signed else 0, vmax=limit)
        written = [[f"{round(value, 3) + 0.0:+.3f}" if signed else f"{value:.2f}" for value in row]  # no "-0.000"
                   for row in table.values.tolist()]
        sure = None if table.errors is None else (table.values.abs() > 2 * table.errors).tolist()
        _write(axes, image.to_rgba(table.values.numpy()), written, sure)
        axes.set_xticks(range(heads), [str(i + 1) for i in range(heads)])
        axes.set_yticks(range(rows), [drawn_name(spoken(name)) for name in table.rows])
        axes.tick_params(length=0)
        axes.set(xlabel=drawn("head"), title=title)
        figure.colorbar(image, ax=axes, label=unit, aspect=0.36 * rows / _BAR)
        return as_png(figure)


def confusion(counts: Sequence[Sequence[int]], labels: Sequence[str], title: str) -> bytes:
    """A confusion matrix [true, predicted]: counts, coloured by their share of the true label."""
    from matplotlib.figure import Figure

    side = max(2.0, 0.6 * len(labels))
    left, below = 0.09 * max(map(letters, labels), default=0), max(map(_height, labels, lie_of(labels)), default=0)
    with drawing():
        figure = Figure(figsize=(max(side + left, 0.09 * letters(title)) + 1.6, side + below + 1.0),
                        layout="compressed")
        axes = figure.add_subplot()
        table = torch.tensor(counts, dtype=torch.float64)
        share = 100 * table / table.sum(1, keepdim=True).clamp(min=1)
        image = axes.imshow(share.numpy(), cmap=SEQUENTIAL, vmin=0, vmax=100)
        _write(axes, image.to_rgba(share.numpy()), [[f"{count:,}" for count in row] for row in counts], None)
        _label(axes, labels, labels)
        axes.set(xlabel=drawn("predicted"), ylabel=drawn("true"), title=title)
        figure.colorbar(image, ax=axes, label=drawn("% of the true label"), aspect=side / _BAR)
        return as_png(figure)


def _write(axes: Axes, colours: Any, texts: Sequence[Sequence[str]], bold: Sequence[Sequence[bool]] | None) -> None:
    """Writes a text into each cell of an image of these colours [rows, columns, 4], so that it can be read on it."""
    for row, line in enumerate(texts):
        for column, written in enumerate(line):
            axes.text(column, row, written.replace("-", "−"), ha="center", va="center", fontsize=9,
                      color=ink(colours[row][column]),
                      weight="bold" if bold is not None and bold[row][column] else "normal")
