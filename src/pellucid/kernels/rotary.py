"""Rotary positions of nn/positional_encoding.py in one pass each way, compiled."""

from typing import Any

import torch
from torch import Tensor

from pellucid.kernels import calls
from pellucid.kernels.heads import dense, heads_of, like, sizes_of


def serves(heads: Tensor, angles: Tensor) -> bool:
    """Whether `turn` is there for these: an angle for each pair of features, in every sentence or in each."""
    if not (calls.serve(heads, angles) and heads.dim() == 4 and heads.numel()):
        return False
    batch, _, rows, width = heads.shape
    is_shaped = angles.shape[:-1] in ((rows,), (1, 1, rows), (batch, 1, rows))
    return is_shaped and 2 * angles.shape[-1] == width and angles.dtype == torch.float32


def turn(heads: Tensor, angles: Tensor) -> Tensor:
    """The pairs of heads [B, H, T, d_k] turned by angles [T, d_k/2] or [B or 1, 1, T, d_k/2], rounded once."""
    sin = angles.sin()
    one = angles.cos().repeat_interleave(2, -1)
    other = torch.stack([-sin, sin], -1).flatten(-2)  # what the other one of a pair is multiplied by
    return calls.apply(_Turn, heads, torch.stack([one, other], -2))


class _Turn(torch.autograd.Function):
    """heads ⊙ one + (heads with the two of each pair exchanged) ⊙ other; the gradient turns back."""

    @staticmethod
    def forward(context: Any, heads: Tensor, tables: Tensor) -> Tensor:
        context.save_for_backward(tables)
        return _turned(heads, tables, heads.new_empty(heads.shape))

    @staticmethod
    @calls.first_order
    def backward(context: Any, upstream: Tensor) -> tuple[Tensor, None]:
        (tables,) = context.saved_tensors
        back = tables * tables.new_tensor([[1.0], [-1.0]])
        return _turned(upstream, back, like(upstream)), None


def _turned(heads: Tensor, tables: Tensor, out: Tensor) -> Tensor:
    heads = dense(heads)
    apart = tables[0].numel() if tables.dim() == 5 and tables.shape[0] > 1 else 0
    calls.run("turn", heads.dtype, sizes_of(heads, heads), heads_of(heads, out), tables, apart)
    return out
