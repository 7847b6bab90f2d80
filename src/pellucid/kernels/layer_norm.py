"""nn/layer_norm.py in one pass: compiled, or fused by torch."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from pellucid.kernels import calls

FEW = 1 << 15  # numbers, up to which a call from Python takes longer than what it saves


def serves(x: Tensor) -> bool:
    """Whether `layer_norm` and `rms_norm` are there for x."""
    return calls.is_fast(x)


def layer_norm(x: Tensor, gain: Tensor, bias: Tensor, epsilon: float) -> Tensor:
    """g ⊙ (x - μ) / √(σ² + ε) + b, in the wider type of x and g as the equation has it; torch rounds to that of x."""
    x = _widest(x, gain)
    if _fits(x, gain, bias):
        return calls.apply(_LayerNorm, x, gain, bias, epsilon)
    return F.layer_norm(x, gain.shape, gain, bias, epsilon)


def rms_norm(x: Tensor, gain: Tensor, epsilon: float) -> Tensor:
    """g ⊙ x / √(mean(x²) + ε), in that type, too."""
    return F.rms_norm(_widest(x, gain), gain.shape, gain, epsilon)


def _widest(x: Tensor, gain: Tensor) -> Tensor:
    return x.to(torch.promote_types(x.dtype, gain.dtype))


def _fits(x: Tensor, gain: Tensor, bias: Tensor) -> bool:
    """Whether the compiled pass is there for these, and quicker: all in fp32, rows with features, a gain and a bias for
    each, and enough of them."""
    is_typed = x.dtype == gain.dtype == bias.dtype == torch.float32 and calls.serve(x, gain, bias)
    return is_typed and x.numel() >= FEW and gain.dim() == 1 and gain.shape == bias.shape == x.shape[-1:]


class _LayerNorm(torch.autograd.Function):
    """One pass each way."""

    @staticmethod
    def forward(context: Any, x: Tensor, gain: Tensor, bias: Tensor, epsilon: float) -> Tensor:
        x, gain, bias = x.contiguous(), gain.contiguous(), bias.contiguous()
        width, rows = x.shape[-1], x.numel() // x.shape[-1]
        out, statistics = torch.empty_like(x), x.new_empty(2, rows)
        calls.run("layer_norm", x.dtype, x, gain, bias, out, statistics[0], statistics[1], rows, width, epsilon)
        context.save_for_backward(x, gain, statistics)
        return out

    @staticmethod
    @calls.first_order
    def backward(context: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        x, gain, statistics = context.saved_tensors
        upstream = upstream.contiguous()
        rows, width = statistics.shape[1], x.shape[-1]
        gradient, partial = torch.empty_like(x), x.new_empty((rows + 127) // 128, 2, width)
        calls.run("layer_norm_backward", upstream.dtype, x, gain, statistics[0], statistics[1], upstream, gradient,
                  partial, rows, width)
        return gradient, *partial.sum(0).unbind(), None
