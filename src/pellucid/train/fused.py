"""Layers that are trained on a GPU as few kernels: norms, dropout, activations and changes of type around the products
go through memory once, where each of torch's own functions goes through it by itself."""

import contextlib
from collections.abc import Callable, Iterator
from types import MethodType
from typing import Any

from torch import Tensor, nn

from pellucid.kernels import gpu
from pellucid.model.decoder import DecoderLayer
from pellucid.model.encoder import EncoderLayer
from pellucid.nn.attention_pattern import AttentionPattern

_LARGE = 10**11  # tokens times parameters: of an update that takes a GPU a hundredth of a second


@contextlib.contextmanager
def fused(model: nn.Module, tokens: int) -> Iterator[None]:
    """The layers of a model by torch.compile while this lasts, as long as they are in training mode; all layers of a
    kind share what is compiled. Nothing is changed where there is no GPU, nor in updates of so few `tokens` that they
    would save less than compiling takes."""
    layers = [module for module in model.modules() if isinstance(module, EncoderLayer | DecoderLayer)]
    is_large = tokens * sum(p.numel() for p in model.parameters()) >= _LARGE
    for layer in layers if gpu.is_used() and is_large else ():
        vars(layer)["forward"] = MethodType(_forward, layer)
    try:
        yield
    finally:
        for layer in layers:
            vars(layer).pop("forward", None)


def _forward(layer: nn.Module, *inputs: Any) -> Tensor:
    equation: Callable[..., Tensor] = type(layer).forward
    if not layer.training:
        return equation(layer, *inputs)
    for pattern in inputs:  # what layers ask of one is known before: once for all, and outside of what is compiled
        if isinstance(pattern, AttentionPattern) and pattern.grows and pattern.mask is not None:
            _ = pattern.answerable
    y: Tensor = gpu.fused(equation)(layer, *inputs)
    return y
