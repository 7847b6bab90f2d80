"""nn/dropout.py faster: compiled, fused by torch on a GPU, or by masks that are drawn two features at a time. On a CPU
p is a multiple of 2^-32, and the scale that of the p really used."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from pellucid.kernels import calls

_LEVELS = 1 << 32
_Draw = tuple[int, float, int, int]  # the share dropped, in 1/_LEVELS; the scale of the rest; a key of two halves


def serves(x: Tensor) -> bool:
    """Whether `drop` is there for x."""
    return calls.is_fast(x)


def drop(x: Tensor, p: float) -> Tensor:
    """dropout(x)"""
    if x.device.type != "cpu":
        return F.dropout(x, p)
    if calls.serve(x):
        return calls.apply(_Drop, x, p)
    return x * keep_mask(x.shape, p, x)


def keep_mask(size: torch.Size, p: float, like: Tensor) -> Tensor:
    """0 where a feature is dropped, 1/(1 - p) where it is kept, typed as `like`. Torch draws one number at a time on a
    CPU, so a draw of 64 bits decides two features."""
    dropped, scale = _rounded(p)
    count = size.numel()
    draws = torch.empty((count + 1) // 2, dtype=torch.int64).random_(-(2**63), None)  # the sign bit is drawn too
    lanes = draws.view(torch.int32)[:count].view(size)
    return (lanes >= dropped - _LEVELS // 2).to(like.dtype).mul_(scale)


def adds(x: Tensor, y: Tensor) -> bool:
    """Whether `add` is there for x and y."""
    return x.dtype == torch.float32 and calls.serve(x, y) and x.shape == y.shape


def add(x: Tensor, y: Tensor, p: float) -> Tensor:
    """x + dropout(y), x in fp32."""
    return calls.apply(_AddDropped, x, y, p)


def _rounded(p: float) -> tuple[int, float]:
    dropped = min(round(p * _LEVELS), _LEVELS - 1)
    return dropped, _LEVELS / (_LEVELS - dropped)


def _draw(p: float) -> _Draw:
    """What the kernels draw by; the key is from torch's generator."""
    key = int(torch.empty((), dtype=torch.int64).random_(-(2**63), None)) % 2**64
    return *_rounded(p), key >> 32, key & 0xFFFFFFFF


class _Drop(torch.autograd.Function):
    """x ⊙ mask in one pass; the mask is drawn again in the backward pass and never stored."""

    @staticmethod
    def forward(context: Any, x: Tensor, p: float) -> Tensor:
        x = x.contiguous()
        context.draw = _draw(p)
        out = torch.empty_like(x)
        calls.run("drop", x.dtype, x, out, x.numel(), *context.draw)
        return out

    @staticmethod
    @calls.first_order
    def backward(context: Any, upstream: Tensor) -> tuple[Tensor, None]:
        upstream = upstream.contiguous()
        out = torch.empty_like(upstream)
        calls.run("drop", upstream.dtype, upstream, out, upstream.numel(), *context.draw)
        return out, None


class _AddDropped(torch.autograd.Function):
    """x + y ⊙ mask, likewise; x in fp32, y in fp32 or bf16."""

    @staticmethod
    def forward(context: Any, x: Tensor, y: Tensor, p: float) -> Tensor:
        x, y = x.contiguous(), y.contiguous()
        context.draw, context.dtype = _draw(p), y.dtype
        out = torch.empty_like(x)
        calls.run("add_dropped", y.dtype, x, y, out, x.numel(), *context.draw)
        return out

    @staticmethod
    @calls.first_order
    def backward(context: Any, upstream: Tensor) -> tuple[Tensor, Tensor, None]:
        dense = upstream.contiguous()
        out = torch.empty_like(dense, dtype=context.dtype)
        calls.run("drop_float_to", out.dtype, dense, out, dense.numel(), *context.draw)
        return upstream, out, None
