r"""Token embeddings and the output projection (section 3.4): :math:`\sqrt{D}\,E[x]` in, :math:`h E^\top` out.

The two may be one matrix, and √D lives here alone.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pellucid.kernels import calls

SILENT = -1e9  # the bias of a token that is never said


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


class NoOutputBias(nn.Module):
    """Nothing is added to the logits."""

    def forward(self, logits: Tensor) -> Tensor:
        """[..., V]"""
        return logits

    def join(self, hidden: Tensor, weight: Tensor, targets: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """hidden [..., D], weight [V, D] and targets [N], as they are."""
        return hidden, weight, targets


class OutputBias(nn.Module):
    """h Eᵀ + b: how probable each token is whatever has been read.

    Args:
        vocabulary: the number of words V.
    """

    def __init__(self, vocabulary: int) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(vocabulary))

    def forward(self, logits: Tensor) -> Tensor:
        """[..., V] → [..., V]"""
        return logits + self.bias

    def join(self, hidden: Tensor, weight: Tensor, targets: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """hidden [..., D], weight [V, D] and targets [N] → [..., D + 1], [V', D + 1] and [N]: a one behind each hidden
        state meets the bias of each token, so that their product has b in it.

        V' leaves out the silent tokens that are no target: they have no probability, and label smoothing would expect
        some of them, each at a loss of 10⁹. Targets are numbered as what remains. Nothing silent: V' = V.
        """
        joined = torch.cat([weight, self.bias[:, None].to(weight.dtype)], -1)
        if calls.has_data(self.bias) and (self.bias < 0.1 * SILENT).any():
            said = (self.bias >= 0.1 * SILENT).index_fill(0, targets, True)
            joined, targets = joined.index_select(0, said.nonzero()[:, 0]), (said.cumsum(0) - 1)[targets]
        return torch.cat([hidden, torch.ones_like(hidden[..., :1])], -1), joined, targets


class OutputProjection(nn.Module):
    """h Eᵀ with a matrix of its own, for when the embeddings are not tied."""

    def __init__(self, vocabulary: int, d_model: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(vocabulary, d_model))

    def forward(self, hidden: Tensor) -> Tensor:
        """Hidden states [..., D] → [..., V]"""
        return F.linear(hidden, self.weight)
