r"""The connection around each sub-layer (section 3.1): an object that receives the sub-layer.

.. math:: \text{post: } \mathrm{Norm}(x + f(x)) \qquad \text{pre: } x + f(\mathrm{Norm}(x)) \qquad
          \text{DeepNorm: } \mathrm{Norm}(\alpha x + f(x)) \qquad \text{none: } \mathrm{Norm}(f(x))

Dropout (section 5.4) falls on f's output.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn

from pellucid.nn.dropout import Dropout

SubLayer = Callable[[Tensor], Tensor]


class PostNormResidual(nn.Module):
    """Norm(α x + dropout(f(x))): the paper's with α = 1, DeepNorm (Wang et al. 2022) with the α of
    `deepnorm_scales`."""

    needs_closing_norm = False

    def __init__(self, norm: nn.Module, dropout: float, alpha: float = 1.0) -> None:
        super().__init__()
        self.norm = norm
        self.dropout = Dropout(dropout)
        self.alpha = alpha

    def forward(self, x: Tensor, sub_layer: SubLayer) -> Tensor:
        """[B, T, D] → [B, T, D]"""
        scaled = x if self.alpha == 1 else self.alpha * x
        out: Tensor = self.norm(self.dropout.add(scaled, sub_layer(x)))
        return out


class PreNormResidual(nn.Module):
    """x + dropout(f(Norm(x))): the stream itself is never normalised, so a stack of these needs a norm at its end."""

    needs_closing_norm = True

    def __init__(self, norm: nn.Module, dropout: float) -> None:
        super().__init__()
        self.norm = norm
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor, sub_layer: SubLayer) -> Tensor:
        """[B, T, D] → [B, T, D]"""
        out: Tensor = self.dropout.add(x, sub_layer(self.norm(x)))
        return out


class NoResidual(nn.Module):
    """Norm(dropout(f(x))): the connection left out, for those who want to see what it is good for."""

    needs_closing_norm = False

    def __init__(self, norm: nn.Module, dropout: float) -> None:
        super().__init__()
        self.norm = norm
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor, sub_layer: SubLayer) -> Tensor:
        """[B, T, D] → [B, T, D]"""
        out: Tensor = self.norm(self.dropout(sub_layer(x)))
        return out


def deepnorm_scales(encoder_layers: int, decoder_layers: int) -> dict[str, tuple[float, float]]:
    """DeepNorm's (α, β) for "encoder" and "decoder" (Wang et al. 2022, figure 2): α scales the stream, β the initial
    weights of values, outputs and feed-forward layers. With `decoder_layers` 0 the model is an encoder alone."""
    n, m = encoder_layers, decoder_layers
    if m == 0:
        return {"encoder": ((2 * n) ** 0.25, (8 * n) ** -0.25)}
    return {"encoder": (0.81 * (n**4 * m) ** (1 / 16), 0.87 * (n**4 * m) ** (-1 / 16)),
            "decoder": ((3 * m) ** 0.25, (12 * m) ** -0.25)}
