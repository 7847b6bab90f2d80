"""The decoder: the right half of Figure 1 (section 3.1), over whole targets or one step at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from torch import Tensor, nn

from pellucid.nn.attention_pattern import AttentionPattern
from pellucid.nn.key_value_cache import KeyValueCache
from pellucid.nn.multi_head_attention import MultiHeadAttention
from pellucid.nn.positional_encoding import Position
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

    def forward(self, y: Tensor, memory: Tensor | KeyValueCache, target: AttentionPattern, source: AttentionPattern,
                past: KeyValueCache | None = None) -> Tensor:
        """y [B, T, D] → [B, T, D], over memory [B, S, D] and, where y is not the whole target, over what was `past`;
        both attentions as in `MultiHeadAttention`."""
        y = self.residual_1(y, lambda y: self.self_attention(y, y, target, past))
        y = self.residual_2(y, lambda y: self.cross_attention(y, memory, source))
        out: Tensor = self.residual_3(y, self.feed_forward)
        return out

    def start(self, memory: Tensor, positions: Tensor) -> LayerCache:
        """The cache before the first token: the source projected once, no target."""
        return LayerCache(self.cross_attention.remember(memory, positions), KeyValueCache())


class Decoder(nn.Module):
    """A stack of layers over embedded target tokens, closed by a norm where the residual asks for one; arguments as in
    Encoder."""

    def __init__(self, layers: list[DecoderLayer], position: Position, closing_norm: nn.Module,
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

    def forward(self, y: Tensor, memory: Tensor | Sequence[LayerCache], target: AttentionPattern,
                source: AttentionPattern) -> Tensor:
        """Embedded tokens [B, T, D] over memory [B, S, D] → [B, T, D]; or, over what each layer remembers, the newest
        tokens alone, which it then remembers too."""
        y = self.dropout(self.position.embed(y, target.query_positions))
        for number, layer in enumerate(self.layers):
            if isinstance(memory, Tensor):
                y = layer(y, memory, target, source)
            else:
                y = layer(y, memory[number].source, target, source, memory[number].target)
        out: Tensor = self.closing_norm(y)
        return out

    def start(self, memory: Tensor, positions: Tensor) -> tuple[LayerCache, ...]:
        """Every layer's cache before the first token."""
        return tuple(layer.start(memory, positions) for layer in self.stack())
