"""Positions as numbers to draw: what each scheme adds, turns or prefers, asked of the model's own parts."""

from dataclasses import dataclass
from random import Random

import torch
from torch import Tensor

from pellucid.data.source_ids import source_ids
from pellucid.data.span_corruption import corrupt_rows
from pellucid.inspection.examples import first_pairs
from pellucid.model.classifier import Classifier
from pellucid.nn.attention_pattern import causal, full, window
from pellucid.nn.multi_head_attention import MultiHeadAttention
from pellucid.nn.positional_encoding import LearnedPosition, Position
from pellucid.runs.run import Run

_LOOKED_AT = 2000  # training pairs


@dataclass(frozen=True)
class Trained:
    """How long the sequences were that the model was trained on, in tokens; 0 where that cannot be told, and for the
    target of a classifier.

    Attributes:
        pairs: how many were looked at.  reason: why it cannot be told.
    """

    source: int
    target: int
    pairs: int
    reason: str = ""


def trained_lengths(run: Run) -> Trained:
    """The longest of the first training pairs, as training reads them: nothing is learned of positions beyond those of
    the longest of all, which is no shorter."""
    config, limit = run.config, run.config.model.max_length
    sample = first_pairs(run, ("train",), _LOOKED_AT)
    sources = source_ids([a for a, _ in sample.pairs], run.tokenizers, isinstance(run.model, Classifier))
    targets = ([[]] * len(sources) if isinstance(run.model, Classifier) else
               [[*ids, 0] for ids in run.tokenizers.target.encode_batch([b for _, b in sample.pairs])])
    if config.data.objective == "span_corruption":
        sources, targets = corrupt_rows(sources, targets, Random(0))
    lengths = [(len(source), len(target)) for source, target in zip(sources, targets, strict=True)]
    if config.data.too_long == "drop":
        lengths = [pair for pair in lengths if max(pair) <= limit]
    if not lengths:
        return Trained(0, 0, 0, sample.reason or "every training text is too long")
    source, target = (min(limit, max(side)) for side in zip(*lengths, strict=True))
    return Trained(source, target, len(lengths))


def longest(position: Position, wanted: int) -> int:
    """How many positions can be drawn."""
    return min(wanted, position.table.shape[0]) if isinstance(position, LearnedPosition) else wanted


@torch.inference_mode()
def encoding_matrix(position: Position, length: int, d_model: int) -> Tensor:
    """What the `embed` door adds at positions 0 … length - 1: [length, D]."""
    device = next((parameter.device for parameter in position.parameters()), None)
    nothing = torch.zeros(1, length, d_model, device=device)
    return position.embed(nothing, torch.arange(length, device=device))[0].float().cpu()


@torch.inference_mode()
def rotation_cosines(attention: MultiHeadAttention, length: int) -> Tensor:
    """cos of the angle by which the `rotate` door turns each pair of features: [length, D/2H]."""
    width = attention.query.out_features // attention.n_heads
    pairs = torch.tensor([1.0, 0.0]).repeat(width // 2)
    return attention.position.rotate(pairs.expand(1, 1, length, width), torch.arange(length))[0, 0, :, 0::2]


@torch.inference_mode()
def bias_matrix(attention: MultiHeadAttention, length: int) -> Tensor:
    """What the `bias` door adds to the scores, whatever the tokens: [H, length, length].

    Where the bias depends on the query (Transformer-XL), the query is the projection's own bias, u: what is left is
    the term vᵀW_R r of the distance alone.
    """
    weight = attention.query.weight
    own = weight.new_zeros(len(weight)) if attention.query.bias is None else attention.query.bias  # model.biases false
    query = own.view(1, attention.n_heads, 1, -1).expand(-1, -1, length, -1)
    at = torch.arange(length, device=query.device)
    bias = attention.position.bias(query, at, at)
    assert bias is not None
    return bias[0].float().cpu()


def seen(bias: Tensor, is_causal: bool, size: int | None) -> Tensor:
    """A bias [H, L, L] where attention looks at all: NaN where causality, or a window of this size, hides the key."""
    at = torch.arange(bias.shape[-1])
    mask = ((causal if is_causal else full)(at, at) & window(at, at, size)).mask
    return bias if mask is None else bias.masked_fill(~mask[0], torch.nan)


def by_distance(bias: Tensor) -> tuple[Tensor, Tensor]:
    """A bias [H, L, L] that depends on the distance alone → distances (key - query) [2L - 1] and the bias [H, 2L - 1]
    there."""
    length = bias.shape[-1]
    back = bias[:, -1, :]  # from the last query: -(L - 1) … 0
    ahead = bias[:, 0, 1:]  # from the first query: 1 … L - 1
    return torch.arange(-length + 1, length), torch.cat([back, ahead], dim=-1)
