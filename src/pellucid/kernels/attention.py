"""nn/scaled_dot_product_attention.py by the fastest way that there is here: compiled, or fused by torch."""

from __future__ import annotations

import math
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from pellucid.kernels import calls, gpu
from pellucid.kernels.heads import dense, heads_of, like, sizes_of

_WIDTHS = (8, 16, 32, 64)  # of a head, that the compiled kernels know
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
    def lengths(self) -> Tensor | None: ...
    @property
    def grows(self) -> bool: ...
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
    if not _fit(q, k, v, pattern, bias):
        return False
    return not q.is_cpu or _compiled(q, k, v, pattern, bias) is not None or (
        q.dtype != torch.bfloat16 and _is_finite(q, k, bias))


def _is_finite(*tensors: Tensor | None) -> bool:
    """Whether no number of these is NaN or infinite (nor their sum): torch's fused attention, on a CPU, gives 0 to a
    query whose scores are all NaN."""
    return math.isfinite(sum(float(t.detach().sum()) for t in tensors if t is not None))


def _fit(q: Tensor, k: Tensor, v: Tensor, pattern: Pattern, bias: Tensor | None) -> bool:
    """Whether these belong together, and this room is for them. What the equation would broadcast or refuse is left to
    it, and so is what has no element."""
    is_typed = calls.is_fast(q) and q.dtype == k.dtype == v.dtype and q.device == k.device == v.device
    if not is_typed or not q.dim() == k.dim() == v.dim() == 4:
        return False
    batch, heads, queries, width = q.shape
    keys = k.shape[2]
    is_shaped = k.shape == (batch, heads, keys, width) and v.shape[:3] == k.shape[:3]
    here, there = pattern.query_positions, pattern.key_positions
    is_placed = here.shape[-1] == queries and there.shape[-1] == keys and here.device == there.device == q.device
    real = pattern.real_keys
    is_hidden = real is None or (real.shape == (batch, keys) and real.dtype == torch.bool and real.device == q.device)
    is_whole = q.numel() > 0 and k.numel() > 0 and v.numel() > 0
    return is_shaped and is_placed and is_hidden and is_whole and (bias is None or _adds(q, bias, keys))


def _adds(q: Tensor, bias: Tensor, keys: int) -> bool:
    """Whether a bias [B or 1, H or 1, T, S] can be added to the scores of q, and leaves their type."""
    is_typed = bias.dtype == q.dtype or (calls.is_fast(bias) and calls.is_autocast(q))
    return is_typed and bias.device == q.device and bias.dim() == 4 and bias.shape[2:] == (q.shape[2], keys) and (
        bias.shape[0] in (1, q.shape[0]) and bias.shape[1] in (1, q.shape[1]))


def attend(q: Tensor, k: Tensor, v: Tensor, pattern: Pattern, bias: Tensor | None) -> Tensor:
    """Attention(Q, K, V) without dropout: shapes as in `ScaledDotProductAttention.forward`."""
    if function := _compiled(q, k, v, pattern, bias):
        lengths = None if pattern.real_keys is None else pattern.lengths
        return calls.apply(function, q, k, v, lengths, pattern.hides_future)
    if _is_short(q, k, v, pattern, bias):
        from pellucid.kernels.triton_attention import attend as attend_short

        short: Tensor = attend_short(q, k, v, pattern.real_keys, pattern.hides_future)
        return short
    is_bare = bias is None and pattern.real_keys is None and pattern.window is None
    if is_bare and pattern.causal and _is_one_sequence(pattern):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)
    if pattern.mask is None:
        return F.scaled_dot_product_attention(q, k, v, attn_mask=None if bias is None else bias.to(q.dtype))
    zero = torch.zeros((), dtype=q.dtype, device=q.device) if bias is None else bias.to(q.dtype)
    additive = zero.masked_fill(~pattern.mask, torch.finfo(q.dtype).min)
    additive = additive.expand(-1, -1, q.shape[-2], k.shape[-2])
    return F.scaled_dot_product_attention(q, k, v, attn_mask=additive) * pattern.answerable


def _compiled(q: Tensor, k: Tensor, v: Tensor, pattern: Pattern,
              bias: Tensor | None) -> type[_ByHeads] | type[_ByRows] | None:
    """The function for these, if there is one: neither bias nor window, values as wide as keys, padding at the end of
    the keys alone, causality over one sequence, and products in the type that there is."""
    if bias is not None or pattern.window is not None or not calls.serve(q) or k.shape != v.shape:
        return None
    is_ordered = not pattern.hides_future or _is_one_sequence(pattern)
    if not is_ordered or calls.products_dtype(q) != q.dtype:
        return None
    if pattern.real_keys is not None and pattern.lengths is None:
        return None
    if k.shape[-2] <= _SHORT and q.shape[-1] in _WIDTHS:
        return _ByHeads
    return _ByRows if q.dtype == torch.bfloat16 else None


def _is_short(q: Tensor, k: Tensor, v: Tensor, pattern: Pattern, bias: Tensor | None) -> bool:
    """Whether a GPU computes a head of these at once, see triton_attention.py."""
    if not gpu.serves(q) or bias is not None or pattern.window is not None or k.shape != v.shape:
        return False
    is_ordered = not pattern.hides_future or _is_one_sequence(pattern)
    longest = max(q.shape[2], k.shape[2])
    return is_ordered and q.shape[3] in gpu.WIDTHS and longest * q.element_size() <= gpu.LARGEST


def _is_one_sequence(pattern: Pattern) -> bool:
    """Whether queries and keys are the same tokens, one behind the other."""
    is_one = pattern.query_positions is pattern.key_positions and pattern.query_positions.dim() == 1
    return is_one and pattern.grows


class _ByHeads(torch.autograd.Function):
    """The equation one head at a time, scores and weights never stored; without bias, window or dropout."""

    @staticmethod
    def forward(context: Any, q: Tensor, k: Tensor, v: Tensor, lengths: Tensor | None, causal: bool) -> Tensor:
        q, k, v = dense(q), dense(k), dense(v)
        out = like(q)
        calls.run("attend", q.dtype, sizes_of(q, k, lengths, causal), heads_of(q, k, v, out))
        context.save_for_backward(q, k, v, lengths)
        context.causal = causal
        return out

    @staticmethod
    @calls.first_order
    def backward(context: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, lengths = context.saved_tensors
        upstream = dense(upstream)
        gradients = [like(t) for t in (q, k, v)]
        calls.run("attend_backward", q.dtype, sizes_of(q, k, lengths, context.causal),
                  heads_of(q, k, v, upstream, *gradients))
        return *gradients, None, None


class _ByRows(torch.autograd.Function):
    """The equation by batched products, and all that is between them in one pass; a few sentences at a time, whose
    weights fit the cache and are made again for the gradients, so that memory grows with T and not with T²."""

    @staticmethod
    def forward(context: Any, q: Tensor, k: Tensor, v: Tensor, lengths: Tensor | None, causal: bool) -> Tensor:
        context.save_for_backward(q, k, v, lengths)
        context.causal = causal
        out = like(q)
        for few in _few_sentences(q, k):
            out[few] = _weights(q[few], k[few], lengths if lengths is None else lengths[few], causal) @ v[few]
        return out

    @staticmethod
    @calls.first_order
    def backward(context: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, lengths = context.saved_tensors
        gradients = [like(t) for t in (q, k, v)]
        for few in _few_sentences(q, k):
            here = lengths if lengths is None else lengths[few]
            weights = _weights(q[few], k[few], here, context.causal)
            gradients[2][few] = weights.transpose(-2, -1) @ upstream[few]
            by_scores = upstream[few] @ v[few].transpose(-2, -1)  # by the weights yet; by the scores from here on:
            sizes = sizes_of(q[few], k[few], here, context.causal)
            calls.run("soften_rows_backward", q.dtype, sizes, weights, by_scores)
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
    calls.run("soften_rows", q.dtype, sizes_of(q, k, lengths, causal), scores)  # in their place
    return scores
