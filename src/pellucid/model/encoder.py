"""The encoder: the left half of Figure 1 (section 3.1)."""

from collections.abc import Callable, Iterator, Sequence

from torch import Tensor, nn

from pellucid.nn.attention_pattern import AttentionPattern
from pellucid.nn.multi_head_attention import MultiHeadAttention
from pellucid.nn.positional_encoding import Position
from pellucid.nn.residual_connection import Residual


class EncoderLayer(nn.Module):
    """Self-attention, then the feed-forward layer, each inside its residual connection."""

    def __init__(self, self_attention: MultiHeadAttention, feed_forward: nn.Module,
                 residual: Callable[[], Residual]) -> None:
        super().__init__()
        self.self_attention = self_attention
        self.feed_forward = feed_forward
        self.residual_1 = residual()
        self.residual_2 = residual()

    def forward(self, x: Tensor, pattern: AttentionPattern) -> Tensor:
        """[B, S, D] → [B, S, D]"""
        x = self.residual_1(x, lambda x: self.self_attention(x, x, pattern))
        out: Tensor = self.residual_2(x, self.feed_forward)
        return out


class Stack(nn.Module):
    """Layers over embedded tokens, closed by a norm where the residual asks for one.

    Args:
        layers: bottom to top.  position: the scheme whose ``embed`` door is opened.
        closing_norm: `NoNorm` unless the residual connection needs a norm at the stack's end.
        dropout: on the sum of embeddings and positions.
        embedding_norm: on that sum, before the dropout; `NoNorm` unless it is asked for.
    """

    def __init__(self, layers: Sequence[nn.Module], position: Position, closing_norm: nn.Module,
                 dropout: nn.Module, embedding_norm: nn.Module) -> None:
        super().__init__()
        self.position = position
        self.dropout = dropout
        self.layers = nn.ModuleList(layers)
        self.closing_norm = closing_norm
        self.embedding_norm = embedding_norm


class Encoder(Stack):
    """The stack of encoder layers."""

    def stack(self) -> Iterator[EncoderLayer]:
        """The layers, bottom to top."""
        for layer in self.layers:
            assert isinstance(layer, EncoderLayer)
            yield layer

    def forward(self, x: Tensor, pattern: AttentionPattern) -> Tensor:
        """Embedded tokens [B, S, D] → memory [B, S, D]"""
        x = self.dropout(self.embedding_norm(self.position.embed(x, pattern.key_positions)))
        for layer in self.layers:
            x = layer(x, pattern)
        out: Tensor = self.closing_norm(x)
        return out
