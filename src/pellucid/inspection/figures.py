"""Figures of attention and of what is told of each head, as PNG."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from pellucid.errors import ConfigError
from pellucid.files import write_bytes
from pellucid.inspection.examples import attend, encode, token_names
from pellucid.inspection.measures import HeadTable
from pellucid.inspection.record import spoken
from pellucid.inspection.sheet import BAR, Colours, lay, lay_scale, new_sheet, reach
from pellucid.inspection.style import (
    DIVERGING,
    SEQUENTIAL,
    Lie,
    as_png,
    as_sheet_png,
    drawing,
    drawn,
    drawn_name,
    ink,
    letters,
    lie_of,
    stand,
)
from pellucid.model.transformer import Transformer
from pellucid.runs.run import Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_WIDEST = 14.0  # inches that the maps of one row may take
_GAP, _ABOVE = 0.2, 0.45  # inches: what is beside and above a map
_WEIGHTS = Colours(SEQUENTIAL, 0.0, 1.0)


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
                   title: str, is_read: bool = False) -> bytes:
    """Attention weights [T, S] side by side, as a PNG: a row is the token on its left, which is read or else written,
    and looks at the columns."""
    assert all(matrix.shape == (len(rows), len(columns)) for matrix in maps)
    cell = 0.2 if max(len(columns), len(rows)) > 12 else 0.26  # inches
    wide, high = max(1.6, cell * len(columns)), max(0.6, cell * len(rows))
    across = max(1, min(4, len(maps), int(_WIDEST / wide)))
    down = -(-len(maps) // across)
    right, top = (wide + _GAP) * across, (high + _ABOVE) * down  # labels and the scale lie outside of this
    with drawing():
        sheet = new_sheet(right, top)
        for i, (matrix, name) in enumerate(zip(maps, names, strict=True)):
            row, column = divmod(i, across)
            x, y = (wide + _GAP) * column, top - (high + _ABOVE) * (row + 1)
            lay(sheet, matrix.numpy(), (x, x + wide, y, y + high), _WEIGHTS)
            sheet.text(x + wide / 2, y + high + 0.08, name, ha="center", va="bottom", fontsize=11, parse_math=False)
            if column == 0:
                _name_rows(sheet, rows, x, (y, high), drawn("while reading" if is_read else "while writing"))
            if i + across >= len(maps):
                _name_columns(sheet, columns, y, (x, wide), drawn("attends to"))
        sheet.text((right - _GAP) / 2, top - 0.1, title, ha="center", va="bottom", fontsize="large", parse_math=False)
        lay_scale(sheet, right, (top - _ABOVE) / 2, min(4.0, high * down), _WEIGHTS, drawn("attention weight"))
        return as_sheet_png(sheet)


def _name_rows(sheet: Axes, rows: Sequence[str], left: float, place: tuple[float, float], what: str) -> None:
    """The token of each row, on the left of a map that begins there and is so high; and what the rows are."""
    below, high = place
    middles = below + high * (1 - (np.arange(len(rows)) + 0.5) / len(rows))
    labels = [sheet.text(left - 0.05, middle, row, ha="right", va="center_baseline", fontsize=9, parse_math=False)
              for middle, row in zip(middles, rows, strict=True)]
    least = min((reach(label)[0] for label in labels), default=left)
    stand(sheet.text(least - 0.08, below + high / 2, what, rotation=90, ha="right", va="center"), "right")


def _name_columns(sheet: Axes, columns: Sequence[str], below: float, place: tuple[float, float], what: str) -> None:
    """Likewise the token of each column, below."""
    left, wide = place
    middles = left + wide * (np.arange(len(columns)) + 0.5) / len(columns)
    labels = [sheet.text(middle, below - 0.05, va="top", fontsize=9, parse_math=False, **look)
              for middle, look in zip(middles, _columns(columns), strict=True)]
    least = min((reach(label)[1] for label in labels), default=below)
    sheet.text(left + wide / 2, least - 0.06, what, ha="center", va="top")


def _columns(columns: Sequence[str]) -> Iterator[dict[str, Any]]:
    """How the label of each column is written: what matplotlib calls the properties of a text."""
    looks: dict[Lie, dict[str, Any]] = {
        "flat": {"ha": "center"}, "stacked": {"ha": "center", "linespacing": 1.0},
        "turned": {"ha": "center", "rotation": 90},
        "slanted": {"ha": "right", "rotation": 45, "rotation_mode": "anchor"}}
    for column, lie in zip(columns, lie_of(columns), strict=True):
        yield {"s": "\n".join(column) if lie == "stacked" else column, **looks[lie]}


def _label(axes: Axes, rows: Sequence[str], columns: Sequence[str]) -> None:
    axes.set_yticks(range(len(rows)), rows, fontsize=9, parse_math=False)  # a $ is a dollar
    looks = list(_columns(columns))
    axes.set_xticks(range(len(columns)), [look.pop("s") for look in looks], fontsize=9, parse_math=False)
    for tick, look in zip(axes.xaxis.get_major_ticks(), looks, strict=True):
        tick.label1.set(**look)
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
        figure.colorbar(image, ax=axes, label=unit, aspect=0.36 * rows / BAR)
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
        figure.colorbar(image, ax=axes, label=drawn("% of the true label"), aspect=side / BAR)
        return as_png(figure)


def _write(axes: Axes, colours: Any, texts: Sequence[Sequence[str]], bold: Sequence[Sequence[bool]] | None) -> None:
    """Writes a text into each cell of an image of these colours [rows, columns, 4], so that it can be read on it."""
    for row, line in enumerate(texts):
        for column, written in enumerate(line):
            axes.text(column, row, written.replace("-", "−"), ha="center", va="center", fontsize=9,
                      color=ink(colours[row][column]),
                      weight="bold" if bold is not None and bold[row][column] else "normal")
