r"""Token embeddings and the output projection (section 3.4): :math:`\sqrt{D}\,E[x]` in, :math:`h E^\top` out.

The two may be one matrix, and √D lives here alone.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Embedding(nn.Module):
    """√D·E[x]; the same matrix can serve as the output projection.

    Args:
        vocabulary: the number of rows V.  d_model: the width D.
    """

    def __init__(self, vocabulary: int, d_model: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(vocabulary, d_model))
        self.scale = math.sqrt(d_model)

    def forward(self, tokens: Tensor) -> Tensor:
        """Token ids [B, T] → [B, T, D]"""
        return F.embedding(tokens, self.weight) * self.scale


class OutputProjection(nn.Module):
    """h Eᵀ with a matrix of its own, for when the embeddings are not tied."""

    def __init__(self, vocabulary: int, d_model: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(vocabulary, d_model))
