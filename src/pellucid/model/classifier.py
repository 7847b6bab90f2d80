"""A sequence classifier: the encoder, a pool over the real tokens, and a two-layer head."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from pellucid.model.encoder import Encoder
from pellucid.nn.attention_pattern import padding, positions_of, window
from pellucid.nn.dropout import Dropout
from pellucid.nn.embeddings import Embedding


class MeanPooling(nn.Module):
    """The mean over real tokens."""

    def forward(self, memory: Tensor, real: Tensor) -> Tensor:
        """memory [B, S, D], real [B, S] → [B, D]"""
        kept = memory * real[..., None]
        return kept.sum(dim=1) / real.sum(dim=1, keepdim=True).clamp(min=1)


class MaxPooling(nn.Module):
    """The largest value of each feature over real tokens; 0 when there are none."""

    def forward(self, memory: Tensor, real: Tensor) -> Tensor:
        """memory [B, S, D], real [B, S] → [B, D]"""
        lowest = memory.masked_fill(~real[..., None], torch.finfo(memory.dtype).min)
        return lowest.amax(dim=1) * real.any(dim=1, keepdim=True)


class FirstPooling(nn.Module):
    """The first real token, as BERT reads its [CLS] (here the bos that begins every text); 0 when there is none."""

    def forward(self, memory: Tensor, real: Tensor) -> Tensor:
        """memory [B, S, D], real [B, S] → [B, D]"""
        first = real.long().argmax(dim=1)
        return memory[torch.arange(memory.shape[0], device=memory.device), first] * real.any(dim=1, keepdim=True)


class Classifier(nn.Module):
    """Token ids → the logits of each class.

    Args:
        encoder: the stack.  embedding: of the source tokens.
        pooling: how a sequence becomes one vector.
        classes: how many; the head is D → D → classes.  activation: between its layers.
        dropout: between the head's layers, behind the activation.
        window_size: how far self-attention looks, or None.
    """

    def __init__(self, encoder: Encoder, embedding: Embedding, pooling: nn.Module, classes: int,
                 activation: Callable[[Tensor], Tensor], dropout: float, window_size: int | None) -> None:
        super().__init__()
        self.source_embedding = embedding
        self.encoder = encoder
        self.pooling = pooling
        d_model = embedding.weight.shape[1]
        self.head_1 = nn.Linear(d_model, d_model)
        self.head_2 = nn.Linear(d_model, classes)
        self.activation = activation
        self.dropout = Dropout(dropout)
        self.window_size = window_size

    def forward(self, source: Tensor, real_source: Tensor | None = None, positions: Tensor | None = None) -> Tensor:
        """Source ids [B, S] (real_source: false at padding) → logits [B, classes]; the tokens' positions are looked for
        if left out."""
        positions = positions_of(real_source, source) if positions is None else positions
        pattern = padding(positions, positions, real_source) & window(positions, positions, self.window_size)
        memory = self.encoder(self.source_embedding(source), pattern)
        real = torch.ones_like(source, dtype=torch.bool) if real_source is None else real_source
        pooled = self.pooling(memory, real)
        logits: Tensor = self.head_2(self.dropout(self.activation(self.head_1(pooled))))
        return logits
