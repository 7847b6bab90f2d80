"""Transformer-XL's relative positions: the four terms of the paper, one by one."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from pellucid.nn.attention_pattern import AttentionPattern, causal, full, padding
from pellucid.nn.multi_head_attention import MultiHeadAttention
from pellucid.nn.positional_encoding import TransformerXlPosition
from pellucid.nn.scaled_dot_product_attention import ScaledDotProductAttention

Close = Callable[..., None]
Randomize = Callable[[nn.Module], nn.Module]
D, H = 6, 2
WIDTH = D // H


@pytest.fixture
def attention(dtype: torch.dtype, randomize: Randomize) -> MultiHeadAttention:
    return randomize(MultiHeadAttention(D, H, TransformerXlPosition(D, H), ScaledDotProductAttention()).to(dtype))


def sinusoid(distance: int, dtype: torch.dtype) -> Tensor:
    angles = [distance / 10_000 ** (2 * i / D) for i in range(D // 2)]
    return torch.tensor([f(a) for a in angles for f in (math.sin, math.cos)], dtype=dtype)


def four_terms(attention: MultiHeadAttention, x: Tensor, i: int, j: int, distance: int, head: int) -> Tensor:
    """Dai et al. 2019, section 3.3: (a) content by content, (b) content by distance, (c) u by content, (d) v by
    distance; u is the bias of the query projection and v = u + position_bias."""
    part = slice(head * WIDTH, (head + 1) * WIDTH)
    position = attention.position
    q = attention.query.weight[part] @ x[i]
    k = attention.key.weight[part] @ x[j] + attention.key.bias[part]
    u = attention.query.bias[part]
    v = u + position.position_bias[head]
    r = position.projection.weight[part] @ sinusoid(distance, x.dtype)
    return q @ k + q @ r + u @ k + v @ r


def naive(attention: MultiHeadAttention, x: Tensor, pattern: AttentionPattern, row: int) -> Tensor:
    """Multi-head attention over one sequence [T, D], by loops."""
    queries, keys = (p if p.dim() == 1 else p[row] for p in (pattern.query_positions, pattern.key_positions))
    length = len(x)
    allowed = torch.ones(length, length, dtype=torch.bool)
    if pattern.mask is not None:
        allowed = pattern.mask.expand(-1, 1, length, length)[min(row, pattern.mask.shape[0] - 1), 0]
    values = x @ attention.value.weight.T + attention.value.bias
    heads = []
    for head in range(H):
        scores = torch.stack([torch.stack([four_terms(attention, x, i, j, int(queries[i] - keys[j]), head)
                                           for j in range(length)]) for i in range(length)]) / math.sqrt(WIDTH)
        weights = scores.masked_fill(~allowed, -torch.inf).softmax(-1)
        heads.append(weights @ values[:, head * WIDTH : (head + 1) * WIDTH])
    return torch.cat(heads, -1) @ attention.output.weight.T + attention.output.bias


@pytest.mark.parametrize("kind", ["full", "causal", "shifted", "padded"])
def test_the_four_term_formula(kind: str, attention: MultiHeadAttention, dtype: torch.dtype, close: Close) -> None:
    x = torch.randn(2, 5, D, dtype=dtype)
    positions = torch.arange(5) + (20 if kind == "shifted" else 0)
    pattern = full(positions, positions)
    rows = torch.ones(2, 5, dtype=torch.bool)
    if kind == "causal":
        pattern = causal(positions, positions)
    elif kind == "padded":
        rows[1, :2] = False
        positions = torch.tensor([[0, 1, 2, 3, 4], [0, 0, 0, 1, 2]])
        pattern = padding(positions, positions, rows)
    out = attention(x, x, pattern)
    for b in range(2):
        close(out[b][rows[b]], naive(attention, x[b], pattern, b)[rows[b]], 1e-5 if dtype == torch.float32 else 1e-7)


def test_the_bias_has_a_gradient_by_every_part(attention: MultiHeadAttention, dtype: torch.dtype) -> None:
    x, positions = torch.randn(2, 5, D, dtype=dtype), torch.arange(5)
    attention(x, x, full(positions, positions)).square().sum().backward()
    assert all(p.grad is not None and p.grad.abs().max() > 0 for p in attention.position.parameters())
