r"""Scaled dot-product attention, equation (1), section 3.2.1.

.. math:: \mathrm{Attention}(Q, K, V) = \mathrm{softmax}\big(QK^\top / \sqrt{d_k} + \text{bias}\big)\,V

with scores of -∞ where the pattern hides a key (section 3.2.3), and dropout on the weights where it is asked for.
"""

import math

import torch
from torch import Tensor, nn

from pellucid.kernels import attention
from pellucid.nn.attention_pattern import AttentionPattern
from pellucid.nn.dropout import Dropout


class ScaledDotProductAttention(nn.Module):
    """Softmax attention. A query that may look at nothing gets the weights 0 and so the output 0."""

    accepts_bias = True
    accepts_rotation = True

    def __init__(self, dropout: float = 0.0) -> None:
        super().__init__()
        self.dropout = Dropout(dropout)

    def weights(self, q: Tensor, k: Tensor, pattern: AttentionPattern, bias: Tensor | None) -> Tensor:
        """softmax(QKᵀ/√d_k + bias) where the pattern allows, 0 elsewhere.

        Args:
            q: [B, H, T, d_k].  k: [B, H, S, d_k].  bias: [B or 1, H, T, S] or None.

        Returns:
            [B, H, T, S], each row summing to 1, or to 0 where there is nothing to look at.
        """
        scores = (q / math.sqrt(q.shape[-1])) @ k.transpose(-2, -1)  # [B, H, T, S]
        if bias is not None:
            scores = scores + bias
        if pattern.mask is None:
            return scores.softmax(-1)
        # The lowest number in the place of -∞: a row that sees nothing would be NaN, and is 0 by the last factor.
        scores = scores.masked_fill(~pattern.mask, torch.finfo(scores.dtype).min)
        return scores.softmax(-1) * pattern.answerable

    def forward(self, q: Tensor, k: Tensor, v: Tensor, pattern: AttentionPattern, bias: Tensor | None) -> Tensor:
        """Attention(Q, K, V): [B, H, T, d_v], with v: [B, H, S, d_v] and the rest as in `weights`, which dropout falls
        on."""
        if not self.dropout.drops and attention.serves(q, k, v, pattern, bias):
            return attention.attend(q, k, v, pattern, bias)
        weights: Tensor = self.dropout(self.weights(q, k, pattern, bias))
        return weights @ v
