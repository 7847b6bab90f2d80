"""How strongly each part of the model is pulled and how far it moves: gradient norms and update-to-weight ratios, by
hooks on the optimizer, at the steps that are logged and at no other."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from pellucid.runs.sharded import whole


@dataclass
class Flow:
    """What one update did, by part, see `part_of`.

    Attributes:
        gradient_norms: ‖g‖₂ of the part's parameters, as the optimizer got them (clipped, where they were).
        update_ratios: ‖Δw‖₂ / ‖w‖₂, w before the update; parts whose weights were all 0 are left out.
    """

    gradient_norms: dict[str, float] = field(default_factory=dict)
    update_ratios: dict[str, float] = field(default_factory=dict)

    def before_clipping(self, norm: float, limit: float | None) -> dict[str, float]:
        """The gradient norms undone of `clip_gradients`, given the whole norm that it measured."""
        kept = 1.0 if limit is None else min(1.0, limit / (norm + 1e-6))
        return {part: value / kept for part, value in self.gradient_norms.items()}


def part_of(name: str) -> str:
    """The part that a parameter is told with: its layer, or the module it is in.

    ``encoder.layers.0.self_attention.query.weight`` → ``encoder.layers.0``; ``source_embedding.weight`` →
    ``source_embedding``.
    """
    words = name.split(".")
    return ".".join(words[:3] if words[1:2] == ["layers"] else words[:-1])


@contextlib.contextmanager
def watch(model: nn.Module, optimizer: torch.optim.Optimizer) -> Iterator[Flow]:
    """The flow of the update that is made while this lasts; the weights are held twice until it ends."""
    flow, before = Flow(), dict[str, Tensor]()

    def ahead(*_: Any) -> None:
        flow.gradient_norms = _norms({name: p.grad for name, p in model.named_parameters() if p.grad is not None})
        before.update({name: p.detach().clone() for name, p in model.named_parameters() if p.grad is not None})

    def behind(*_: Any) -> None:
        now = dict(model.named_parameters())
        lengths = _norms(before)
        for name, old in before.items():
            old.sub_(now[name].detach())
        moved = _norms(before)
        flow.update_ratios = {part: moved[part] / length for part, length in lengths.items() if length > 0}

    hooks = [optimizer.register_step_pre_hook(ahead), optimizer.register_step_post_hook(behind)]
    try:
        yield flow
    finally:
        for hook in hooks:
            hook.remove()


def _norms(tensors: dict[str, Tensor]) -> dict[str, float]:
    """The norm over all tensors of each part."""
    squares: dict[str, float] = {}
    found = list(tensors.values())
    norms = [whole(norm) for norm in torch._foreach_norm(found)] if found else []
    lengths = torch.stack(norms).tolist() if norms else []
    for name, length in zip(tensors, lengths, strict=True):
        squares[part_of(name)] = squares.get(part_of(name), 0.0) + length ** 2
    return {part: square ** 0.5 for part, square in squares.items()}
