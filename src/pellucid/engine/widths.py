"""Widths that registers hold whole: zeros behind each head, and behind the inner features, add nothing to any sum.

A query and a key that end with zeros have the product they had; what is multiplied with a zero is not seen. So every
width of a head and of a feed-forward layer is the kernels', which know whole registers alone.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch.nn.functional as F
from torch import Tensor, nn

from pellucid.engine.layout import LANES
from pellucid.nn.multi_head_attention import MultiHeadAttention


class Projection(NamedTuple):
    """x ↦ weight x + bias: weight [outer, inner], bias [outer] or None."""

    weight: Tensor
    bias: Tensor | None


def fill_outer(projection: nn.Linear, parts: int) -> Projection:
    """Each of so many equal parts of what comes out ends with zeros, up to a whole width."""
    weight, bias = Projection(projection.weight, projection.bias)
    more = -(len(weight) // parts) % LANES
    if not more:
        return Projection(weight, bias)
    wide = F.pad(weight.reshape(parts, -1, weight.shape[1]), (0, 0, 0, more)).flatten(0, 1)
    return Projection(wide, None if bias is None else F.pad(bias.reshape(parts, -1), (0, more)).flatten())


def fill_inner(projection: nn.Linear, parts: int) -> Projection:
    """Each of so many equal parts of what goes in has such an end, which is left out."""
    weight, bias = projection.weight, projection.bias
    more = -(weight.shape[1] // parts) % LANES
    return Projection(F.pad(weight.reshape(len(weight), parts, -1), (0, more)).flatten(1) if more else weight, bias)


@dataclass(frozen=True)
class Heads:
    """Multi-head attention in whole widths.

    Attributes:
        count: H.
        key_width: d_k, as it is without zeros.
        keys, values: how wide the keys, and the values, of all heads are.
        query, key, value, output: the projections.
    """

    count: int
    key_width: int
    keys: int
    values: int
    query: Projection
    key: Projection
    value: Projection
    output: Projection

    @property
    def row(self) -> int:
        """How wide the key and the value of a token are together."""
        return self.keys + self.values


def heads_of(attention: MultiHeadAttention) -> Heads:
    """Its parts, each head filled up."""
    count = attention.n_heads
    query, key, value = (fill_outer(each, count) for each in (attention.query, attention.key, attention.value))
    return Heads(count, len(attention.query.weight) // count, len(query.weight), len(value.weight), query, key, value,
                 fill_inner(attention.output, count))
