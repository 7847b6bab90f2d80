r"""Positions: how a model knows the order of its tokens (section 3.5, and what came after it).

Every scheme opens at most one of three doors: ``embed`` adds to the token embeddings, where a stack begins; ``rotate``
turns queries and keys, ``bias`` adds to the scores, in every self-attention. Who passes does not know which is open.
"""

import math
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pellucid.kernels import rotary

Door = Literal["none", "embed", "rotate", "bias"]


class Position(nn.Module):
    """A scheme with all doors closed; the method that it overrides is the one that it opens, and its `door`."""

    door: Door = "none"

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.door = next(iter(doors_of(cls)), "none")

    def embed(self, x: Tensor, positions: Tensor) -> Tensor:
        """Token embeddings x [B, T, D] at `positions` ([T] or [B, T]) → [B, T, D]."""
        return x

    def rotate(self, heads: Tensor, positions: Tensor) -> Tensor:
        """Queries or keys [B, H, T, d_k] at `positions` → the same shape."""
        return heads

    def bias(self, queries: Tensor, query_positions: Tensor, key_positions: Tensor) -> Tensor | None:
        """What to add to the scores, [B or 1, H, T, S], for queries [B, H, T, d_k]; None adds nothing. The positions of
        T and of S tokens lie less than max(T, S) apart."""
        return None


def doors_of(kind: type[nn.Module]) -> list[Door]:
    """Those that a class of positions opens."""
    doors: tuple[Door, ...] = ("embed", "rotate", "bias")
    return [door for door in doors if getattr(kind, door) is not getattr(Position, door)]


class NoPosition(Position):
    """All doors stay closed: the model sees a bag of tokens, but for what a causal pattern gives away."""


def _angles(positions: Tensor, width: int) -> Tensor:
    """pos / 10000^(2i/width) for each pair i of features: positions [...] → [..., ⌈width/2⌉], in fp32."""
    even = torch.arange(0, width, 2, device=positions.device, dtype=torch.float32)
    return positions[..., None].float() * torch.exp(even * (-math.log(10_000.0) / width))


class SinusoidalPosition(Position):
    r"""Section 3.5: :math:`PE_{(pos, 2i)} = \sin(pos / 10000^{2i/D})`, :math:`PE_{(pos, 2i+1)} = \cos(\ldots)`.

    An odd width ends with a sine.
    """

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.d_model = d_model

    def table(self, positions: Tensor) -> Tensor:
        """The encodings of `positions` [...] → [..., D], in fp32."""
        angles = _angles(positions, self.d_model)
        pairs = torch.stack([angles.sin(), angles.cos()], dim=-1)  # [..., ⌈D/2⌉, 2]
        return pairs.flatten(-2)[..., : self.d_model]

    def embed(self, x: Tensor, positions: Tensor) -> Tensor:
        """x + PE."""
        return x + self.table(positions).to(x.dtype)


class LearnedPosition(Position):
    """A learned vector for each position (section 3.5, row E of table 3)."""

    def __init__(self, d_model: int, max_length: int) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.zeros(max_length, d_model))

    def embed(self, x: Tensor, positions: Tensor) -> Tensor:
        """x + table[positions].

        Raises:
            ValueError: a position beyond the table.
        """
        if x.shape[1] and int(positions.max()) >= self.table.shape[0]:
            raise ValueError(f"learned positions end at model.max_length {self.table.shape[0]}; "
                             f"position {int(positions.max())} was asked for")
        return x + self.table[positions]


class RotaryPosition(Position):
    r"""Rotary embedding (Su et al. 2021): dimensions 2i and 2i+1 turn by the angle :math:`pos / 10000^{2i/d_k}`, so
    that :math:`q_m \cdot k_n` depends on the content and on :math:`m - n` alone."""

    def __init__(self, d_key: int) -> None:
        super().__init__()
        if d_key % 2:
            raise ValueError(f"rotary positions turn pairs of features: d_key must be even, not {d_key}")
        self.d_key = d_key

    def rotate(self, heads: Tensor, positions: Tensor) -> Tensor:
        """[B, H, T, d_k] turned by their positions."""
        angles = _angles(positions, self.d_key)
        angles = angles if positions.dim() == 1 else angles[:, None]  # [T, d_k/2] or [B, 1, T, d_k/2]
        if rotary.serves(heads, angles):
            return rotary.turn(heads, angles)
        cos, sin = angles.cos().to(heads.dtype), angles.sin().to(heads.dtype)
        a, b = heads[..., 0::2], heads[..., 1::2]
        return torch.stack([a * cos - b * sin, a * sin + b * cos], dim=-1).flatten(-2)


def _distances(query_positions: Tensor, key_positions: Tensor) -> Tensor:
    """key position - query position: [B or 1, T, S]."""
    distance = key_positions[..., None, :] - query_positions[..., :, None]
    return distance if distance.dim() == 3 else distance[None]


class AlibiPosition(Position):
    """ALiBi (Press et al. 2022): scores fall linearly with distance, each head at its own slope; symmetric, so that it
    serves encoders too. A symmetric encoder gives a source and its reverse the same vectors in reverse order, and
    cross-attention has no positions: with ALiBi alone, a decoder cannot tell the two apart (and cannot learn to copy).
    """

    def __init__(self, n_heads: int) -> None:
        super().__init__()
        self.slopes = tuple(alibi_slopes(n_heads))

    def bias(self, queries: Tensor, query_positions: Tensor, key_positions: Tensor) -> Tensor:
        """-slope·|distance|: [B or 1, H, T, S]."""
        slopes = torch.stack([queries.new_full((), slope) for slope in self.slopes])  # a copy would wait for a GPU
        distance = _distances(query_positions, key_positions).abs().to(queries.dtype)
        return -slopes[:, None, None] * distance[:, None]


def alibi_slopes(n_heads: int) -> list[float]:
    """2^(-8/n), 2^(-16/n) … for a power of two; else those of the power below, then every second one of twice it."""
    power = 2 ** math.floor(math.log2(n_heads))
    slopes = [2 ** (-8 * (i + 1) / power) for i in range(power)]
    between = [2 ** (-8 * (i + 1) / (2 * power)) for i in range(0, 2 * power, 2)]
    return slopes + between[: n_heads - power]


class T5Position(Position):
    """T5's relative bias (Raffel et al. 2020, section 2.1): a learned number for each head and bucket of distances;
    exact buckets near, logarithmic ones up to 128, the last one beyond. One table for each attention layer, as
    UMT5 has it; T5's layers share one.

    Args:
        bidirectional: half of the buckets are for keys after the query; else all are for keys up to it.
    """

    buckets = 32
    max_distance = 128

    def __init__(self, n_heads: int, bidirectional: bool) -> None:
        super().__init__()
        self.bidirectional = bidirectional
        self.table = nn.Parameter(torch.zeros(self.buckets, n_heads))

    def bucket(self, distance: Tensor) -> Tensor:
        """The bucket of each distance (key position - query position), an integer tensor of the same shape."""
        if self.bidirectional:
            half = self.buckets // 2
            return (distance > 0).long() * half + self._bucket_of_length(distance.abs(), half)
        return self._bucket_of_length((-distance).clamp(min=0), self.buckets)

    def _bucket_of_length(self, length: Tensor, buckets: int) -> Tensor:
        exact = buckets // 2
        ratio = (length.clamp(min=1).double() / exact).log() / math.log(self.max_distance / exact)
        whole = (ratio * (buckets - exact) + 1e-6).long()  # where it is a whole number, a GPU's logarithms miss it
        logarithmic = (exact + whole).clamp(max=buckets - 1)
        return torch.where(length < exact, length, logarithmic)

    def bias(self, queries: Tensor, query_positions: Tensor, key_positions: Tensor) -> Tensor:
        """table[bucket(distance)]: [B or 1, H, T, S]."""
        buckets = self.bucket(_distances(query_positions, key_positions))
        return F.embedding(buckets, self.table).permute(0, 3, 1, 2)


class QuadraticPosition(Position):
    r"""The quadratic encoding of Cordonnier, Loukas and Jaggi (2020, section 3), of distances on a line: head h adds
    :math:`-\alpha_h (\delta - \Delta_h)^2` for a key at distance δ, so that it looks about a place of its own; all of
    them together can be a convolution (their theorem 1). Both numbers are learned.

    The heads begin at 0, -1, 1, -2 and 2, or at 0 to -4 where all keys are up to the query; those beyond five at the
    same places in turn. Each has α = 1: where queries and keys say nothing, 56 % of its weight is on its place, and
    21 % on either neighbour.

    Args:
        bidirectional: keys may come after the query.
    """

    def __init__(self, n_heads: int, bidirectional: bool) -> None:
        super().__init__()
        places = (0, -1, 1, -2, 2) if bidirectional else (0, -1, -2, -3, -4)
        centres = torch.tensor(places, dtype=torch.get_default_dtype())
        self.centre = nn.Parameter(centres[torch.arange(n_heads) % len(places)])  # Δ
        self.sharpness = nn.Parameter(torch.ones(n_heads))  # α

    def bias(self, queries: Tensor, query_positions: Tensor, key_positions: Tensor) -> Tensor:
        """-sharpness·(distance - centre)²: [B or 1, H, T, S]."""
        distance = _distances(query_positions, key_positions)[:, None].to(self.centre.dtype)
        return -self.sharpness[:, None, None] * (distance - self.centre[:, None, None]).square()


class TransformerXlPosition(Position):
    r"""Transformer-XL's relative positions (Dai et al. 2019, section 3.3). Their score has four terms,

    .. math:: q_i^\top k_j + q_i^\top W_R r_{i-j} + u^\top k_j + v^\top W_R r_{i-j},

    with sinusoids r. Our queries have a bias whatever the scheme, and it does what u does: with q' = q + u they are
    q'ᵀk + (q' + position_bias)ᵀ W_R r, so that v = u + position_bias. The first is attention's own, the second the bias
    that this scheme gives.
    """

    def __init__(self, d_model: int, n_heads: int) -> None:
        super().__init__()
        self.n_heads = n_heads
        self.sinusoids = SinusoidalPosition(d_model)
        self.projection = nn.Linear(d_model, d_model, bias=False)  # W_R
        self.position_bias = nn.Parameter(torch.zeros(n_heads, d_model // n_heads))

    def bias(self, queries: Tensor, query_positions: Tensor, key_positions: Tensor) -> Tensor:
        """(q'_i + position_bias)·W_R r_{i-j} / √d_k: [B, H, T, S]."""
        distance = -_distances(query_positions, key_positions)  # [B or 1, T, S] of i - j
        longest = max(*distance.shape[1:], 1) - 1
        span = torch.arange(-longest, longest + 1, device=distance.device)  # every distance once
        r = self.projection(self.sinusoids.table(span).to(self.projection.weight.dtype)).to(queries.dtype)
        r = r.view(len(span), self.n_heads, -1)  # [distances, H, d_k]
        q = queries + self.position_bias[:, None, :].to(queries.dtype)
        by_distance = torch.einsum("bhtd,rhd->bhtr", q, r) / math.sqrt(queries.shape[-1])
        index = (distance + longest)[:, None].expand(queries.shape[0], self.n_heads, -1, -1)
        return by_distance.gather(-1, index)
