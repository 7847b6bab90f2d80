"""Figures as PNG files."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from pellucid.data.tokenizers.interface import BOS
from pellucid.errors import ConfigError
from pellucid.files import write_bytes
from pellucid.inspection.record import record_attention
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
    from matplotlib.figure import Figure

    across = min(2, len(maps))
    down = -(-len(maps) // across)
    size = (max(2.2, 0.3 * len(columns)) * across + 2.4, (max(2.4, 0.3 * len(rows)) + 0.6) * down + 1.2)
    figure = Figure(figsize=size, layout="constrained")
    figure.suptitle("Cross-attention: where the decoder looks, mean over heads", fontsize=12)
    axes = figure.subplots(down, across, squeeze=False, sharex=True, sharey=True).flatten()
    for spare in axes[len(maps):]:
        spare.set_visible(False)
    for place, matrix, title in zip(axes, maps, titles):
        image = place.imshow(matrix.numpy(), cmap="cividis", vmin=0, vmax=1, aspect="equal")
        place.set_xticks(range(len(columns)), columns, rotation=90, fontsize=9, parse_math=False)
        place.set_yticks(range(len(rows)), rows, fontsize=9, parse_math=False)  # a $ is a dollar
        place.set_title(title, fontsize=10)
    figure.supxlabel("looks at", fontsize=10)
    figure.supylabel("when writing", fontsize=10)
    figure.colorbar(image, ax=list(axes[:len(maps)]), label="attention weight", shrink=0.8)
    data = io.BytesIO()
    figure.savefig(data, format="png", dpi=120)
    write_bytes(path, data.getvalue())
