"""The Transformer, Figure 1: an encoder, a decoder, and the embeddings that feed and finish them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from pellucid.model.decoder import Decoder, LayerCache
from pellucid.model.encoder import Encoder
from pellucid.nn.attention_pattern import causal, padding, positions_of, window
from pellucid.nn.embeddings import Embedding, NoOutputBias, OutputBias, OutputProjection


@dataclass(frozen=True)
class DecodingState:
    """What decoding remembers between two steps, one row for each hypothesis."""

    caches: tuple[LayerCache, ...]
    source_positions: Tensor  # [S] or [R, S]
    real_source: Tensor | None  # [R, S]
    length: int  # target tokens seen

    def select(self, rows: Tensor) -> DecodingState:
        """The state of the rows [R'], in that order; a row may come several times."""
        positions = self.source_positions
        return DecodingState(tuple(cache.select(rows) for cache in self.caches),
                             positions if positions.dim() == 1 else positions.index_select(0, rows),
                             None if self.real_source is None else self.real_source.index_select(0, rows), self.length)


class Transformer(nn.Module):
    """Source tokens and the target so far → the next target token.

    Args:
        encoder, decoder: the two stacks.
        source_embedding, target_embedding: one object when the vocabulary is shared and tied.
        output: the matrix of the output projection; the target embedding itself when tied.
        output_bias: added to the logits; `NoOutputBias` unless it is asked for.
        window_size: how far self-attention looks, or None.
    """

    def __init__(self, encoder: Encoder, decoder: Decoder, source_embedding: Embedding, target_embedding: Embedding,
                 output: Embedding | OutputProjection, output_bias: OutputBias | NoOutputBias,
                 window_size: int | None) -> None:
        super().__init__()
        self.source_embedding = source_embedding
        self.target_embedding = target_embedding
        self.encoder = encoder
        self.decoder = decoder
        self.output = output
        self.output_bias = output_bias
        self.window_size = window_size

    def forward(self, source: Tensor, target: Tensor, real_source: Tensor | None = None,
                real_target: Tensor | None = None) -> Tensor:
        """The logits of the token after each target token.

        Args:
            source: token ids [B, S].  target: token ids [B, T], beginning with bos.
            real_source, real_target: [B, S] and [B, T], false at padding; None where there is none. Target padding at
                the end needs no mask: nothing real looks there.

        Returns:
            [B, T, V]
        """
        memory, source_positions = self.encode(source, real_source)
        return self.logits(self.decode(target, memory, source_positions, real_source, real_target))

    def encode(self, source: Tensor, real_source: Tensor | None = None,
               positions: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Source ids [B, S] → memory [B, S, D] and the positions of its tokens, which are looked for if left out."""
        positions = positions_of(real_source, source) if positions is None else positions
        pattern = padding(positions, positions, real_source) & window(positions, positions, self.window_size)
        return self.encoder(self.source_embedding(source), pattern), positions

    def decode(self, target: Tensor, memory: Tensor, source_positions: Tensor, real_source: Tensor | None = None,
               real_target: Tensor | None = None) -> Tensor:
        """Target ids [B, T] over memory [B, S, D] → hidden states [B, T, D]."""
        here = positions_of(real_target, target)
        return self._decode(target, memory, (here, here, source_positions), real_target, real_source)

    def _decode(self, tokens: Tensor, memory: Tensor | Sequence[LayerCache], positions: tuple[Tensor, Tensor, Tensor],
                real_target: Tensor | None, real_source: Tensor | None) -> Tensor:
        """What `decode` and `step` share; positions of the tokens, of the whole target so far, and of the source."""
        here, so_far, of_source = positions
        pattern = causal(here, so_far) & window(here, so_far, self.window_size) & padding(here, so_far, real_target)
        hidden: Tensor = self.decoder(self.target_embedding(tokens), memory, pattern,
                                      padding(here, of_source, real_source))
        return hidden

    def logits(self, hidden: Tensor) -> Tensor:
        """Hidden states [..., D] → logits [..., V]."""
        is_tied = isinstance(self.output, Embedding)
        logits: Tensor = nn.functional.linear(hidden, self.output.weight) if is_tied else self.output(hidden)
        biased: Tensor = self.output_bias(logits)
        return biased

    def start(self, source: Tensor, real_source: Tensor | None = None) -> DecodingState:
        """Encodes source ids [B, S]: the state before the first target token, cross-attention projected once."""
        memory, positions = self.encode(source, real_source)
        return DecodingState(self.decoder.start(memory, positions), positions, real_source, 0)

    def step(self, state: DecodingState, tokens: Tensor) -> tuple[Tensor, DecodingState]:
        """The newest target tokens [R] → logits of the next ones [R, V], and the state after them; the old state stays
        as it was."""
        caches = tuple(cache.copy() for cache in state.caches)
        here = torch.tensor([state.length], device=tokens.device)
        so_far = torch.arange(state.length + 1, device=tokens.device)
        logits = self.decode_next(tokens, caches, (here, so_far, state.source_positions), None, state.real_source)
        return logits, DecodingState(caches, state.source_positions, state.real_source, state.length + 1)

    def decode_next(self, tokens: Tensor, caches: Sequence[LayerCache], positions: tuple[Tensor, Tensor, Tensor],
                    real_target: Tensor | None, real_source: Tensor | None) -> Tensor:
        """The newest target tokens [R], over what the caches remember, which then remember them too → logits [R, V].

        Args:
            positions: of the newest token [1], of the target that the caches hold [T], and of the source.
            real_target: [R, T], false at what they hold behind the newest token; None where that is the last.
        """
        return self.logits(self._decode(tokens[:, None], caches, positions, real_target, real_source)[:, 0])
