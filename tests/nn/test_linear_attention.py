"""Linear attention equals its quadratic form, with and without causality, padding and chunks."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from pellucid.nn.attention_pattern import AttentionPattern, causal, full, padding, positions_of
from pellucid.nn.linear_attention import LinearAttention, features

Close = Callable[..., None]


def qkv(dtype: torch.dtype, b: int, t: int, s: int, d: int = 4) -> list[Tensor]:
    return [torch.randn(b, 2, n, d, dtype=dtype, requires_grad=True) for n in (t, s, s)]


def check(pattern: AttentionPattern, inputs: list[Tensor], close: Close) -> None:
    q, k, v = inputs
    attention = LinearAttention()
    linear, quadratic = attention(q, k, v, pattern, None), attention.weights(q, k, pattern, None) @ v
    close(linear, quadratic)
    upstream = torch.randn_like(linear)
    for a, e in zip(torch.autograd.grad(linear, inputs, upstream), torch.autograd.grad(quadratic, inputs, upstream),
                    strict=True):
        close(a, e, 2e-4 if a.dtype == torch.float32 else 1e-10)


def test_features_by_hand(dtype: torch.dtype, close: Close) -> None:
    x = torch.tensor([-math.log(4), 0.0, 2.5], dtype=dtype)
    close(features(x), torch.tensor([0.25, 1.0, 3.5], dtype=dtype))


def test_weights_by_hand(dtype: torch.dtype, close: Close) -> None:
    q = torch.tensor([[[[0.0, 1.0]]]], dtype=dtype)  # φ = (1, 2)
    k = torch.tensor([[[[0.0, 0.0], [2.0, 2.0]]]], dtype=dtype)  # φ = (1, 1) and (3, 3): products 3 and 9
    pattern = full(torch.arange(1), torch.arange(2))
    close(LinearAttention().weights(q, k, pattern, None), torch.tensor([[[[0.25, 0.75]]]], dtype=dtype))


@settings(max_examples=40, deadline=None)
@given(data=st.data(), b=st.integers(1, 3), t=st.integers(1, 7), more=st.integers(0, 5), is_causal=st.booleans())
def test_it_is_its_quadratic_form(data: st.DataObject, b: int, t: int, more: int, is_causal: bool,
                                  dtype: torch.dtype, close: Close) -> None:
    keys = torch.arange(t + more)
    flags = st.lists(st.lists(st.booleans(), min_size=t + more, max_size=t + more), min_size=b, max_size=b)
    real = data.draw(st.none() | flags)
    pattern = AttentionPattern(keys[more:], keys, None if real is None else torch.tensor(real), causal=is_causal)
    check(pattern, qkv(dtype, b, t, t + more), close)


@pytest.mark.parametrize("t", [63, 64, 65, 150])
@pytest.mark.parametrize("more", [0, 1, 70])
@pytest.mark.parametrize("padded", [False, True])
def test_it_is_its_quadratic_form_beyond_a_chunk(t: int, more: int, padded: bool, dtype: torch.dtype,
                                                 close: Close) -> None:
    keys = torch.arange(t + more)
    real = torch.rand(2, t + more) < 0.7 if padded else None
    queries = keys[more:] if more else keys
    check(causal(queries, keys) & padding(queries, keys, real), qkv(dtype, 2, t, t + more), close)


def test_it_is_its_quadratic_form_at_the_real_rows_of_a_left_padded_batch(dtype: torch.dtype, close: Close) -> None:
    real = torch.tensor([[False, False, True, True, True], [True] * 5])
    positions = positions_of(real, torch.zeros(2, 5))
    pattern = causal(positions, positions) & padding(positions, positions, real)
    q, k, v = qkv(dtype, 2, 5, 5)
    attention = LinearAttention()
    linear, quadratic = attention(q, k, v, pattern, None), attention.weights(q, k, pattern, None) @ v
    rows = real[:, None].expand(2, 2, 5)
    close(linear[rows], quadratic[rows])


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("path", ["forward", "weights"])
@pytest.mark.parametrize("kind", [torch.float32, torch.float64, torch.bfloat16])
def test_a_query_with_nothing_to_look_at_gives_0_and_finite_gradients(kind: torch.dtype, path: str,
                                                                      is_causal: bool) -> None:
    positions = torch.arange(4)
    real = torch.tensor([[False] * 4, [True] * 4])
    pattern = AttentionPattern(positions, positions, real, causal=is_causal)
    inputs = qkv(kind, 2, 4, 4)
    q, k, v = inputs
    attention = LinearAttention()
    out = attention(q, k, v, pattern, None) if path == "forward" else attention.weights(q, k, pattern, None) @ v
    assert not out[0].any()
    out.backward(torch.full_like(out, 1e4))
    for x in inputs:
        assert x.grad is not None
        assert x.grad.isfinite().all()
        assert not x.grad[0].any()


def test_features_that_vanish_give_finite_gradients(dtype: torch.dtype) -> None:
    """φ underflows to 0 for strongly negative inputs; the sums are then 0 though there is something to look at."""
    positions = torch.arange(3)
    q, k, v = (x.detach().sub(1000.0).requires_grad_() for x in qkv(dtype, 1, 3, 3))
    out = LinearAttention()(q, k, v, causal(positions, positions), None)
    out.backward(torch.full_like(out, 1e4))
    assert out.isfinite().all()
    assert all(x.grad is not None and x.grad.isfinite().all() for x in (q, k, v))


def test_outputs_are_averages_of_the_values_seen(dtype: torch.dtype) -> None:
    """The weights are positive and sum to 1, so nothing leaves the range of the values."""
    positions = torch.arange(100)
    q, k, v = qkv(dtype, 2, 100, 100)
    out = LinearAttention()(q, k, v, causal(positions, positions), None)
    assert (out <= v.cummax(2).values + 1e-4).all()
    assert (out >= v.cummin(2).values - 1e-4).all()
