"""The decoder: the right half of Figure 1 (section 3.1), over whole targets or one step at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from torch import Tensor, nn

from pellucid.model.encoder import Stack
from pellucid.nn.attention_pattern import AttentionPattern
from pellucid.nn.key_value_cache import KeyValueCache
from pellucid.nn.multi_head_attention import MultiHeadAttention
from pellucid.nn.residual_connection import Residual


class LayerCache(NamedTuple):
    """What one layer remembers between two steps: the source, and the target so far, which grows."""

    source: KeyValueCache
    target: KeyValueCache

    def select(self, rows: Tensor) -> LayerCache:
        """The rows [B'] of the batch."""
        return LayerCache(self.source.select(rows), self.target.select(rows))

    def copy(self) -> LayerCache:
        """One that grows by itself."""
        return LayerCache(self.source, self.target.copy())


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

    def forward(self, y: Tensor, memory: Tensor | KeyValueCache, target_pattern: AttentionPattern,
                source_pattern: AttentionPattern, past: KeyValueCache | None = None) -> Tensor:
        """y [B, T, D] → [B, T, D], over memory [B, S, D] and, where y is not the whole target, over what was `past`;
        both attentions as in `MultiHeadAttention`."""
        y = self.residual_1(y, lambda y: self.self_attention(y, y, target_pattern, past))
        y = self.residual_2(y, lambda y: self.cross_attention(y, memory, source_pattern))
        out: Tensor = self.residual_3(y, self.feed_forward)
        return out

    def start(self, memory: Tensor, positions: Tensor) -> LayerCache:
        """The cache before the first token: the source projected once, no target."""
        return LayerCache(self.cross_attention.remember(memory, positions), KeyValueCache())


class Decoder(Stack):
    """The stack of decoder layers."""

    def stack(self) -> Iterator[DecoderLayer]:
        """The layers, bottom to top."""
        for layer in self.layers:
            assert isinstance(layer, DecoderLayer)
            yield layer

    def forward(self, y: Tensor, memory: Tensor | Sequence[LayerCache], target_pattern: AttentionPattern,
                source_pattern: AttentionPattern) -> Tensor:
        """Embedded tokens [B, T, D] over memory [B, S, D] → [B, T, D]; or, over what each layer remembers, the newest
        tokens alone, which it then remembers too."""
        y = self.dropout(self.embedding_norm(self.position.embed(y, target_pattern.query_positions)))
        known = [(memory, None)] * len(self.layers) if isinstance(memory, Tensor) else memory
        for layer, (source, past) in zip(self.layers, known, strict=True):
            y = layer(y, source, target_pattern, source_pattern, past)
        out: Tensor = self.closing_norm(y)
        return out

    def start(self, memory: Tensor, positions: Tensor) -> tuple[LayerCache, ...]:
        """Every layer's cache before the first token."""
        return tuple(layer.start(memory, positions) for layer in self.stack())
