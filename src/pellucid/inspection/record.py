"""Attention weights, recorded by hooks on its functions: nothing in the model knows of it, and training is never
slowed."""

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
        def hook(attention: Any, inputs: tuple[Any, ...]) -> None:
            q, k, _, pattern, bias = inputs
            with torch.no_grad():
                weights[name] = attention.weights(q, k, pattern, bias)

        return hook

    for name, module in model.named_modules():
        if isinstance(module, MultiHeadAttention):
            hooks.append(module.function.register_forward_pre_hook(hook_for(name)))
    try:
        yield weights
    finally:
        for hook in hooks:
            hook.remove()


@contextlib.contextmanager
def without_head(model: nn.Module, name: str, head: int) -> Iterator[None]:
    """While this lasts, the head of this number (from 0) of the attention `name` gives nothing: its part of
    Concat(head_1 … head_H) is 0. No weight is touched."""
    attention = model.get_submodule(name)
    assert isinstance(attention, MultiHeadAttention)

    def silence(function: Any, inputs: tuple[Any, ...], output: Tensor) -> Tensor:
        kept = output.clone()  # [B, H, T, d_v]
        kept[:, head] = 0
        return kept

    hook = attention.function.register_forward_hook(silence)
    try:
        yield
    finally:
        hook.remove()


def attentions(model: nn.Module) -> dict[str, MultiHeadAttention]:
    """Every attention of the model by its name: the encoder's, the decoder's self-attentions, its cross-attentions."""
    found = {name: module for name, module in model.named_modules() if isinstance(module, MultiHeadAttention)}
    return dict(sorted(found.items(), key=lambda item: (not item[0].startswith("encoder"), "cross" in item[0])))


def spoken(name: str) -> str:
    """``decoder.layers.0.cross_attention`` → "decoder layer 1, cross-attention"."""
    words = name.split(".")
    if words[1:2] != ["layers"]:
        return name.replace("head_", "classification layer ").replace("_", " ").replace(".", " ")
    rest = " ".join(words[3:]).replace("_attention", "-attention").replace("_", "-")
    return f"{words[0]} layer {int(words[2]) + 1}" + (f", {rest}" if rest else "")
