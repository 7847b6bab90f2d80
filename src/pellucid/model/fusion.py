"""Fusion in the decoder: parts of a source are encoded apart, and the decoder reads their memories as one.

Izacard and Grave, "Leveraging Passage Retrieval with Generative Models for Open Domain Question Answering" (2021). A
source of k parts costs the encoder k times the square of a part's length, and not the square of k times that length.
"""

import torch
from torch import Tensor

from pellucid.model.transformer import Transformer
from pellucid.nn.attention_pattern import positions_of


class FusionTransformer(Transformer):
    """A Transformer whose sources are several parts, one behind the other, each ending with the same token.

    No part sees another before the decoder does, and positions begin anew in each, so the order of the parts is lost.
    With one part it is the Transformer that it is made of, to the bit.

    Args:
        plain: whose parts and weights these are.
        end: the token that ends each part of a source.
    """

    def __init__(self, plain: Transformer, end: int) -> None:
        super().__init__(plain.encoder, plain.decoder, plain.source_embedding, plain.target_embedding, plain.output,
                         plain.output_bias, plain.window_size)
        self.end = end

    def encode(self, source: Tensor, real_source: Tensor | None = None,
               positions: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Source ids [B, S] → memory [B, S, D], in the places of their tokens, and the positions of those places."""
        real = torch.ones_like(source, dtype=torch.bool) if real_source is None else real_source
        before = (~real | (source == self.end)).roll(1, dims=1)  # whether something ended there
        before[:, 0] = True
        part = (real & before)[real].cumsum(0) - 1  # [N] of every real token the number of its part, among P
        lengths = part.bincount()  # [P]
        place = torch.arange(len(part), device=source.device) - (lengths.cumsum(0) - lengths)[part]  # [N] within it
        real_parts = torch.arange(int(lengths.max()), device=source.device) < lengths[:, None]  # [P, L]
        parts = torch.zeros_like(real_parts, dtype=source.dtype)
        parts[part, place] = source[real]
        memory, _ = super().encode(parts, None if real_parts.all() else real_parts)
        joined = memory.new_zeros(*source.shape, memory.shape[-1])
        joined[real] = memory[part, place]
        return joined, positions_of(real_source, source) if positions is None else positions
