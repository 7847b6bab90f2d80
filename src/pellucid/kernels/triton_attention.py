r"""nn/scaled_dot_product_attention.py on a GPU, where a head's scores fit one program: sentences of up to 128 tokens.

.. math:: P = \mathrm{softmax}(QK^\top / \sqrt{d_k}), \qquad O = PV, \qquad
          \mathrm{d}P = \mathrm{d}O\,V^\top, \qquad \mathrm{d}V = P^\top \mathrm{d}O, \qquad
          \mathrm{d}S = P \odot (\mathrm{d}P - \mathrm{rowsum}(P \odot \mathrm{d}P))

A program has one head of one sentence: it reads Q, K and V once, and the weights P are never in memory. Kernels for
long sequences, which torch has, go through keys in steps of 64 or 128 and through memory for the mask; where sentences
have twenty tokens, most of what they do is padding.

Needs triton, which torch brings for a GPU; imported by kernels/attention.py when it is first needed.
"""

import math
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from pellucid.kernels.heads import dense, like

_FEWEST = 16  # rows of a product of tensor cores
_SIZES = ("heads", "tokens", "keys")  # which a kernel is not made anew for


@triton.jit
def _weights(q, k, real, rows, columns, tokens, keys, scale, IS_CAUSAL: tl.constexpr, HIDES: tl.constexpr,
             PRECISION: tl.constexpr):
    """softmax(QKᵀ/√d_k) in fp32: 0 in what is hidden, and in the rows of those that see nothing."""
    scores = tl.dot(q, tl.trans(k), input_precision=PRECISION) * scale
    seen = (rows[:, None] < tokens) & (columns[None, :] < keys)
    if IS_CAUSAL:
        seen = seen & (columns[None, :] <= rows[:, None])
    if HIDES:
        seen = seen & (real[None, :] != 0)
    scores = tl.where(seen, scores, -1e30)
    e = tl.where(seen, tl.exp(scores - tl.max(scores, 1)[:, None]), 0.0)
    z = tl.sum(e, 1)
    return e / tl.where(z > 0, z, 1.0)[:, None]


@triton.jit
def _block(pointer, sentence, head, rows, features, count, s_sentence, s_head, s_row):
    """Where a head's rows are, and which of them there are."""
    places = pointer + sentence * s_sentence + head * s_head + rows[:, None] * s_row + features[None, :]
    return places, rows[:, None] < count


@triton.jit
def _head(q, k, v, real, heads, tokens, keys, scale, q0, q1, q2, k0, k1, k2, v0, v1, v2,
          IS_CAUSAL: tl.constexpr, HIDES: tl.constexpr, PRECISION: tl.constexpr,
          T: tl.constexpr, S: tl.constexpr, D: tl.constexpr):
    """Which head of which sentence a program has, where the rows of either side and the features are in it; then its
    queries, keys and values, and their weights."""
    sentence, head = (tl.program_id(0) // heads).to(tl.int64), tl.program_id(0) % heads
    rows, columns, features = tl.arange(0, T), tl.arange(0, S), tl.arange(0, D)
    q_places, q_there = _block(q, sentence, head, rows, features, tokens, q0, q1, q2)
    k_places, k_there = _block(k, sentence, head, columns, features, keys, k0, k1, k2)
    v_places, _ = _block(v, sentence, head, columns, features, keys, v0, v1, v2)
    queries, known, values = tl.load(q_places, q_there, 0.0), tl.load(k_places, k_there, 0.0), tl.load(
        v_places, k_there, 0.0)
    hidden = tl.load(real + sentence * keys + columns, columns < keys, 0) if HIDES else columns
    p = _weights(queries, known, hidden, rows, columns, tokens, keys, scale, IS_CAUSAL, HIDES, PRECISION)
    return sentence, head, rows, columns, features, queries, known, values, p


@triton.jit(do_not_specialize=_SIZES)
def _forward(q, k, v, real, out, heads, tokens, keys, scale,
             q0, q1, q2, k0, k1, k2, v0, v1, v2, o0, o1, o2,
             IS_CAUSAL: tl.constexpr, HIDES: tl.constexpr, PRECISION: tl.constexpr,
             T: tl.constexpr, S: tl.constexpr, D: tl.constexpr):
    sentence, head, rows, _, features, _, _, values, p = _head(
        q, k, v, real, heads, tokens, keys, scale, q0, q1, q2, k0, k1, k2, v0, v1, v2,
        IS_CAUSAL, HIDES, PRECISION, T, S, D)
    places, there = _block(out, sentence, head, rows, features, tokens, o0, o1, o2)
    o = tl.dot(p.to(values.dtype), values, input_precision=PRECISION)
    tl.store(places, o.to(out.dtype.element_ty), there)


@triton.jit(do_not_specialize=_SIZES)
def _backward(q, k, v, real, upstream, dq, dk, dv, heads, tokens, keys, scale,
              q0, q1, q2, k0, k1, k2, v0, v1, v2, u0, u1, u2, dq0, dq1, dq2, dk0, dk1, dk2, dv0, dv1, dv2,
              IS_CAUSAL: tl.constexpr, HIDES: tl.constexpr, PRECISION: tl.constexpr,
              T: tl.constexpr, S: tl.constexpr, D: tl.constexpr):
    sentence, head, rows, columns, features, queries, known, values, p = _head(
        q, k, v, real, heads, tokens, keys, scale, q0, q1, q2, k0, k1, k2, v0, v1, v2,
        IS_CAUSAL, HIDES, PRECISION, T, S, D)
    places, there = _block(upstream, sentence, head, rows, features, tokens, u0, u1, u2)
    above = tl.load(places, there, 0.0)
    by_values = tl.dot(tl.trans(p.to(above.dtype)), above, input_precision=PRECISION)
    places, there = _block(dv, sentence, head, columns, features, keys, dv0, dv1, dv2)
    tl.store(places, by_values.to(dv.dtype.element_ty), there)
    by_weights = tl.dot(above, tl.trans(values), input_precision=PRECISION)
    by_scores = (p * (by_weights - tl.sum(p * by_weights, 1)[:, None]) * scale).to(queries.dtype)
    places, there = _block(dk, sentence, head, columns, features, keys, dk0, dk1, dk2)
    tl.store(places, tl.dot(tl.trans(by_scores), queries, input_precision=PRECISION).to(dk.dtype.element_ty), there)
    places, there = _block(dq, sentence, head, rows, features, tokens, dq0, dq1, dq2)
    tl.store(places, tl.dot(by_scores, known, input_precision=PRECISION).to(dq.dtype.element_ty), there)


def _settings(q: Tensor, k: Tensor, real: Tensor | None, causal: bool) -> dict[str, object]:
    """What a kernel is made for; sides are rounded up to powers of two, so that there are few."""
    tokens, keys = (max(_FEWEST, triton.next_power_of_2(side.shape[2])) for side in (q, k))
    return {"IS_CAUSAL": causal, "HIDES": real is not None,
            "PRECISION": "ieee" if q.dtype == torch.float32 else "tf32", "T": tokens, "S": keys, "D": q.shape[3],
            "num_warps": max(1, min(8, tokens * keys // 1024))}


@torch.library.custom_op("pellucid::attend", mutates_args=())
def attend(q: Tensor, k: Tensor, v: Tensor, real: Tensor | None, causal: bool) -> Tensor:
    """Attention of queries q over keys and values k and v, as wide as q: [B, H, T, d_k].

    Args:
        q: [B, H, T, d_k].  k, v: [B, H, S, d_k].  real: [B, S], true at the keys that are seen; None if all are.
        causal: a query sees keys up to its own place.
    """
    q, k, v = dense(q), dense(k), dense(v)
    batch, heads, tokens, width = q.shape
    out = like(q)
    _forward[(batch * heads,)](
        q, k, v, q if real is None else real.contiguous().view(torch.uint8), out, heads, tokens, k.shape[2],
        1 / math.sqrt(width), *q.stride()[:3], *k.stride()[:3], *v.stride()[:3], *out.stride()[:3],
        **_settings(q, k, real, causal))
    return out


@attend.register_fake
def _(q: Tensor, k: Tensor, v: Tensor, real: Tensor | None, causal: bool) -> Tensor:
    return like(q)


@torch.library.custom_op("pellucid::attend_backward", mutates_args=())
def attend_backward(upstream: Tensor, q: Tensor, k: Tensor, v: Tensor, real: Tensor | None,
                    causal: bool) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of q, k and v by that of what `attend` gave; the weights are made again."""
    q, k, v, upstream = dense(q), dense(k), dense(v), dense(upstream)
    batch, heads, tokens, width = q.shape
    dq, dk, dv = like(q), like(k), like(v)
    views = (q, k, v, upstream, dq, dk, dv)
    _backward[(batch * heads,)](
        q, k, v, q if real is None else real.contiguous().view(torch.uint8), upstream, dq, dk, dv, heads, tokens,
        k.shape[2], 1 / math.sqrt(width), *(stride for view in views for stride in view.stride()[:3]),
        **_settings(q, k, real, causal))
    return dq, dk, dv


@attend_backward.register_fake
def _(upstream: Tensor, q: Tensor, k: Tensor, v: Tensor, real: Tensor | None,
      causal: bool) -> tuple[Tensor, Tensor, Tensor]:
    return like(q), like(k), like(v)


def _remember(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    q, k, v, real, ctx.causal = inputs
    ctx.save_for_backward(q, k, v, real)


def _gradients(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
    return *attend_backward(upstream, *ctx.saved_tensors, ctx.causal), None, None


attend.register_autograd(_gradients, setup_context=_remember)
