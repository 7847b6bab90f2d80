r"""Dropout (section 5.4; Srivastava et al. 2014): a feature survives with probability 1 - p, scaled by 1/(1 - p).

On a GPU torch draws, masks and scales in one pass. On a CPU it draws one number at a time; here one 64-bit draw decides
four features, sixteen bits each, which makes p a multiple of 1/65,536; the scale is that of the p really used.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from pellucid.kernels import calls as kernels

_LEVELS = 1 << 16


def keep_mask(size: torch.Size, p: float, like: Tensor) -> Tensor:
    """A tensor of `size` on the CPU with 0 where a feature is dropped and 1/(1 - p) where it is kept, typed as
    `like`."""
    dropped = min(round(p * _LEVELS), _LEVELS - 1)
    scale = _LEVELS / (_LEVELS - dropped)
    count = size.numel()
    draws = torch.empty((count + 3) // 4, dtype=torch.int64).random_(-(2**63), None)  # the sign bit is drawn too
    lanes = draws.view(torch.int16)[:count].view(size)
    return (lanes >= dropped - _LEVELS // 2).to(like.dtype).mul_(scale)


class _Drop(torch.autograd.Function):
    """x ⊙ mask in one pass of the kernels, which draw the mask again in the backward pass and never store it."""

    @staticmethod
    def forward(context: Any, x: Tensor, p: float) -> Tensor:
        x = x.contiguous()
        context.draw = _drawing(p)
        out = torch.empty_like(x)
        kernels.run("drop", x.dtype, x, out, x.numel(), *context.draw)
        return out

    @staticmethod
    @once_differentiable
    def backward(context: Any, upstream: Tensor) -> tuple[Tensor, None]:
        upstream = upstream.contiguous()
        out = torch.empty_like(upstream)
        kernels.run("drop", upstream.dtype, upstream, out, upstream.numel(), *context.draw)
        return out, None


class _AddDropped(torch.autograd.Function):
    """x + y ⊙ mask, likewise; x in fp32, y in fp32 or bf16."""

    @staticmethod
    def forward(context: Any, x: Tensor, y: Tensor, p: float) -> Tensor:
        x, y = x.contiguous(), y.contiguous()
        context.draw, context.dtype = _drawing(p), y.dtype
        out = torch.empty_like(x)
        kernels.run("add_dropped", y.dtype, x, y, out, x.numel(), *context.draw)
        return out

    @staticmethod
    @once_differentiable
    def backward(context: Any, upstream: Tensor) -> tuple[Tensor, Tensor, None]:
        dense = upstream.contiguous()
        out = torch.empty_like(dense, dtype=context.dtype)
        kernels.run("drop_float_to", out.dtype, dense, out, dense.numel(), *context.draw)
        return upstream, out, None


def _drawing(p: float) -> tuple[int, float, int, int]:
    """What a kernel draws by: the share dropped in 2^-32, the scale of the rest, and a key from torch's generator."""
    dropped = min(round(p * 2**32), 2**32 - 1)
    key = int(torch.empty((), dtype=torch.int64).random_(-(2**63), None)) % 2**64
    return dropped, 2**32 / (2**32 - dropped), key >> 32, key & 0xFFFFFFFF


class Dropout(nn.Module):
    """Drops features while training, and is the identity otherwise.

    Args:
        p: the probability that a feature is dropped, 0 ≤ p < 1.
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        if not 0 <= p < 1:
            raise ValueError(f"dropout must be at least 0 and below 1, not {p}")
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        """[...] → [...]"""
        if not self._drops:
            return x
        if kernels.serve(x):
            return kernels.apply(_Drop, x, self.p)
        if x.device.type != "cpu":
            return F.dropout(x, self.p)
        return x * keep_mask(x.shape, self.p, x)

    def add(self, x: Tensor, y: Tensor) -> Tensor:
        """x + dropout(y)"""
        if x.dtype == torch.float32 and kernels.serve(x, y) and x.shape == y.shape:
            return kernels.apply(_AddDropped, x, y, self.p if self._drops else 0.0)
        dropped: Tensor = self(y)
        return x + dropped

    @property
    def _drops(self) -> bool:
        return self.training and round(self.p * _LEVELS) > 0

    def extra_repr(self) -> str:
        return f"p={self.p}"
