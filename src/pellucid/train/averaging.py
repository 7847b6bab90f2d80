r"""Averages of weights: an exponential moving one during training, and a plain one of the last checkpoints (section
6.1)."""

from collections.abc import Iterable

import torch
from torch import Tensor, nn


class MovingAverage:
    r""":math:`\bar\theta \leftarrow d\,\bar\theta + (1 - d)\,\theta` after every update, with the smaller d of
    :math:`(1 + s)/(10 + s)` at the first steps s."""

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        self.weights = {name: p.detach().clone() for name, p in model.named_parameters()}

    @torch.no_grad()
    def update(self, model: nn.Module, step: int) -> None:
        """Takes the weights after update `step` in."""
        decay = min(self.decay, (1 + step) / (10 + step))
        names, now = zip(*model.named_parameters(), strict=True)
        torch._foreach_lerp_([self.weights[name] for name in names], list(now), 1 - decay)


def mean_of(checkpoints: Iterable[dict[str, Tensor]]) -> dict[str, Tensor]:
    """The mean of several sets of weights, summed in fp64."""
    total: dict[str, Tensor] = {}
    kinds: dict[str, torch.dtype] = {}
    count = 0
    for weights in checkpoints:
        count += 1
        for name, tensor in weights.items():
            kinds[name] = tensor.dtype
            total[name] = total[name] + tensor.double() if name in total else tensor.double()
    return {name: (tensor / count).to(kinds[name]) for name, tensor in total.items()}
