r"""Muon (Jordan et al. 2024; Liu et al. 2025): the step of a matrix is its momentum with all singular values made one.

Adam scales each number of a matrix by itself; Muon takes the matrix as a map, and moves it as far in each direction:
with :math:`M = U \Sigma V^\top`, along :math:`U V^\top`. That is found without U and V, by products alone
(Newton–Schulz).
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

COEFFICIENTS = (3.4445, -4.7750, 2.0315)  # a, b, c: they bring small σ up soonest, and leave those above 0.01 near 1
ITERATIONS = 5
RMS = 0.2  # of a step of rate 1: about what Adam's steps have, so that one rate serves both


def muon(weights: Sequence[Tensor], gradients: Sequence[Tensor], momenta: Sequence[Tensor], rate: float | Tensor,
         decay: float, momentum: float, precision: str) -> None:
    r"""A step on matrices W with gradients G:

    .. math::
        M \leftarrow \mu M + (1 - \mu)\,G \qquad
        W \leftarrow (1 - \eta\lambda)\,W - 0.2\,\eta \sqrt{\max(r, c)}\;
        \mathrm{orthogonal}\big(\mu M + (1 - \mu)\,G\big)

    with Nesterov's look ahead, for each W [r, c].

    Args:
        rate: η.  decay: λ.  momentum: μ.  precision: of the products, "bf16" or "fp32".
    """
    torch._foreach_lerp_(list(momenta), list(gradients), 1 - momentum)
    ahead = torch._foreach_lerp(list(gradients), list(momenta), momentum)
    torch._foreach_mul_(list(weights), 1 - rate * decay)
    for alike in _by_shape(ahead):
        directions = orthogonal(torch.stack([_wide(ahead[i]) for i in alike]), precision)
        steps = directions.to(weights[alike[0]].dtype) * (-rate * RMS * math.sqrt(directions.shape[-1]))
        for i, step in zip(alike, steps.unbind(), strict=True):
            weights[i].add_(step if _is_wide(weights[i]) else step.T)


def orthogonal(matrices: Tensor, precision: str) -> Tensor:
    r"""Nearly :math:`U V^\top` of each :math:`U \Sigma V^\top`: five times
    :math:`X \leftarrow aX + bXX^\top X + c\,(XX^\top)^2 X`, from X divided by its Frobenius norm.

    Args:
        matrices: [n, r, c] with r ≤ c.
        precision: of the products, and of what is returned: "bf16", or "fp32" for that of the matrices.

    Returns:
        [n, r, c], with singular values near 1; those of 0 remain 0.
    """
    a, b, c = COEFFICIENTS
    x: Tensor = matrices / matrices.norm(dim=(-2, -1), keepdim=True).clamp(min=1e-7)
    x = x.bfloat16() if precision == "bf16" else x
    for _ in range(ITERATIONS):
        squares = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(squares, squares, squares, beta=b, alpha=c), x, beta=a)
    return x


def _by_shape(matrices: Sequence[Tensor]) -> list[list[int]]:
    """The places of those that are of one shape, or of it turned round: they are multiplied together."""
    found: dict[tuple[int, ...], list[int]] = {}
    for i, matrix in enumerate(matrices):
        found.setdefault(tuple(sorted(matrix.shape)), []).append(i)
    return list(found.values())


def _is_wide(matrix: Tensor) -> bool:
    return matrix.shape[0] <= matrix.shape[1]


def _wide(matrix: Tensor) -> Tensor:
    return matrix if _is_wide(matrix) else matrix.T
