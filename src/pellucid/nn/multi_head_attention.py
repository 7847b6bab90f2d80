r"""Multi-head attention, section 3.2.2.

.. math:: \mathrm{MultiHead}(Q, K, V) = \mathrm{Concat}(\mathrm{head}_1 \ldots \mathrm{head}_H) W^O, \qquad
          \mathrm{head}_i = \mathrm{Attention}(Q W_i^Q, K W_i^K, V W_i^V)
"""

from torch import Tensor, nn

from pellucid.kernels import joint
from pellucid.nn.attention_pattern import AttentionPattern
from pellucid.nn.key_value_cache import KeyValueCache
from pellucid.nn.linear_attention import LinearAttention
from pellucid.nn.positional_encoding import Position
from pellucid.nn.scaled_dot_product_attention import ScaledDotProductAttention

AttentionFunction = ScaledDotProductAttention | LinearAttention


class MultiHeadAttention(nn.Module):
    """Project, split, turn and bias by position, attend, merge, project.

    Args:
        d_model: the width D, divisible by n_heads where d_head is left out.
        n_heads: the number of heads H.
        position: the scheme whose ``rotate`` and ``bias`` doors are opened.
        function: how a head mixes the values, with ``weights`` and ``forward``.
        d_key: the width d_k of a head's queries and keys; that of its values if left out.
        d_head: the width d_v of a head's values; D/H if left out.
    """

    def __init__(self, d_model: int, n_heads: int, position: Position, function: AttentionFunction,
                 d_key: int | None = None, d_head: int | None = None) -> None:
        super().__init__()
        if d_model % n_heads and d_head is None:
            raise ValueError(f"d_model {d_model} is not divisible by n_heads {n_heads}")
        self.n_heads = n_heads
        values = d_model if d_head is None else n_heads * d_head
        keys = values if d_key is None else n_heads * d_key
        self.query = nn.Linear(d_model, keys)
        self.key = nn.Linear(d_model, keys)
        self.value = nn.Linear(d_model, values)
        self.output = nn.Linear(values, d_model)
        self.position = position
        self.function = function

    def forward(self, x: Tensor, memory: Tensor | KeyValueCache, pattern: AttentionPattern,
                past: KeyValueCache | None = None) -> Tensor:
        """Queries from x, keys and values from memory; self-attention when both are one.

        Args:
            x: [B, T, D].  memory: [B, S, D], or what `remember` made of it.
            past: of self-attention, the keys and values before those of x, which it takes in.

        Returns:
            [B, T, D]
        """
        if memory is x:
            q, k, v = self._heads(x, self.query, self.key, self.value)
            k = self.position.rotate(k, pattern.query_positions)
            if past is not None:
                past.append(k, v)
                k, v = past.read()
        else:
            (q,) = self._heads(x, self.query)
            known = self.remember(memory, pattern.key_positions) if isinstance(memory, Tensor) else memory
            k, v = known.read()
        bias = self.position.bias(q, pattern.query_positions, pattern.key_positions)
        q = self.position.rotate(q, pattern.query_positions)
        heads = self.function(q, k, v, pattern, bias)  # [B, H, T, d_v]
        concatenated = heads.transpose(1, 2).flatten(2)  # [B, T, H·d_v]
        out: Tensor = self.output(concatenated)
        return out

    def remember(self, memory: Tensor, positions: Tensor) -> KeyValueCache:
        """The keys and values of memory [B, S, D] at `positions`, for as many queries as may come."""
        k, v = self._heads(memory, self.key, self.value)
        return KeyValueCache((self.position.rotate(k, positions), v))

    def _heads(self, x: Tensor, *projections: nn.Linear) -> tuple[Tensor, ...]:
        """Each projection of x [B, T, D], split into heads [B, H, T, width]."""
        parts = joint.project(x, projections) if joint.serves(x, projections) else [each(x) for each in projections]
        return tuple(part.view(*x.shape[:2], self.n_heads, part.shape[2] // self.n_heads).transpose(1, 2)
                     for part in parts)
