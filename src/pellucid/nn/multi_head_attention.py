r"""Multi-head attention, section 3.2.2.

.. math:: \mathrm{MultiHead}(Q, K, V) = \mathrm{Concat}(\mathrm{head}_1 \ldots \mathrm{head}_H) W^O, \qquad
          \mathrm{head}_i = \mathrm{Attention}(Q W_i^Q, K W_i^K, V W_i^V)
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pellucid.nn.key_value_cache import KeyValueCache
from pellucid.nn.linear_attention import LinearAttention
from pellucid.nn.masks import Mask
from pellucid.nn.positional_encoding import NoPosition
from pellucid.nn.scaled_dot_product_attention import ScaledDotProductAttention


class MultiHeadAttention(nn.Module):
    """Project, split, open the position's doors, attend, merge, project.

    Args:
        d_model: the width D, divisible by n_heads.
        n_heads: the number of heads H.
        position: the scheme whose ``rotate`` and ``bias`` doors are opened.
        kernel: how the values are mixed, with ``weights`` and ``forward``.
        d_key: the width d_k of a head's queries and keys; that of its values, D/H, if left out.
    """

    def __init__(self, d_model: int, n_heads: int, position: NoPosition,
                 kernel: ScaledDotProductAttention | LinearAttention, d_key: int | None = None) -> None:
        super().__init__()
        if d_model % n_heads:
            raise ValueError(f"d_model {d_model} is not divisible by n_heads {n_heads}")
        self.n_heads = n_heads
        keys = d_model if d_key is None else n_heads * d_key
        self.query = nn.Linear(d_model, keys)
        self.key = nn.Linear(d_model, keys)
        self.value = nn.Linear(d_model, d_model)
        self.output = nn.Linear(d_model, d_model)
        self.position = position
        self.kernel = kernel

    def forward(self, x: Tensor, memory: Tensor, mask: Mask) -> Tensor:
        """Queries from x [B, T, D], keys and values from memory [B, S, D] → [B, T, D]; self-attention when both are
        one."""
        if memory is x:
            q, k, v = self._heads(x, self.query, self.key, self.value)
            k = self.position.rotate(k, mask.key_positions)
        else:
            (q,) = self._heads(x, self.query)
            k, v = self.remember(memory, mask.key_positions)
        return self._attend(q, k, v, mask)

    def remember(self, memory: Tensor, positions: Tensor) -> KeyValueCache:
        """The keys and values of memory [B, S, D] at `positions`, to be recalled at every decoding step."""
        k, v = self._heads(memory, self.key, self.value)
        return KeyValueCache(self.position.rotate(k, positions), v)

    def recall(self, x: Tensor, cache: KeyValueCache, mask: Mask) -> Tensor:
        """Queries from x [B, T, D] over keys and values that were remembered → [B, T, D]."""
        (q,) = self._heads(x, self.query)
        return self._attend(q, *cache, mask)

    def continue_(self, x: Tensor, cache: KeyValueCache, mask: Mask) -> tuple[Tensor, KeyValueCache]:
        """Self-attention of the new x [B, T, D] over all that came before → [B, T, D] and the longer cache."""
        q, k, v = self._heads(x, self.query, self.key, self.value)
        cache = cache.append(self.position.rotate(k, mask.query_positions), v)
        return self._attend(q, *cache, mask), cache

    def _heads(self, x: Tensor, *projections: nn.Linear) -> tuple[Tensor, ...]:
        """Each projection of x [B, T, D], split into heads [B, H, T, width]; one matrix product for all of them."""
        weight = projections[0].weight if len(projections) == 1 else torch.cat([p.weight for p in projections])
        bias = projections[0].bias if len(projections) == 1 else torch.cat([p.bias for p in projections])
        joint = F.linear(x, weight, bias)  # [B, T, the widths of all]
        widths = [p.out_features for p in projections]
        parts = torch.split_with_sizes(joint, widths, dim=2)
        return tuple(part.view(*x.shape[:2], self.n_heads, width // self.n_heads).transpose(1, 2)
                     for part, width in zip(parts, widths, strict=True))

    def _attend(self, q: Tensor, k: Tensor, v: Tensor, mask: Mask) -> Tensor:
        bias = self.position.bias(q, mask.query_positions, mask.key_positions)
        q = self.position.rotate(q, mask.query_positions)
        heads = self.kernel(q, k, v, mask, bias)  # [B, H, T, D/H]
        merged = heads.transpose(1, 2).flatten(2)  # [B, T, D]
        projected: Tensor = self.output(merged)
        return projected
