"""Attention weights, recorded by hooks on the kernels: nothing in the model knows of it, and training is never
slowed."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from pellucid.nn.multi_head_attention import MultiHeadAttention


@contextlib.contextmanager
def record_attention(model: nn.Module) -> Iterator[dict[str, Tensor]]:
    """While this lasts, every attention of `model` leaves its weights [B, H, T, S] under its name, such as
    ``decoder.layers.0.cross_attention``; the newest ones stay."""
    weights: dict[str, Tensor] = {}
    hooks = []

    def hook_for(name: str) -> Any:
        def hook(kernel: Any, inputs: tuple[Any, ...]) -> None:
            q, k, _, mask, bias = inputs
            with torch.no_grad():
                weights[name] = kernel.weights(q, k, mask, bias)

        return hook

    for name, module in model.named_modules():
        if isinstance(module, MultiHeadAttention):
            hooks.append(module.kernel.register_forward_pre_hook(hook_for(name)))
    try:
        yield weights
    finally:
        for hook in hooks:
            hook.remove()
