r"""Scaled dot-product attention, equation (1), section 3.2.1.

.. math:: \mathrm{Attention}(Q, K, V) = \mathrm{softmax}\big(QK^\top / \sqrt{d_k} + \text{bias}\big)\,V
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from pellucid.kernels import calls as kernels
from pellucid.nn.dropout import Dropout
from pellucid.nn.masks import Mask

_WIDTHS = (16, 32, 64)  # of a head, that the kernels know
_CHUNK_BYTES = 8 << 20  # of weights at a time, in longer sequences
_SHORT = 64  # keys, up to which a head fits the nearest cache and is computed there at once


class ScaledDotProductAttention(nn.Module):
    """Softmax attention: `weights` is the equation, `forward` the same by the fastest way.

    A query that may look at nothing gets the weights 0 and so the output 0.
    """

    accepts_bias = True
    accepts_rotation = True

    def __init__(self, dropout: float = 0.0) -> None:
        super().__init__()
        self.dropout = Dropout(dropout)

    def weights(self, q: Tensor, k: Tensor, mask: Mask, bias: Tensor | None) -> Tensor:
        """softmax(QKᵀ/√d_k + bias) where the mask allows, 0 elsewhere.

        Args:
            q: [B, H, T, d_k].  k: [B, H, S, d_k].  bias: [B or 1, H, T, S] or None.

        Returns:
            [B, H, T, S], each row summing to 1, or to 0 where there is nothing to look at.
        """
        scores = (q / math.sqrt(q.shape[-1])) @ k.transpose(-2, -1)  # [B, H, T, S]
        if bias is not None:
            scores = scores + bias
        if mask.allowed is None:
            return scores.softmax(-1)
        scores = scores.masked_fill(~mask.allowed, torch.finfo(scores.dtype).min)
        return scores.softmax(-1) * mask.answerable

    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Mask, bias: Tensor | None) -> Tensor:
        """Attention(Q, K, V): [B, H, T, D/H], with v: [B, H, S, D/H] and the rest as in `weights`."""
        dropping = self.training and self.dropout.p > 0
        is_plain = not dropping and bias is None and mask.is_simple
        if is_plain and q.dtype == k.dtype and q.shape[-1] == v.shape[-1] and kernels.serve(q, k, v):
            if k.shape[-2] <= _SHORT and q.shape[-1] in _WIDTHS:
                return kernels.apply(_Attend, q, k, v, mask.key_lengths, mask.hides_future)
            if q.dtype == torch.bfloat16:
                return kernels.apply(_AttendLong, q, k, v, mask.key_lengths, mask.hides_future)
        # In bf16 on a CPU two batched products beat the fused kernel, whose backward is several times slower.
        if dropping or (q.device.type == "cpu" and q.dtype == torch.bfloat16):
            weights: Tensor = self.dropout(self.weights(q, k, mask, bias))
            return weights @ v
        if bias is None and mask.is_plain_causal:
            return F.scaled_dot_product_attention(q, k, v, is_causal=True)
        if mask.allowed is None:
            return F.scaled_dot_product_attention(q, k, v, attn_mask=None if bias is None else bias.to(q.dtype))
        zero = torch.zeros((), dtype=q.dtype, device=q.device) if bias is None else bias.to(q.dtype)
        additive = zero.masked_fill(~mask.allowed, torch.finfo(q.dtype).min)
        additive = additive.expand(-1, -1, q.shape[-2], k.shape[-2])
        return F.scaled_dot_product_attention(q, k, v, attn_mask=additive) * mask.answerable


class _Attend(torch.autograd.Function):
    """The equation one head at a time, scores and weights never stored; without bias, window or dropout."""

    @staticmethod
    def forward(context: Any, q: Tensor, k: Tensor, v: Tensor, lengths: Tensor | None, causal: bool) -> Tensor:
        q, k, v = (t if t.stride(-1) == 1 else t.contiguous() for t in (q, k, v))
        out = q.new_empty(q.transpose(1, 2).shape).transpose(1, 2)  # merging the heads then copies nothing
        sizes = _sizes(q, k, lengths, causal)
        kernels.run("attend", q.dtype, sizes, kernels.heads(q, k, v, out))
        context.save_for_backward(q, k, v, lengths)
        context.sizes = sizes
        return out

    @staticmethod
    @once_differentiable
    def backward(context: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, _ = context.saved_tensors
        upstream = upstream if upstream.stride(-1) == 1 else upstream.contiguous()
        gradients = [torch.empty_like(t) for t in (q, k, v)]
        kernels.run("attend_backward", q.dtype, context.sizes, kernels.heads(q, k, v, upstream, *gradients))
        return *gradients, None, None


class _AttendLong(torch.autograd.Function):
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
            scores = upstream[few] @ v[few].transpose(-2, -1)
            kernels.run("soften_rows_backward", q.dtype, _sizes(q[few], k[few], here, context.causal), weights, scores)
            gradients[0][few] = scores @ k[few]
            gradients[1][few] = scores.transpose(-2, -1) @ q[few]
        return *gradients, None, None


def _few_sentences(q: Tensor, k: Tensor) -> list[slice]:
    """Sentences whose weights together take _CHUNK_BYTES, or one."""
    each = q.shape[1] * q.shape[2] * k.shape[2] * q.element_size()
    count = max(1, _CHUNK_BYTES // each)
    return [slice(start, start + count) for start in range(0, q.shape[0], count)]


def _weights(q: Tensor, k: Tensor, lengths: Tensor | None, causal: bool) -> Tensor:
    scores = (q @ k.transpose(-2, -1)).contiguous()
    kernels.run("soften_rows", q.dtype, _sizes(q, k, lengths, causal), scores)
    return scores


def _sizes(q: Tensor, k: Tensor, lengths: Tensor | None, causal: bool) -> kernels.Sizes:
    batch, heads, queries, width = q.shape
    return kernels.Sizes(batch, heads, queries, k.shape[2], width,
                         None if lengths is None else kernels.address(lengths), causal, 1 / math.sqrt(width))
