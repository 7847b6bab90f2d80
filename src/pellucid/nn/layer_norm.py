r"""Normalisation over the features of one position (section 3.1; Ba et al. 2016), and its variants.

.. math:: \mathrm{LayerNorm}(x) = g \odot \frac{x - \mu}{\sqrt{\sigma^2 + \epsilon}} + b
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from pellucid.kernels import calls as kernels


class LayerNorm(nn.Module):
    """Mean 0 and variance 1 (population variance, ε inside the root), then a gain and a bias: [..., D] → [..., D]."""

    epsilon = 1e-5

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))

    def forward(self, x: Tensor) -> Tensor:
        """By a kernel, ours or torch's; the equation is in the tests."""
        if x.dtype == torch.float32 and kernels.serve(x):
            return kernels.apply(_LayerNorm, x, self.gain, self.bias, self.epsilon)
        return F.layer_norm(x, self.gain.shape, self.gain, self.bias, self.epsilon)


class _LayerNorm(torch.autograd.Function):
    """The same in one pass each way."""

    @staticmethod
    def forward(context: Any, x: Tensor, gain: Tensor, bias: Tensor, epsilon: float) -> Tensor:
        x = x.contiguous()
        width, rows = x.shape[-1], x.numel() // x.shape[-1]
        out, statistics = torch.empty_like(x), x.new_empty(2, rows)
        kernels.run("layer_norm", x.dtype, x, gain, bias, out, statistics[0], statistics[1], rows, width, epsilon)
        context.save_for_backward(x, gain, statistics)
        return out

    @staticmethod
    @once_differentiable
    def backward(context: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        x, gain, statistics = context.saved_tensors
        upstream = upstream.contiguous()
        rows, width = statistics.shape[1], x.shape[-1]
        gradient, partial = torch.empty_like(x), x.new_empty((rows + 127) // 128, 2, width)
        kernels.run("layer_norm_backward", upstream.dtype, x, gain, statistics[0], statistics[1], upstream, gradient,
                    partial, rows, width)
        return gradient, *partial.sum(0).unbind(), None


class RmsNorm(nn.Module):
    """x over its root mean square, then a gain (Zhang and Sennrich 2019): [..., D] → [..., D]."""

    epsilon = 1e-6

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))

    def forward(self, x: Tensor) -> Tensor:
        """g ⊙ x / √(mean(x²) + ε)"""
        return F.rms_norm(x, self.gain.shape, self.gain, self.epsilon)


class StdNorm(nn.Module):
    """The norm of well-known tutorials: g ⊙ (x - μ) / (σ + ε) + b, σ the sample deviation, ε outside the root."""

    epsilon = 1e-6

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))

    def forward(self, x: Tensor) -> Tensor:
        """As above; a row of equal features gives the bias, and a finite gradient."""
        centred = x - x.mean(-1, keepdim=True)
        variance = centred.square().sum(-1, keepdim=True) / max(x.shape[-1] - 1, 1)
        deviation = variance.clamp(min=torch.finfo(x.dtype).tiny).sqrt()  # the root's slope at 0 is infinite
        return self.gain * centred / (deviation + self.epsilon) + self.bias


class NoNorm(nn.Module):
    """The identity."""

    def __init__(self, d_model: int) -> None:
        super().__init__()

    def forward(self, x: Tensor) -> Tensor:
        """x"""
        return x
