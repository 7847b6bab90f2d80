"""Some rows of a matrix, each once. Where torch adds up the gradients of what may have been chosen several times, and
sorts for it on a GPU, each row's gradient is fetched here, or 0."""

from typing import Any

import torch
from torch import Tensor

from pellucid.kernels import calls


def chosen_rows(x: Tensor, places: Tensor, chosen: Tensor) -> Tensor:
    """x[chosen].

    Args:
        x: [R, D].  places: [N], ascending, of the rows that are chosen.  chosen: [R], true at these.
    """
    return calls.apply(_ChosenRows, x, places, chosen)


class _ChosenRows(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, x: Tensor, places: Tensor, chosen: Tensor) -> Tensor:
        context.save_for_backward(chosen)
        return x.index_select(0, places)

    @staticmethod
    def backward(context: Any, upstream: Tensor) -> tuple[Tensor, None, None]:
        (chosen,) = context.saved_tensors
        number = (chosen.cumsum(0) - 1).clamp(min=0)  # of each row among those that are chosen
        return torch.where(chosen[:, None], upstream.index_select(0, number), 0.0), None, None
