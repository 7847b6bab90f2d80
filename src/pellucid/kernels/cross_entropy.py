r"""nn/cross_entropy.py straight from the last hidden states: never more than a few rows of the N × V logits at once.

The rows go through in chunks that fit the processor's cache (on a GPU: that keep it busy), and their gradients are
taken in the same pass.
"""

from typing import Any

import torch
from torch import Tensor

from pellucid.kernels import calls, gpu

CHUNK_BYTES = {"cpu": 24 << 20, "cuda": 512 << 20}  # of logits


def serves(hidden: Tensor, weight: Tensor, targets: Tensor) -> bool:
    """Whether `linear_cross_entropy` is there for hidden states [N, D], a matrix [V, D] and ids [N] below V."""
    return hidden.dim() == 2 and fit(hidden, weight, targets)


def fit(hidden: Tensor, weight: Tensor, targets: Tensor) -> bool:
    """Whether hidden states [..., N, D], a matrix [V, D] and ids [N] belong together, and this room is for them. What
    does not goes by the equation, which says what is wrong, or has another meaning for it."""
    is_typed = calls.is_fast(hidden) and calls.is_fast(weight) and targets.dtype == torch.int64 and (
        hidden.dtype == weight.dtype or calls.is_autocast(hidden))
    is_placed = hidden.device == weight.device == targets.device and hidden.device.type in CHUNK_BYTES
    is_shaped = weight.dim() == 2 and hidden.shape[-1] == weight.shape[1] and hidden.shape[-2:-1] == targets.shape
    return is_typed and is_placed and is_shaped and weight.numel() > 0 and _are_ids(targets, len(weight))


def _are_ids(targets: Tensor, vocabulary: int) -> bool:
    """Whether all are below `vocabulary`; on another device torch's own functions look."""
    if not targets.is_cpu or not targets.numel():
        return True
    lowest, highest = targets.aminmax()
    return int(lowest) >= 0 and int(highest) < vocabulary


def linear_cross_entropy(hidden: Tensor, weight: Tensor, targets: Tensor, smoothing: float) -> Tensor:
    """The sum over rows of the loss of the logits hidden @ weightᵀ: as in nn/cross_entropy.py."""
    wanted = (torch.is_grad_enabled() and hidden.requires_grad, torch.is_grad_enabled() and weight.requires_grad)
    return calls.apply(_LinearCrossEntropy, hidden, weight, targets.contiguous(), smoothing,
                       calls.products_dtype(hidden), wanted)


class _LinearCrossEntropy(torch.autograd.Function):
    r"""∂ℓ/∂logits = e/Z - q with e = exp(logits - max), Z = Σ_v e, so each chunk gives its part of both gradients
    before the next one is looked at. Only e is ever a matrix: 1/Z scales rows, and q adds a row of W or of h here and
    there."""

    @staticmethod
    def forward(context: Any, hidden: Tensor, weight: Tensor, targets: Tensor, smoothing: float,
                dtype: torch.dtype, wanted: tuple[bool, bool]) -> Tensor:
        vocabulary = weight.shape[0]
        wide = torch.float64 if hidden.dtype == torch.float64 else torch.float32
        weight, hidden = weight.detach().to(wide), hidden.detach().to(wide)
        w, mean = weight.to(dtype), weight.mean(0)
        expected = (1 - smoothing) * weight[targets] + smoothing * mean  # Σ_v q_v W_v: [N, D]
        total = -smoothing * (hidden.sum(0) * mean).sum()
        hidden_gradient = -expected if wanted[0] else None
        weight_gradient = torch.zeros_like(weight) if wanted[1] else None
        rows = max(64, CHUNK_BYTES[w.device.type] // (w.element_size() * vocabulary) // 32 * 32)
        room = w.new_empty(min(rows, hidden.shape[0]), vocabulary)  # the same memory for every chunk
        for start in range(0, hidden.shape[0], rows):
            h = hidden[start : start + rows]
            logits = torch.mm(h.to(dtype), w.t(), out=room[: len(h)])
            e, z, highest, truth = _exponentials(logits, targets[start : start + rows], wide)
            total += (z.log() + highest - (1 - smoothing) * truth).sum()
            if hidden_gradient is not None:
                hidden_gradient[start : start + rows] += (e @ w).to(wide) / z[:, None]
            if weight_gradient is not None:
                weight_gradient += (e.t() @ (h / z[:, None]).to(dtype)).to(wide)
        if weight_gradient is not None:
            add_rows(weight_gradient, targets, hidden, smoothing - 1)
            weight_gradient -= hidden.sum(0) * (smoothing / vocabulary)
        context.save_for_backward(hidden_gradient, weight_gradient)
        return total

    @staticmethod
    @calls.first_order
    def backward(context: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        hidden_gradient, weight_gradient = context.saved_tensors
        return (None if hidden_gradient is None else hidden_gradient * upstream,
                None if weight_gradient is None else weight_gradient * upstream, None, None, None, None)


def add_rows(matrix: Tensor, places: Tensor, rows: Tensor, factor: float) -> None:
    """Adds factor · rows [N, D] to the rows of a matrix [V, D] at `places` [N], of which some are the same."""
    if matrix.is_cuda:  # where torch's index_add_ takes ten times as long to do it in the same order each time
        matrix.add_(torch.ops.aten.embedding_dense_backward(rows, places, len(matrix), -1, False), alpha=factor)
    else:
        matrix.index_add_(0, places, rows, alpha=factor)


def _exponentials(logits: Tensor, targets: Tensor, wide: torch.dtype) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """e = exp(logits - max) as `logits` [N, V] are typed, then Σ_v e, max and each target's logit: [N], in `wide`."""
    if calls.serve(logits):
        highest, z, truth = logits.new_empty(3, len(logits), dtype=torch.float32).unbind()
        calls.run("exponentiate", logits.dtype, logits, targets, highest, z, truth, *logits.shape)
        return logits, z, highest, truth
    return (gpu.fused(_plain) if gpu.fuses(logits) else _plain)(logits, targets, wide)


def _plain(logits: Tensor, targets: Tensor, wide: torch.dtype) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    scores = logits.to(wide)
    truth = scores.gather(-1, targets[:, None])[:, 0]  # rounded as Z is: the loss stays above 0
    highest = scores.amax(-1)
    exponentials = (scores - highest[:, None]).exp()
    return exponentials.to(logits.dtype), exponentials.sum(-1), highest, truth
