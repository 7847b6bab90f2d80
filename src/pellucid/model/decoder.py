"""The decoder: the right half of Figure 1 (section 3.1), over whole targets or one step at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from torch import Tensor, nn

from pellucid.model.encoder import Residual
from pellucid.nn.key_value_cache import KeyValueCache
from pellucid.nn.masks import Mask
from pellucid.nn.multi_head_attention import MultiHeadAttention
from pellucid.nn.positional_encoding import NoPosition


class LayerCache(NamedTuple):
    """What one layer remembers: the target so far, and the source."""

    target: KeyValueCache
    source: KeyValueCache

    def select(self, rows: Tensor) -> LayerCache:
        """The rows [B'] of the batch."""
        return LayerCache(self.target.select(rows), self.source.select(rows))


class DecoderLayer(nn.Module):
    """Causal self-attention, cross-attention to the encoder's memory, and the feed-forward layer."""

    def __init__(self, self_attention: MultiHeadAttention, cross_attention: MultiHeadAttention,
                 feed_forward: nn.Module, residual: Callable[[], Residual]) -> None:
        super().__init__()
        self.self_attention = self_attention
        self.cross_attention = cross_attention
        self.feed_forward = feed_forward
        self.residual_1 = residual()
        self.residual_2 = residual()
        self.residual_3 = residual()

    def forward(self, y: Tensor, memory: Tensor, target_mask: Mask, source_mask: Mask) -> Tensor:
        """y [B, T, D], memory [B, S, D] → [B, T, D]"""
        y = self.residual_1(y, lambda y: self.self_attention(y, y, target_mask))
        y = self.residual_2(y, lambda y: self.cross_attention(y, memory, source_mask))
        out: Tensor = self.residual_3(y, self.feed_forward)
        return out

    def step(self, y: Tensor, cache: LayerCache, target_mask: Mask, source_mask: Mask) -> tuple[Tensor, LayerCache]:
        """`forward` of the newest token y [B, 1, D] alone, over what the cache remembers → [B, 1, D] and the new
        cache."""
        grown: list[KeyValueCache] = []

        def self_attention(y: Tensor) -> Tensor:
            attended, target = self.self_attention.continue_(y, cache.target, target_mask)
            grown.append(target)
            return attended

        y = self.residual_1(y, self_attention)
        y = self.residual_2(y, lambda y: self.cross_attention.recall(y, cache.source, source_mask))
        return self.residual_3(y, self.feed_forward), LayerCache(grown[0], cache.source)

    def empty_cache(self, memory: Tensor, positions: Tensor) -> LayerCache:
        """The cache before the first token: no target, and the source projected once."""
        source = self.cross_attention.remember(memory, positions)
        nothing = KeyValueCache(source.keys[:, :, :0], source.values[:, :, :0])
        return LayerCache(nothing, source)


class Decoder(nn.Module):
    """A stack of layers over embedded target tokens, closed by a norm where the residual asks for one; arguments as in
    Encoder."""

    def __init__(self, layers: list[DecoderLayer], position: NoPosition, closing_norm: nn.Module,
                 dropout: nn.Module) -> None:
        super().__init__()
        self.position = position
        self.dropout = dropout
        self.layers = nn.ModuleList(layers)
        self.closing_norm = closing_norm

    def stack(self) -> Iterator[DecoderLayer]:
        """The layers, bottom to top."""
        for layer in self.layers:
            assert isinstance(layer, DecoderLayer)
            yield layer

    def forward(self, y: Tensor, memory: Tensor, target_mask: Mask, source_mask: Mask) -> Tensor:
        """Embedded tokens [B, T, D], memory [B, S, D] → [B, T, D]"""
        y = self.dropout(self.position.embed(y, target_mask.query_positions))
        for layer in self.layers:
            y = layer(y, memory, target_mask, source_mask)
        out: Tensor = self.closing_norm(y)
        return out

    def step(self, y: Tensor, caches: tuple[LayerCache, ...], target_mask: Mask,
             source_mask: Mask) -> tuple[Tensor, tuple[LayerCache, ...]]:
        """`forward` of the newest embedded token [B, 1, D] alone."""
        y = self.dropout(self.position.embed(y, target_mask.query_positions))
        grown = []
        for layer, cache in zip(self.stack(), caches, strict=True):
            y, cache = layer.step(y, cache, target_mask, source_mask)
            grown.append(cache)
        return self.closing_norm(y), tuple(grown)

    def empty_caches(self, memory: Tensor, positions: Tensor) -> tuple[LayerCache, ...]:
        """Every layer's cache before the first token."""
        return tuple(layer.empty_cache(memory, positions) for layer in self.stack())
