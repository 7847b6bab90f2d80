"""Figures of attention and of what is told of each head, as PNG."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from pellucid.data.tokenizers.interface import BOS
from pellucid.errors import ConfigError
from pellucid.files import write_bytes
from pellucid.inspection.measures import HeadTable
from pellucid.inspection.record import record_attention, spoken
from pellucid.inspection.style import DIVERGING, SEQUENTIAL, as_png, drawing
from pellucid.model.transformer import Transformer
from pellucid.run import Run


def draw_cross_attention(run: Run, source: str, target: str, path: Path) -> None:
    """Where each target token looked in the source: the mean over heads of every decoder layer, side by side.

    Raises:
        ConfigError: the run is a classifier.
    """
    if not isinstance(run.model, Transformer):
        raise ConfigError("only an encoder–decoder has cross-attention", where=str(run.folder))
    source_tokens, target_tokens = run.tokenizers.source, run.tokenizers.target
    source_ids, target_ids = source_tokens.encode(source), target_tokens.encode(target)
    device = run.model.output.weight.device
    from pellucid.data.corpus import source_ids as with_specials

    read = with_specials([source], run.tokenizers, classify=False)[0]
    with record_attention(run.model) as weights, torch.inference_mode():
        run.model(torch.tensor([read], device=device), torch.tensor([[BOS, *target_ids]], device=device))
    layers = [weights[name][0].mean(0).float().cpu() for name in weights if name.endswith("cross_attention")]
    rows = [*target_tokens.pieces(target_ids), "‹end›"]
    draw_heatmaps(layers, [*source_tokens.pieces(source_ids), "‹end›"], rows,
                  [f"decoder layer {i + 1}" for i in range(len(layers))], path)


def draw_heatmaps(maps: Sequence[Tensor], columns: Sequence[str], rows: Sequence[str], titles: Sequence[str],
                  path: Path) -> None:
    """Matrices [T, S] as one PNG: a row writes the token on its left and looks at the columns."""
    title = "Cross-attention: where the decoder looks, mean over heads"
    write_bytes(path, attention_maps(maps, columns, rows, titles, title, across=2))


def attention_maps(maps: Sequence[Tensor], columns: Sequence[str], rows: Sequence[str], titles: Sequence[str],
                   title: str, across: int = 4) -> bytes:
    """Attention weights [T, S], `across` maps side by side, as a PNG."""
    from matplotlib.figure import Figure

    across = min(across, len(maps))
    down = -(-len(maps) // across)
    cell = 0.2 if max(len(columns), len(rows)) > 12 else 0.26
    margins = [0.09 * max(map(len, labels), default=0) for labels in (rows, columns)]  # inches of the labels
    size = (max(1.6, cell * len(columns)) * across + margins[0] + 1.5,
            (max(1.6, cell * len(rows)) + 0.4) * down + margins[1] + 0.7)
    with drawing():
        figure = Figure(figsize=(max(size[0], 0.085 * len(title) + 0.5), size[1]), layout="constrained")
        figure.suptitle(title)
        axes = figure.subplots(down, across, squeeze=False, sharex=True, sharey=True).flatten()
        for spare in axes[len(maps):]:
            spare.set_visible(False)
        for place, matrix, name in zip(axes, maps, titles):
            image = place.imshow(matrix.numpy(), cmap=SEQUENTIAL, vmin=0, vmax=1, aspect="equal")
            place.set_xticks(range(len(columns)), columns, rotation=90, fontsize=9, parse_math=False)
            place.set_yticks(range(len(rows)), rows, fontsize=9, parse_math=False)  # a $ is a dollar
            place.set_title(name)
            place.tick_params(length=0)
        figure.supxlabel("looks at", fontsize=10)
        figure.supylabel("when reading" if tuple(rows) == tuple(columns) else "when writing", fontsize=10)
        figure.colorbar(image, ax=list(axes[:len(maps)]), label="attention weight", shrink=0.8)
        return as_png(figure)


def head_table(table: HeadTable, title: str, unit: str, signed: bool = False) -> bytes:
    """A number for each head as a coloured table, the numbers written into it; in bold where they are more than two
    standard errors from 0."""
    from matplotlib.figure import Figure

    rows, heads = table.values.shape
    with drawing():
        figure = Figure(figsize=(max(5.6, 0.72 * heads + 3.4), 0.36 * rows + 1.5), layout="constrained")
        axes = figure.add_subplot()
        limit, low = float(table.values.abs().max()) or 1.0, float(table.values.min())
        image = axes.imshow(table.values.numpy(), aspect="auto", cmap=DIVERGING if signed else SEQUENTIAL,
                            vmin=-limit if signed else low, vmax=limit)
        for row in range(rows):
            for head in range(heads):
                value = float(table.values[row, head])
                sure = table.errors is not None and abs(value) > 2 * float(table.errors[row, head])
                light = abs(value) > 0.6 * limit if signed else value < (low + limit) / 2
                axes.text(head, row, f"{value:+.3f}" if signed else f"{value:.2f}", ha="center", va="center",
                          fontsize=9, color="white" if light else "black", weight="bold" if sure else "normal")
        axes.set_xticks(range(heads), [str(i + 1) for i in range(heads)])
        axes.set_yticks(range(rows), [spoken(name) for name in table.rows])
        axes.tick_params(length=0)
        axes.set(xlabel="head", title=title)
        figure.colorbar(image, ax=axes, label=unit)
        return as_png(figure)


def confusion(counts: Sequence[Sequence[int]], labels: Sequence[str], title: str) -> bytes:
    """A confusion table [true, predicted]: counts, coloured by their share of the true label."""
    from matplotlib.figure import Figure

    side = max(3.2, 0.62 * len(labels))
    with drawing():
        figure = Figure(figsize=(side + 2.6, side + 1.4), layout="constrained")
        axes = figure.add_subplot()
        table = torch.tensor(counts, dtype=torch.float64)
        share = 100 * table / table.sum(1, keepdim=True).clamp(min=1)
        image = axes.imshow(share.numpy(), cmap=SEQUENTIAL, vmin=0, vmax=100)
        for row in range(len(labels)):
            for column in range(len(labels)):
                axes.text(column, row, f"{counts[row][column]:,}", ha="center", va="center", fontsize=9,
                          color="white" if share[row, column] < 50 else "black")
        axes.set_xticks(range(len(labels)), labels, rotation=90, parse_math=False)
        axes.set_yticks(range(len(labels)), labels, parse_math=False)
        axes.tick_params(length=0)
        axes.set(xlabel="predicted", ylabel="true", title=title)
        figure.colorbar(image, ax=axes, label="% of the true label", shrink=0.8)
        return as_png(figure)
