"""train/optimizer.py in one call for all parameters: compiled, or by torch's functions, which take a call for each."""

from array import array
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.optim.adam import adam as torch_adam

from pellucid.kernels import calls


def clip(gradients: list[Tensor], most: float) -> Tensor:
    """The norm of all gradients together, which are scaled down to `most` where it is above that."""
    if not _serves(gradients):
        length = torch.nn.utils.get_total_norm(gradients)
        if gradients:
            torch._foreach_mul_(gradients, (most / (length + 1e-6)).clamp(max=1.0))
        return length
    norm = gradients[0].new_empty(())
    _call("clip_float", [calls.addresses(gradients), _sizes(gradients)], len(gradients), most, calls.address(norm))
    return norm


def adam(weights: list[Tensor], gradients: list[Tensor], steps: list[Tensor], means: list[Tensor],
         squares: list[Tensor], group: dict[str, Any]) -> None:
    """A step on weights with these gradients: how many they had before, and the moments; `group` is what torch's
    optimizers keep of them."""
    (beta1, beta2), rate, decay, epsilon = group["betas"], group["lr"], group["weight_decay"], group["eps"]
    if _serves([*weights, *gradients]):
        lists = [calls.addresses(tensors) for tensors in (weights, gradients, means, squares, steps)]
        _call("adam_float", [*lists, _sizes(weights)], len(weights), rate, beta1, beta2, epsilon, decay,
              group["decoupled"])
    else:
        gradients = [_laid_out(g, w) for g, w in zip(gradients, weights, strict=True)]
        torch_adam(weights, gradients, means, squares, [], steps, fused=True, amsgrad=False, maximize=False,
                   decoupled_weight_decay=group["decoupled"], beta1=beta1, beta2=beta2, lr=rate, weight_decay=decay,
                   eps=epsilon)


def _serves(tensors: Sequence[Tensor]) -> bool:
    """Whether there are any, and the kernels take them: dense in fp32."""
    return calls.serve(*tensors[:1]) and all(
        t.dtype is torch.float32 and t.is_cpu and t.is_contiguous() for t in tensors) and len(tensors) > 0


def _laid_out(gradient: Tensor, weights: Tensor) -> Tensor:
    """As the weights are, number by number: what torch's function takes for granted."""
    return gradient if gradient.stride() == weights.stride() else torch.empty_like(weights).copy_(gradient)


def _sizes(tensors: Sequence[Tensor]) -> list[int]:
    return [t.numel() for t in tensors]


def _call(name: str, lists: Sequence[list[int]], *arguments: Any) -> None:
    """Calls a kernel with lists of words, by where they begin, and other arguments."""
    words = [array("q", each) for each in lists]
    calls.call(name, *[each.buffer_info()[0] for each in words], *arguments)
