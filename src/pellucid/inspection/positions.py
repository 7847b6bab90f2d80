"""Positions as numbers to draw: what each scheme adds, turns or prefers, asked of the model's own parts."""

import torch
from torch import Tensor

from pellucid.nn.multi_head_attention import MultiHeadAttention
from pellucid.nn.positional_encoding import LearnedPosition, Position


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
    query = attention.query.bias.view(1, attention.n_heads, 1, -1).expand(-1, -1, length, -1)
    at = torch.arange(length, device=query.device)
    bias = attention.position.bias(query, at, at)
    assert bias is not None
    return bias[0].float().cpu()


def by_distance(bias: Tensor) -> tuple[Tensor, Tensor]:
    """A bias [H, L, L] that depends on the distance alone → distances (key - query) [2L - 1] and the bias [H, 2L - 1]
    there."""
    length = bias.shape[-1]
    back = bias[:, -1, :]  # from the last query: -(L - 1) … 0
    ahead = bias[:, 0, 1:]  # from the first query: 1 … L - 1
    return torch.arange(-length + 1, length), torch.cat([back, ahead], dim=-1)
