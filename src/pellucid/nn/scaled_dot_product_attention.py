r"""Scaled dot-product attention, equation (1), section 3.2.1.

.. math:: \mathrm{Attention}(Q, K, V) = \mathrm{softmax}\big(QK^\top / \sqrt{d_k} + \text{bias}\big)\,V
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pellucid.nn.dropout import Dropout
from pellucid.nn.masks import Mask


class ScaledDotProductAttention(nn.Module):
    """Softmax attention: `weights` is the equation, `forward` the same by the fastest way.

    A query that may look at nothing gets the weights 0 and so the output 0.
    """

    accepts_bias = True
    accepts_rotation = True

    def __init__(self, dropout: float = 0.0) -> None:
        super().__init__()
        self.dropout = Dropout(dropout)

    def weights(self, q: Tensor, k: Tensor, mask: Mask, bias: Tensor | None) -> Tensor:
        """softmax(QKᵀ/√d_k + bias) where the mask allows, 0 elsewhere.

        Args:
            q: [B, H, T, D/H].  k: [B, H, S, D/H].  bias: [B or 1, H, T, S] or None.

        Returns:
            [B, H, T, S], each row summing to 1, or to 0 where there is nothing to look at.
        """
        scores = (q / math.sqrt(q.shape[-1])) @ k.transpose(-2, -1)  # [B, H, T, S]
        if bias is not None:
            scores = scores + bias
        if mask.allowed is None:
            return scores.softmax(-1)
        scores = scores.masked_fill(~mask.allowed, torch.finfo(scores.dtype).min)
        return scores.softmax(-1) * mask.answerable

    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Mask, bias: Tensor | None) -> Tensor:
        """Attention(Q, K, V): [B, H, T, D/H], with v: [B, H, S, D/H] and the rest as in `weights`."""
        dropping = self.training and self.dropout.p > 0
        # In bf16 on a CPU two batched products beat the fused kernel, whose backward is several times slower.
        if dropping or (q.device.type == "cpu" and q.dtype == torch.bfloat16):
            weights: Tensor = self.dropout(self.weights(q, k, mask, bias))
            return weights @ v
        if bias is None and mask.is_plain_causal:
            return F.scaled_dot_product_attention(q, k, v, is_causal=True)
        if mask.allowed is None:
            return F.scaled_dot_product_attention(q, k, v, attn_mask=None if bias is None else bias.to(q.dtype))
        zero = torch.zeros((), dtype=q.dtype, device=q.device) if bias is None else bias.to(q.dtype)
        additive = zero.masked_fill(~mask.allowed, torch.finfo(q.dtype).min)
        additive = additive.expand(-1, -1, q.shape[-2], k.shape[-2])
        return F.scaled_dot_product_attention(q, k, v, attn_mask=additive) * mask.answerable
