r"""R-Drop (Liang et al. 2021, equations 2 to 4): what two passes through dropout say of one target should agree.

.. math:: \ell = \tfrac12(\ell_p + \ell_q) + \tfrac\alpha2 \cdot
          \tfrac12\big(\mathrm{KL}(p \| q) + \mathrm{KL}(q \| p)\big)

with the label-smoothed cross-entropies of both passes. This is half of the paper's equation (4), so that α is the
paper's and a target weighs as much as it does without: where p = q, ℓ is the plain loss.
"""

from torch import Tensor

from pellucid.kernels import r_drop
from pellucid.nn.cross_entropy import label_smoothed_cross_entropy


def r_drop_cross_entropy(logits: Tensor, targets: Tensor, smoothing: float, alpha: float) -> Tensor:
    """The loss of each target: logits of both passes [2, N, V], targets [N] → [N], in nats."""
    losses = [label_smoothed_cross_entropy(one, targets, smoothing) for one in logits]
    logs = logits.log_softmax(-1)
    p, q = logs.exp()
    divergences: Tensor = ((p - q) * (logs[0] - logs[1])).sum(-1)  # KL(p‖q) + KL(q‖p)
    return 0.5 * (losses[0] + losses[1]) + 0.25 * alpha * divergences


def linear_r_drop(hidden: Tensor, weight: Tensor, targets: Tensor, smoothing: float, alpha: float) -> Tensor:
    """`r_drop_cross_entropy` of the logits hidden @ weightᵀ, summed over targets.

    Args:
        hidden: [2, N, D], the hidden states of both passes.  weight: [V, D].  targets: [N], token ids.
        smoothing: ε.  alpha: α.

    Returns:
        A scalar in nats, in fp32 (fp64 for fp64 input), differentiable by `hidden` and `weight`.
    """
    if r_drop.serves(hidden, weight, targets):  # a few rows of the logits at a time
        return r_drop.linear_r_drop(hidden, weight, targets, smoothing, alpha)
    return r_drop_cross_entropy(hidden @ weight.T, targets, smoothing, alpha).sum()
