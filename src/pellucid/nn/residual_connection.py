r"""The connection around each sub-layer (section 3.1): an object that receives the sub-layer.

.. math:: \text{post: } \mathrm{Norm}(x + f(x)) \qquad \text{pre: } x + f(\mathrm{Norm}(x)) \qquad
          \text{DeepNorm: } \mathrm{Norm}(\alpha x + f(x)) \qquad \text{none: } \mathrm{Norm}(f(x))

Dropout (section 5.4) falls on f's output. Each class says how much of x it keeps (`alpha`), and whether a stack of it
needs a norm at its end.
"""

from collections.abc import Callable
from typing import NamedTuple

from torch import Tensor, nn

from pellucid.nn.dropout import Dropout

SubLayer = Callable[[Tensor], Tensor]


class PostNormResidual(nn.Module):
    """Norm(α x + dropout(f(x))): the paper's with α = 1, DeepNorm (Wang et al. 2022) with that of
    `DeepNormScales`."""

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
    alpha = 1.0

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
    alpha = 0.0

    def __init__(self, norm: nn.Module, dropout: float) -> None:
        super().__init__()
        self.norm = norm
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor, sub_layer: SubLayer) -> Tensor:
        """[B, T, D] → [B, T, D]"""
        out: Tensor = self.norm(self.dropout(sub_layer(x)))
        return out


Residual = PostNormResidual | PreNormResidual | NoResidual


class DeepNormScales(NamedTuple):
    """What DeepNorm scales: α the stream, β the initial weights of values, outputs and feed-forward layers."""

    alpha: float
    beta: float


UNSCALED = DeepNormScales(1.0, 1.0)


def deepnorm_encoder(layers: int, decoder_layers: int) -> DeepNormScales:
    """Of an encoder (Wang et al. 2022, figure 2): beside a decoder, or alone where that has 0 layers."""
    n, m = layers, decoder_layers
    if m == 0:
        return DeepNormScales((2 * n) ** 0.25, (8 * n) ** -0.25)
    return DeepNormScales(0.81 * (n**4 * m) ** (1 / 16), 0.87 * (n**4 * m) ** (-1 / 16))


def deepnorm_decoder(layers: int) -> DeepNormScales:
    """Of a decoder beside an encoder (Wang et al. 2022, figure 2)."""
    return DeepNormScales((3 * layers) ** 0.25, (12 * layers) ** -0.25)
