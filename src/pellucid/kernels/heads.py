"""Heads as kernels see them: views [B, H, T, width] whose last dimension is dense, however the others lie."""

import ctypes
import math
from ctypes import c_float, c_int64, c_void_p

from torch import Tensor

from pellucid.kernels import calls


class Heads(ctypes.Structure):
    """A view [B, H, T, width] whose last dimension is dense."""

    _fields_ = [("data", c_void_p), ("batch", c_int64), ("head", c_int64), ("row", c_int64)]


class Sizes(ctypes.Structure):
    """What the kernels must know besides the data. It holds a bare address: whoever keeps it keeps `lengths` too."""

    _fields_ = [("batch", c_int64), ("heads", c_int64), ("queries", c_int64), ("keys", c_int64), ("width", c_int64),
                ("lengths", c_void_p), ("causal", c_int64), ("scale", c_float)]


def heads_of(*views: Tensor) -> ctypes.Array[Heads]:
    """What the kernels must know of views that are `dense`."""
    return (Heads * len(views))(*[Heads(calls.address(v), *v.stride()[:3]) for v in views])


def sizes_of(q: Tensor, k: Tensor, lengths: Tensor | None = None, causal: bool = False) -> Sizes:
    """Of queries and keys [B, H, T or S, d_k]."""
    batch, heads, queries, width = q.shape
    return Sizes(batch, heads, queries, k.shape[2], width, None if lengths is None else calls.address(lengths), causal,
                  1 / math.sqrt(width))


def dense(heads: Tensor) -> Tensor:
    """Themselves, or a copy where their last dimension is not dense."""
    return heads if heads.stride(-1) == 1 else heads.contiguous()


def like(heads: Tensor) -> Tensor:
    """Room for as many, as merging the heads copies nothing; the last dimension is dense, however `heads` lie."""
    batch, count, rows, width = heads.shape
    return heads.new_empty(batch, rows, count, width).transpose(1, 2)
