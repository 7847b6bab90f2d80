r"""Normalisation over the features of one position (section 3.1; Ba et al. 2016), and its variants.

.. math:: \mathrm{LayerNorm}(x) = g \odot \frac{x - \mu}{\sqrt{\sigma^2 + \epsilon}} + b
"""

import torch
from torch import Tensor, nn

from pellucid.kernels import layer_norm


class LayerNorm(nn.Module):
    """Mean 0 and variance 1 (population variance, ε inside the root), then a gain and a bias: [..., D] → [..., D]."""

    epsilon = 1e-5

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))

    def forward(self, x: Tensor) -> Tensor:
        """g ⊙ (x - μ) / √(σ² + ε) + b"""
        if layer_norm.serves(x):
            return layer_norm.layer_norm(x, self.gain, self.bias, self.epsilon)
        centred = x - x.mean(-1, keepdim=True)
        variance = centred.square().mean(-1, keepdim=True)
        return self.gain * centred / torch.sqrt(variance + self.epsilon) + self.bias


class RmsNorm(nn.Module):
    """x over its root mean square, then a gain (Zhang and Sennrich 2019): [..., D] → [..., D]."""

    epsilon = 1e-6

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))

    def forward(self, x: Tensor) -> Tensor:
        """g ⊙ x / √(mean(x²) + ε)"""
        if layer_norm.serves(x):
            return layer_norm.rms_norm(x, self.gain, self.epsilon)
        return self.gain * x / torch.sqrt(x.square().mean(-1, keepdim=True) + self.epsilon)


class StdNorm(nn.Module):
    """The norm of well-known tutorials: g ⊙ (x - μ) / (σ + ε) + b, σ the sample deviation, ε outside the root."""

    epsilon = 1e-6

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))

    def forward(self, x: Tensor) -> Tensor:
        """As above; a row of equal features gives the bias, and a finite gradient (about g / ε, too much for fp16)."""
        wide = x.to(torch.promote_types(x.dtype, torch.float32))  # fp16 has no room for squares of large or small
        centred = wide - wide.mean(-1, keepdim=True)
        variance = centred.square().sum(-1, keepdim=True) / max(x.shape[-1] - 1, 1)
        deviation = variance.clamp(min=torch.finfo(wide.dtype).tiny).sqrt()  # the root's slope at 0 is infinite
        out = self.gain * centred / (deviation + self.epsilon) + self.bias
        return out.to(torch.promote_types(x.dtype, self.gain.dtype))


class NoNorm(nn.Module):
    """The identity."""

    def __init__(self, d_model: int) -> None:
        super().__init__()

    def forward(self, x: Tensor) -> Tensor:
        """x"""
        return x
