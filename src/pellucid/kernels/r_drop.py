"""nn/r_drop.py in chunks of rows, as kernels/cross_entropy.py goes through them."""

from typing import Any

import torch
from torch import Tensor

from pellucid.kernels import calls, gpu
from pellucid.kernels.cross_entropy import CHUNK_BYTES, add_rows, fit


def serves(hidden: Tensor, weight: Tensor, targets: Tensor) -> bool:
    """Whether `linear_r_drop` is there for the hidden states of two passes, [2, N, D]; the rest as in `fit`."""
    return hidden.dim() == 3 and len(hidden) == 2 and fit(hidden, weight, targets)


def linear_r_drop(hidden: Tensor, weight: Tensor, targets: Tensor, smoothing: float, alpha: float) -> Tensor:
    """The sum over targets of the loss of the logits hidden @ weightᵀ: as in nn/r_drop.py."""
    wanted = torch.is_grad_enabled() and (hidden.requires_grad or weight.requires_grad)
    return calls.apply(_LinearRDrop, hidden, weight, targets.contiguous(), (smoothing, alpha),
                       calls.products_dtype(hidden), wanted)


class _LinearRDrop(torch.autograd.Function):
    r"""With δ = log p - log q: ∂/∂(logits of p) = ½(p - y) + ¼α(p(1 + δ - KL(p‖q)) - q), where y is the smoothed
    truth, and likewise for q with the two exchanged. So each chunk gives its part of both gradients before the next
    one is looked at; y adds a row of W or of h here and there, and is never a matrix."""

    @staticmethod
    def forward(context: Any, hidden: Tensor, weight: Tensor, targets: Tensor, settings: tuple[float, float],
                dtype: torch.dtype, wanted: bool) -> Tensor:
        smoothing, alpha = settings
        vocabulary = weight.shape[0]
        wide = torch.float64 if hidden.dtype == torch.float64 else torch.float32
        weight, hidden = weight.detach().to(wide), hidden.detach().to(wide)
        w, total = weight.to(dtype), hidden.new_zeros(())
        expected = (1 - smoothing) * weight[targets] + smoothing * weight.mean(0)  # Σ_v y_v W_v: [N, D]
        hidden_gradient = (-0.5 * expected).repeat(2, 1, 1) if wanted else None
        weight_gradient = torch.zeros_like(weight) if wanted else None
        rows = max(32, CHUNK_BYTES[w.device.type] // (2 * w.element_size() * vocabulary) // 32 * 32)
        for start in range(0, hidden.shape[1], rows):
            h = hidden[:, start : start + rows].to(dtype)
            gradient, truth, logs, divergence = _by_logits(h @ w.t(), targets[start : start + rows], alpha, wide)
            total += (0.25 * alpha * divergence - 0.5 * ((1 - smoothing) * truth + smoothing / vocabulary * logs)).sum()
            if hidden_gradient is not None and weight_gradient is not None:
                hidden_gradient[:, start : start + rows] += (gradient @ w).to(wide)
                weight_gradient += (gradient.flatten(0, 1).t() @ h.flatten(0, 1)).to(wide)
        if weight_gradient is not None:
            summed = hidden.sum(0)
            add_rows(weight_gradient, targets, summed, 0.5 * (smoothing - 1))
            weight_gradient -= summed.sum(0) * (0.5 * smoothing / vocabulary)
        context.save_for_backward(hidden_gradient, weight_gradient)
        return total

    @staticmethod
    @calls.first_order
    def backward(context: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        by_hidden, by_weight = context.saved_tensors
        needed = context.needs_input_grad
        return (by_hidden * upstream if needed[0] else None, by_weight * upstream if needed[1] else None,
                None, None, None, None)


def _by_logits(logits: Tensor, targets: Tensor, alpha: float, wide: torch.dtype) -> tuple[Tensor, ...]:
    """The gradient by the logits of both passes [2, n, V], without the part of the truth, as they are typed; then of
    each target, in `wide`, the sum of its two log-probabilities, that of all tokens, and KL(p‖q) + KL(q‖p): [n]."""
    if calls.serve(logits):
        truth, all_tokens, divergence = logits.new_empty(3, len(targets), dtype=torch.float32).unbind()
        calls.run("r_drop", logits.dtype, logits, targets, truth, all_tokens, divergence, alpha, *logits.shape[1:])
        return logits, truth, all_tokens, divergence
    return (gpu.fused(_plain) if gpu.fuses(logits) else _plain)(logits, targets, alpha, wide)


def _plain(logits: Tensor, targets: Tensor, alpha: float, wide: torch.dtype) -> tuple[Tensor, ...]:
    logs = logits.to(wide).log_softmax(-1)
    p, q = probabilities = logs.exp()
    delta = logs[0] - logs[1]
    of_p, of_q = (probabilities * delta).sum(-1)  # KL(p‖q) and -KL(q‖p)
    quarter = 0.25 * alpha
    by_p = p * (delta - of_p[:, None]).mul_(quarter).add_(0.5 + quarter)
    by_q = q * (of_q[:, None] - delta).mul_(quarter).add_(0.5 + quarter)
    gradient = torch.stack([by_p.sub_(q, alpha=quarter), by_q.sub_(p, alpha=quarter)]).to(logits.dtype)
    truth = logs.gather(-1, targets.expand(2, -1)[..., None]).sum((0, 2))
    return gradient, truth, logs.sum((0, 2)), of_p - of_q
