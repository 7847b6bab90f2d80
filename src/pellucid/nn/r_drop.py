r"""R-Drop (Liang et al. 2021, equations 2 to 4): what two passes through dropout say of one target should agree.

.. math:: \ell = \tfrac12(\ell_p + \ell_q) + \tfrac\alpha2 \cdot
          \tfrac12\big(\mathrm{KL}(p \| q) + \mathrm{KL}(q \| p)\big)

with the label-smoothed cross-entropies of both passes. This is half of the paper's equation (4), so that α is the
paper's and a target weighs as much as it does without: where p = q, ℓ is the plain loss.

`r_drop_cross_entropy` is the equation. `linear_r_drop` goes through the rows of both passes in chunks, as
`linear_cross_entropy` does, and never holds all the logits.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from pellucid.kernels import calls as kernels
from pellucid.nn.cross_entropy import label_smoothed_cross_entropy

_CHUNK_BYTES = {"cpu": 24 << 20, "cuda": 512 << 20}  # of both passes' logits


def r_drop_cross_entropy(logits: Tensor, targets: Tensor, smoothing: float, alpha: float) -> Tensor:
    """The loss of each target: logits of both passes [2, N, V], targets [N] → [N], in nats."""
    losses = [label_smoothed_cross_entropy(one, targets, smoothing) for one in logits]
    logs = logits.log_softmax(-1)
    p, q = logs.exp()
    divergences: Tensor = ((p - q) * (logs[0] - logs[1])).sum(-1)  # KL(p‖q) + KL(q‖p)
    return 0.5 * (losses[0] + losses[1]) + 0.25 * alpha * divergences


def linear_r_drop(hidden: Tensor, weight: Tensor, targets: Tensor, smoothing: float, alpha: float) -> Tensor:
    """The sum over targets of the loss of the logits hidden @ weightᵀ.

    Args:
        hidden: [2, N, D], the hidden states of both passes.  weight: [V, D].  targets: [N], token ids.
        smoothing: ε.  alpha: α.

    Returns:
        A scalar in nats, in fp32 (fp64 for fp64 input), differentiable by `hidden` and `weight`.
    """
    if torch.is_autocast_enabled(hidden.device.type):
        dtype = torch.get_autocast_dtype(hidden.device.type)
    else:
        dtype = hidden.dtype
    wanted = torch.is_grad_enabled() and (hidden.requires_grad or weight.requires_grad)
    loss: Tensor = _LinearRDrop.apply(hidden, weight, targets, (smoothing, alpha), dtype, wanted)  # type: ignore[no-untyped-call]
    return loss


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
        rows = max(32, _CHUNK_BYTES[w.device.type] // (2 * w.element_size() * vocabulary) // 32 * 32)
        for start in range(0, hidden.shape[1], rows):
            h = hidden[:, start : start + rows].to(dtype)
            gradient, truth, logs, divergence = _by_logits(h @ w.t(), targets[start : start + rows], alpha, wide)
            total += (0.25 * alpha * divergence - 0.5 * ((1 - smoothing) * truth + smoothing / vocabulary * logs)).sum()
            if hidden_gradient is not None and weight_gradient is not None:
                hidden_gradient[:, start : start + rows] += (gradient @ w).to(wide)
                weight_gradient += (gradient.flatten(0, 1).t() @ h.flatten(0, 1)).to(wide)
        if weight_gradient is not None:
            summed = hidden.sum(0)
            weight_gradient.index_add_(0, targets, summed, alpha=0.5 * (smoothing - 1))
            weight_gradient -= summed.sum(0) * (0.5 * smoothing / vocabulary)
        context.save_for_backward(hidden_gradient, weight_gradient)
        return total

    @staticmethod
    @once_differentiable
    def backward(context: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        by_hidden, by_weight = context.saved_tensors
        needed = context.needs_input_grad
        return (by_hidden * upstream if needed[0] else None, by_weight * upstream if needed[1] else None,
                None, None, None, None)


def _by_logits(logits: Tensor, targets: Tensor, alpha: float, wide: torch.dtype) -> tuple[Tensor, ...]:
    """The gradient by the logits of both passes [2, n, V], without the part of the truth, as they are typed; then of
    each target, in `wide`, the sum of its two log-probabilities, that of all tokens, and KL(p‖q) + KL(q‖p): [n]."""
    if kernels.serve(logits):
        truth, all_tokens, divergence = torch.empty(3, len(targets)).unbind()
        kernels.run("r_drop", logits.dtype, logits, targets, truth, all_tokens, divergence, alpha, *logits.shape[1:])
        return logits, truth, all_tokens, divergence
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
