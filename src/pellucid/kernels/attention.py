"""nn/scaled_dot_product_attention.py by the fastest way that there is here: compiled, or fused by torch."""

from __future__ import annotations

import ctypes
import math
from ctypes import c_float, c_int64, c_void_p
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from pellucid.kernels import calls

_WIDTHS = (16, 32, 64)  # of a head, that the compiled kernels know
_CHUNK_BYTES = 8 << 20  # of weights at a time, in longer sequences
_SHORT = 64  # keys, up to which a head fits the nearest cache and is computed there at once


class Pattern(Protocol):
    """What is asked of a `nn.attention_pattern.AttentionPattern`, where each is told."""

    @property
    def query_positions(self) -> Tensor: ...
    @property
    def key_positions(self) -> Tensor: ...
    @property
    def real_keys(self) -> Tensor | None: ...
    @property
    def causal(self) -> bool: ...
    @property
    def hides_future(self) -> bool: ...
    @property
    def window(self) -> int | None: ...
    @property
    def mask(self) -> Tensor | None: ...
    @property
    def answerable(self) -> Tensor: ...


def serves(q: Tensor, k: Tensor, v: Tensor, pattern: Pattern, bias: Tensor | None) -> bool:
    """Whether `attend` is there for these, and faster than the equation: in bf16 on a CPU two batched products beat
    torch's fused attention, whose backward pass is several times slower."""
    is_slow = q.device.type == "cpu" and q.dtype == torch.bfloat16
    return calls.is_fast(q) and (not is_slow or _compiled(q, k, v, pattern, bias) is not None)


def attend(q: Tensor, k: Tensor, v: Tensor, pattern: Pattern, bias: Tensor | None) -> Tensor:
    """Attention(Q, K, V) without dropout: shapes as in `ScaledDotProductAttention.forward`."""
    if function := _compiled(q, k, v, pattern, bias):
        lengths = None if pattern.real_keys is None else pattern.real_keys.sum(1)
        return calls.apply(function, q, k, v, lengths, pattern.hides_future)
    is_one_sequence = pattern.query_positions is pattern.key_positions and pattern.query_positions.dim() == 1
    if bias is None and is_one_sequence and pattern.causal and pattern.real_keys is None and pattern.window is None:
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)
    if pattern.mask is None:
        return F.scaled_dot_product_attention(q, k, v, attn_mask=None if bias is None else bias.to(q.dtype))
    zero = torch.zeros((), dtype=q.dtype, device=q.device) if bias is None else bias.to(q.dtype)
    additive = zero.masked_fill(~pattern.mask, torch.finfo(q.dtype).min)
    additive = additive.expand(-1, -1, q.shape[-2], k.shape[-2])
    return F.scaled_dot_product_attention(q, k, v, attn_mask=additive) * pattern.answerable


def _compiled(q: Tensor, k: Tensor, v: Tensor, pattern: Pattern,
              bias: Tensor | None) -> type[_ByHeads] | type[_ByRows] | None:
    """The function for these, if there is one: neither bias nor window, padding at the end of the keys alone (else the
    positions have a row a sentence), causality over one sequence."""
    is_ordered = not pattern.hides_future or pattern.query_positions is pattern.key_positions
    is_simple = pattern.window is None and pattern.query_positions.dim() == pattern.key_positions.dim() == 1
    is_alike = q.dtype == k.dtype == v.dtype and q.shape[-1] == v.shape[-1]
    if bias is not None or not (is_ordered and is_simple and is_alike and calls.serve(q)):
        return None
    if k.shape[-2] <= _SHORT and q.shape[-1] in _WIDTHS:
        return _ByHeads
    return _ByRows if q.dtype == torch.bfloat16 else None


class Heads(ctypes.Structure):
    """A view [B, H, T, D/H] whose last dimension is dense."""

    _fields_ = [("data", c_void_p), ("batch", c_int64), ("head", c_int64), ("row", c_int64)]


class Sizes(ctypes.Structure):
    """What the kernels must know besides the data. It holds a bare address: whoever keeps it keeps `lengths` too."""

    _fields_ = [("batch", c_int64), ("heads", c_int64), ("queries", c_int64), ("keys", c_int64), ("width", c_int64),
                ("lengths", c_void_p), ("causal", c_int64), ("scale", c_float)]


def _heads(*views: Tensor) -> ctypes.Array[Heads]:
    return (Heads * len(views))(*[Heads(calls.address(v), *v.stride()[:3]) for v in views])


def _sizes(q: Tensor, k: Tensor, lengths: Tensor | None, causal: bool) -> Sizes:
    batch, heads, queries, width = q.shape
    return Sizes(batch, heads, queries, k.shape[2], width, None if lengths is None else calls.address(lengths), causal,
                  1 / math.sqrt(width))


class _ByHeads(torch.autograd.Function):
    """The equation one head at a time, scores and weights never stored; without bias, window or dropout."""

    @staticmethod
    def forward(context: Any, q: Tensor, k: Tensor, v: Tensor, lengths: Tensor | None, causal: bool) -> Tensor:
        q, k, v = (t if t.stride(-1) == 1 else t.contiguous() for t in (q, k, v))
        out = q.new_empty(q.transpose(1, 2).shape).transpose(1, 2)  # merging the heads then copies nothing
        calls.run("attend", q.dtype, _sizes(q, k, lengths, causal), _heads(q, k, v, out))
        context.save_for_backward(q, k, v, lengths)
        context.causal = causal
        return out

    @staticmethod
    @once_differentiable
    def backward(context: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, lengths = context.saved_tensors
        upstream = upstream if upstream.stride(-1) == 1 else upstream.contiguous()
        gradients = [torch.empty_like(t) for t in (q, k, v)]
        calls.run("attend_backward", q.dtype, _sizes(q, k, lengths, context.causal),
                  _heads(q, k, v, upstream, *gradients))
        return *gradients, None, None


class _ByRows(torch.autograd.Function):
    """The equation by batched products, and all that is between them in one pass; a few sentences at a time, whose
    weights fit the cache and are made again for the gradients, so that memory grows with T and not with T²."""

    @staticmethod
    def forward(context: Any, q: Tensor, k: Tensor, v: Tensor, lengths: Tensor | None, causal: bool) -> Tensor:
        context.save_for_backward(q, k, v, lengths)
        context.causal = causal
        out = q.new_empty(q.transpose(1, 2).shape).transpose(1, 2)
        for few in _few_sentences(q, k):
            out[few] = _weights(q[few], k[few], lengths if lengths is None else lengths[few], causal) @ v[few]
        return out

    @staticmethod
    @once_differentiable
    def backward(context: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, lengths = context.saved_tensors
        gradients = [torch.empty_like(t) for t in (q, k, v)]
        for few in _few_sentences(q, k):
            here = lengths if lengths is None else lengths[few]
            weights = _weights(q[few], k[few], here, context.causal)
            gradients[2][few] = weights.transpose(-2, -1) @ upstream[few]
            by_scores = upstream[few] @ v[few].transpose(-2, -1)  # by the weights yet; by the scores from here on:
            calls.run("soften_rows_backward", q.dtype, _sizes(q[few], k[few], here, context.causal), weights, by_scores)
            gradients[0][few] = by_scores @ k[few]
            gradients[1][few] = by_scores.transpose(-2, -1) @ q[few]
        return *gradients, None, None


def _few_sentences(q: Tensor, k: Tensor) -> list[slice]:
    """Sentences whose weights together take _CHUNK_BYTES, or one."""
    each = q.shape[1] * q.shape[2] * k.shape[2] * q.element_size()
    count = max(1, _CHUNK_BYTES // each)
    return [slice(start, start + count) for start in range(0, q.shape[0], count)]


def _weights(q: Tensor, k: Tensor, lengths: Tensor | None, causal: bool) -> Tensor:
    scores = (q @ k.transpose(-2, -1)).contiguous()
    calls.run("soften_rows", q.dtype, _sizes(q, k, lengths, causal), scores)  # in their place
    return scores
