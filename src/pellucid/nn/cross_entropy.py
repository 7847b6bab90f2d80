r"""Label-smoothed cross-entropy (section 5.4; Szegedy et al. 2016).

.. math:: \ell = -\sum_v q_v \log\mathrm{softmax}(hW^\top)_v, \qquad q_v = (1 - \epsilon)\,[v = y] + \epsilon / V
"""

from torch import Tensor

from pellucid.kernels import cross_entropy


def label_smoothed_cross_entropy(logits: Tensor, targets: Tensor, smoothing: float) -> Tensor:
    """The loss of each row: logits [N, V], targets [N] → [N], in nats."""
    log_probabilities = logits.log_softmax(-1)
    truth = log_probabilities.gather(-1, targets[:, None])[:, 0]
    return -(1 - smoothing) * truth - smoothing * log_probabilities.mean(-1)


def linear_cross_entropy(hidden: Tensor, weight: Tensor, targets: Tensor, smoothing: float) -> Tensor:
    """`label_smoothed_cross_entropy` of the logits hidden @ weightᵀ, summed over rows.

    Args:
        hidden: [N, D].  weight: [V, D].  targets: [N], token ids.
        smoothing: ε.

    Returns:
        A scalar in nats, in fp32 (fp64 for fp64 input), differentiable by `hidden` and `weight`.
    """
    if cross_entropy.serves(hidden, weight, targets):  # a few rows of the logits at a time
        return cross_entropy.linear_cross_entropy(hidden, weight, targets, smoothing)
    return label_smoothed_cross_entropy(hidden @ weight.T, targets, smoothing).sum()
