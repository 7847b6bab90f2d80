"""Tensors that several processes divide among themselves (PyTorch's DTensor), and those of one process alone, by the
same words. What concerns all of a tensor concerns all of the processes: each must ask.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, TypeGuard

from torch import Tensor

if TYPE_CHECKING:
    from torch.distributed.tensor import DTensor


def is_sharded(tensor: Tensor) -> "TypeGuard[DTensor]":
    """Whether this process has a part of it alone."""
    return hasattr(tensor, "full_tensor")  # asked so, nothing is imported


def whole(tensor: Tensor) -> Tensor:
    """All of a tensor, here."""
    return tensor.full_tensor() if is_sharded(tensor) else tensor


def local(tensors: Iterable[Tensor]) -> list[Tensor]:
    """The parts of tensors that this process has; either all of them are divided, or none."""
    found = list(tensors)
    return [tensor.to_local() for tensor in found if is_sharded(tensor)] if found and is_sharded(found[0]) else found


def like(tensor: Tensor, other: Tensor) -> Tensor:
    """A whole tensor, which every process has, where `other` is and divided as it is."""
    if not is_sharded(other):
        return tensor.to(other.device)
    from torch.distributed.tensor import distribute_tensor

    return distribute_tensor(tensor.to(other.device), other.device_mesh, other.placements, src_data_rank=None)
