r"""Dropout (section 5.4; Srivastava et al. 2014): a feature survives with probability 1 - p, scaled by 1/(1 - p).

Torch draws CPU masks one number at a time. Here one 64-bit draw decides four features, sixteen bits each, which makes
p a multiple of 1/65,536; the scale is that of the p really used.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

_LEVELS = 1 << 16


def keep_mask(size: torch.Size, p: float, like: Tensor) -> Tensor:
    """A tensor of `size` with 0 where a feature is dropped and 1/(1 - p) where it is kept, typed and placed as
    `like`."""
    dropped = min(round(p * _LEVELS), _LEVELS - 1)
    scale = _LEVELS / (_LEVELS - dropped)
    if like.device.type != "cpu":
        return torch.empty(size, device=like.device).bernoulli_(1 - dropped / _LEVELS).to(like.dtype).mul_(scale)
    count = size.numel()
    draws = torch.empty((count + 3) // 4, dtype=torch.int64).random_(-(2**63), None)  # the sign bit is drawn too
    lanes = draws.view(torch.int16)[:count].view(size)
    return (lanes >= dropped - _LEVELS // 2).to(like.dtype).mul_(scale)


class Dropout(nn.Module):
    """Drops features while training, and is the identity otherwise.

    Args:
        p: the probability that a feature is dropped, 0 ≤ p < 1.
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        if not 0 <= p < 1:
            raise ValueError(f"dropout must be at least 0 and below 1, not {p}")
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        """[...] → [...]"""
        if not self.training or round(self.p * _LEVELS) == 0:
            return x
        return x * keep_mask(x.shape, self.p, x)

    def extra_repr(self) -> str:
        return f"p={self.p}"
