r"""Dropout (section 5.4; Srivastava et al. 2014): a feature survives with probability 1 - p, scaled by 1/(1 - p).

.. math:: \mathrm{Dropout}(x) = x \odot m / (1 - p), \qquad m_i \sim \mathrm{Bernoulli}(1 - p)
"""

import torch
from torch import Tensor, nn

from pellucid.kernels import dropout


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
        if not self.drops:
            return x
        if dropout.serves(x):
            return dropout.drop(x, self.p)
        kept = torch.rand_like(x) >= self.p
        return x * kept / (1 - self.p)

    def add(self, x: Tensor, y: Tensor) -> Tensor:
        """x + dropout(y), the end of every sub-layer."""
        if self.drops and dropout.adds(x, y):
            return dropout.add(x, y, self.p)
        dropped: Tensor = self(y)
        return x + dropped

    @property
    def drops(self) -> bool:
        """Whether it is anything but the identity now."""
        return self.training and self.p > 0

    def extra_repr(self) -> str:
        return f"p={self.p}"
