"""Scaled dot-product attention: equation (1), and the fused path equal to it under every pattern."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from pellucid.kernels.attention import attend
from pellucid.nn.attention_pattern import AttentionPattern, causal, full, padding
from pellucid.nn.scaled_dot_product_attention import ScaledDotProductAttention

Close = Callable[..., None]


def qkv(dtype: torch.dtype, b: int = 2, h: int = 3, t: int = 4, s: int = 5, d: int = 6) -> tuple[Tensor, ...]:
    return (torch.randn(b, h, t, d, dtype=dtype), torch.randn(b, h, s, d, dtype=dtype),
            torch.randn(b, h, s, d, dtype=dtype))


def test_by_hand(dtype: torch.dtype, close: Close) -> None:
    # d_k = 4 and q·k = 2 ln 3, 0: the scores are ln 3 and 0, so the weights are 3/4 and 1/4.
    q = torch.tensor([[[[2 * math.log(3), 0.0, 0.0, 0.0]]]], dtype=dtype)
    k = torch.eye(2, 4, dtype=dtype)[None, None]
    v = torch.tensor([[[[4.0, 0.0, 1.0, 8.0], [0.0, 4.0, 1.0, 0.0]]]], dtype=dtype)
    pattern = full(torch.arange(1), torch.arange(2))
    attention = ScaledDotProductAttention()
    close(attention.weights(q, k, pattern, None), torch.tensor([[[[0.75, 0.25]]]], dtype=dtype))
    close(attention(q, k, v, pattern, None), torch.tensor([[[[3.0, 1.0, 1.0, 6.0]]]], dtype=dtype))


def test_the_bias_is_added_to_the_scaled_scores(dtype: torch.dtype, close: Close) -> None:
    q, k, _ = qkv(dtype)
    bias = torch.randn(1, 3, 4, 5, dtype=dtype)
    expected = ((q @ k.mT) / math.sqrt(6) + bias).softmax(-1)
    close(ScaledDotProductAttention().weights(q, k, full(torch.arange(4), torch.arange(5)), bias), expected)


@settings(max_examples=60, deadline=None)
@given(data=st.data(), b=st.integers(1, 3), t=st.integers(1, 6), s=st.integers(1, 6), same=st.booleans(),
       bias_rows=st.sampled_from(["none", "one", "each"]))
def test_the_fused_path_is_the_equation(data: st.DataObject, b: int, t: int, s: int, same: bool, bias_rows: str,
                                        dtype: torch.dtype, close: Close) -> None:
    """Forward and backward, whatever padding, causality, window and bias come together."""
    s = t if same else max(s, t)
    keys = torch.arange(s)
    queries = keys if same else keys[s - t:]
    flags = st.lists(st.lists(st.booleans(), min_size=s, max_size=s), min_size=b, max_size=b)
    real = data.draw(st.none() | flags)
    pattern = AttentionPattern(queries, keys, None if real is None else torch.tensor(real), data.draw(st.booleans()),
                data.draw(st.none() | st.integers(0, 4)))
    inputs = [x.requires_grad_() for x in qkv(dtype, b, 2, t, s, 4)]
    if bias_rows != "none":
        inputs.append(torch.randn(1 if bias_rows == "one" else b, 2, t, s, dtype=dtype, requires_grad=True))
    q, k, v = inputs[:3]
    bias = inputs[3] if len(inputs) == 4 else None
    attention = ScaledDotProductAttention()
    weights = attention.weights(q, k, pattern, bias)
    fast = attend if dtype == torch.float64 else attention  # which computes its equation in float64
    fused, plain = fast(q, k, v, pattern, bias), weights @ v
    close(fused, plain)
    upstream = torch.randn_like(fused)
    for a, e in zip(torch.autograd.grad(fused, inputs, upstream), torch.autograd.grad(plain, inputs, upstream),
                    strict=True):
        close(a, e)
    if pattern.mask is not None:
        assert not weights[~pattern.mask.expand_as(weights)].any()
        answerable = pattern.answerable[..., 0].expand(b, 2, t)
        close(weights.sum(-1), answerable.to(dtype))
    else:
        close(weights.sum(-1), torch.ones(b, 2, t, dtype=dtype))


@pytest.mark.parametrize("with_bias", [False, True])
@pytest.mark.parametrize("dropout", [0.0, 0.3])
@pytest.mark.parametrize("kind", [torch.float32, torch.float64, torch.bfloat16])
def test_a_query_with_nothing_to_look_at_gives_0_and_finite_gradients(kind: torch.dtype, dropout: float,
                                                                      with_bias: bool) -> None:
    inputs = [(10 * x).requires_grad_() for x in qkv(kind)]
    if with_bias:
        inputs.append(torch.randn(1, 3, 4, 5, dtype=kind, requires_grad=True))
    real = torch.tensor([[False] * 5, [True] * 5])
    pattern = padding(torch.arange(4), torch.arange(5), real)
    bias = inputs[3] if with_bias else None
    attention = ScaledDotProductAttention(dropout)
    out = attention(*inputs[:3], pattern, bias)
    assert not out[0].any()
    assert out[1].all() or dropout
    out.backward(torch.full_like(out, 1e4))
    for x in inputs:
        assert x.grad is not None
        assert x.grad.isfinite().all()
    assert all(not x.grad[0].any() for x in inputs[:3])
    assert not attention.weights(*inputs[:2], pattern, bias)[0].any()


def test_large_scores_stay_finite(dtype: torch.dtype) -> None:
    q, k, v = (x * 1e4 for x in qkv(dtype, t=5))
    positions = torch.arange(5)
    out = ScaledDotProductAttention()(q, k, v, causal(positions, positions), None)
    assert out.isfinite().all()


def test_dropout_on_the_weights_keeps_their_mean(close: Close) -> None:
    torch.manual_seed(1)
    q, k, _ = qkv(torch.float32, t=3, s=4, d=4)
    v = torch.eye(4).expand(2, 3, 4, 4)
    pattern = full(torch.arange(3), torch.arange(4))
    attention = ScaledDotProductAttention(0.25)
    weights = attention.weights(q, k, pattern, None)
    draws = torch.stack([attention(q, k, v, pattern, None) for _ in range(3000)])
    dropped = draws == 0
    close(draws[~dropped], (weights / 0.75).expand_as(draws)[~dropped])  # what survives is scaled
    assert abs(dropped.float().mean() - 0.25) < 5 * (0.25 * 0.75 / draws.numel()) ** 0.5
    attention.eval()
    close(attention(q, k, v, pattern, None), weights)
