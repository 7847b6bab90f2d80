r"""The position-wise feed-forward layer, equation (2), section 3.3, and its gated variants.

.. math:: \mathrm{FFN}(x) = \max(0, xW_1 + b_1) W_2 + b_2

.. math:: \mathrm{GLU}(x) = \big(g(xW_g + b_g) \odot (xW_1 + b_1)\big) W_2 + b_2
"""

from collections.abc import Callable

import torch.nn.functional as F
from torch import Tensor, nn

from pellucid.nn.dropout import Dropout


class FeedForward(nn.Module):
    """activation(x W₁ + b₁) W₂ + b₂, with ReLU as in the paper, or GELU.

    Args:
        d_model: the width D.  d_ff: the inner width F.
        activation: an elementwise function.
        dropout: on the inner features.
    """

    def __init__(self, d_model: int, d_ff: int, activation: Callable[[Tensor], Tensor], dropout: float) -> None:
        super().__init__()
        self.inner = nn.Linear(d_model, d_ff)
        self.outer = nn.Linear(d_ff, d_model)
        self.activation = activation
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """[B, T, D] → [B, T, D]"""
        out: Tensor = self.outer(self.dropout(self.activation(self.inner(x))))
        return out


class GatedFeedForward(nn.Module):
    """(activation(x W_g + b_g) ⊙ (x W₁ + b₁)) W₂ + b₂: SwiGLU, GEGLU (Shazeer 2020, without b). The inner width is ⅔ of
    `d_ff`, so that its three matrices hold as many parameters as the two of `FeedForward`."""

    def __init__(self, d_model: int, d_ff: int, activation: Callable[[Tensor], Tensor], dropout: float) -> None:
        super().__init__()
        width = round(2 * d_ff / 3)
        self.gate = nn.Linear(d_model, width)
        self.inner = nn.Linear(d_model, width)
        self.outer = nn.Linear(width, d_model)
        self.activation = activation
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """[B, T, D] → [B, T, D]"""
        out: Tensor = self.outer(self.dropout(self.activation(self.gate(x)) * self.inner(x)))
        return out


def gelu_tanh(x: Tensor) -> Tensor:
    """GELU by its authors' approximation, with tanh in the place of erf (Hendrycks and Gimpel 2016): x → x."""
    return F.gelu(x, approximate="tanh")


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"relu": F.relu, "gelu": F.gelu, "gelu_tanh": gelu_tanh,
                                                      "swish": F.silu}
