"""What ranks send each other in an update, in bytes and collectives, as DDP and FSDP2 do it (train/parallel.py).

Of n bytes in a group of w ranks, a ring sends (w − 1)/w · n from each rank to gather or to scatter sums, and twice that
to sum them everywhere (Patarasuk & Yuan 2009). gloo scatters sums by summing them everywhere.
"""

from dataclasses import dataclass

from torch import nn

from pellucid.model.decoder import DecoderLayer
from pellucid.model.encoder import EncoderLayer

BUCKET, FIRST_BUCKET = 25 * 2**20, 2**20  # bytes of gradients that DDP sends together
_AGREED = 5 * 8  # loss, tokens, waiting, the wish to stop and the norm, in fp64
_FP32 = 4


@dataclass(frozen=True)
class Sizes:
    """Bytes of the weights: of all layers, of the largest of them, of what is in no layer; how many layers there are,
    and how many buckets of gradients DDP makes."""

    layers: int
    largest: int
    rest: int
    count: int
    buckets: int

    @property
    def all(self) -> int:
        """Of all weights."""
        return self.layers + self.rest


def sizes_of(model: nn.Module) -> Sizes:
    """Counts."""
    layers = [_FP32 * sum(p.numel() for p in module.parameters()) for module in model.modules()
              if isinstance(module, EncoderLayer | DecoderLayer)]
    every = [_FP32 * p.numel() for p in model.parameters()]
    return Sizes(sum(layers), max(layers), sum(every) - sum(layers), len(layers), _buckets(every[::-1]))


def _buckets(gradients: list[int]) -> int:
    """How many buckets gradients of these bytes fill, in about the order in which they are ready: one is closed when it
    holds its size or more."""
    count, room = 1, FIRST_BUCKET
    for size in gradients:
        if room <= 0:
            count, room = count + 1, BUCKET
        room -= size
    return count


@dataclass(frozen=True)
class Traffic:
    """What a rank sends in an update.

    Attributes:
        divided: bytes to the ranks with which it divides the weights.
        replicated: bytes to those that have the same part of them; with DDP, all.
        collectives: how many.
    """

    divided: float
    replicated: float
    collectives: int

    @property
    def bytes(self) -> float:
        """All of them."""
        return self.divided + self.replicated


def traffic(sizes: Sizes, size: int, shard: int, micro_batches: int, by_gloo: bool) -> Traffic:
    """Of each rank of a world, whatever its batches are.

    Args:
        size: how many ranks.  shard: how many of them divide the weights.
        micro_batches: of a rank in an update: DDP sends with the last one alone, FSDP2 gathers weights for each, those
            of a layer once more in its backward pass.
        by_gloo: whether gloo sends; else NCCL.
    """
    if size == 1:
        return Traffic(0.0, 0.0, 0)
    replicas = size // shard
    agreed = _sum(size) * _AGREED
    if shard == 1:
        return Traffic(0.0, _sum(size) * sizes.all + agreed, sizes.buckets + 1)
    gathered = micro_batches * (2 * sizes.layers + sizes.rest) * (shard - 1) / shard
    scattered = sizes.all * (_sum(shard) if by_gloo else (shard - 1) / shard)
    groups = sizes.count + 1
    collectives = micro_batches * (groups + sizes.count) + groups * (2 if replicas > 1 else 1) + 1
    return Traffic(gathered + scattered, _sum(replicas) * sizes.all / shard + agreed, collectives)


def _sum(size: int) -> float:
    """Bytes that a rank sends for each byte that is summed everywhere."""
    return 2 * (size - 1) / size
