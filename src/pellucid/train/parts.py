"""A batch divided by its rows, so that several workers have about as many tokens each; parts as named tensors."""

from collections.abc import Mapping
from dataclasses import fields
from itertools import pairwise

import torch
from torch import Tensor

from pellucid.data.batching import Batch


def divide(batch: Batch, count: int) -> list[Batch | None]:
    """`count` parts of neighbouring rows, in order, of tokens as equal as rows allow, without columns that are padding
    in all their rows; None for a part without rows, which the first never is."""
    if count == 1:
        return [batch]
    costs = _lengths(batch.source, batch.real_source) + _lengths(batch.target, batch.real_target)
    middles = 2 * costs.cumsum(0) - costs  # twice the place of each row's middle
    begun = [0, *(max(1, int((count * middles < 2 * k * costs.sum()).sum())) for k in range(1, count)), len(costs)]
    return [_rows(batch, start, end) if start < end else None for start, end in pairwise(begun)]


def _lengths(ids: Tensor, real: Tensor | None) -> Tensor:
    return torch.full((len(ids),), ids.shape[1]) if real is None else real.sum(1)


def _rows(batch: Batch, start: int, end: int) -> Batch:
    source, real_source = _trimmed(batch.source[start:end], batch.real_source, start)
    target, real_target = _trimmed(batch.target[start:end], batch.real_target, start)
    return Batch(source, real_source, target, batch.target_input[start:end, : target.shape[1]], real_target)


def _trimmed(ids: Tensor, real: Tensor | None, start: int) -> tuple[Tensor, Tensor | None]:
    if real is None:
        return ids, None
    real = real[start : start + len(ids)]
    longest = int(real.sum(1).max())
    real = real[:, :longest]
    return ids[:, :longest], None if bool(real.all()) else real


def as_tensors(batches: Mapping[int, Batch]) -> dict[str, Tensor]:
    """Batches by their numbers → tensors by names that hold them."""
    return {f"{number}.{field.name}": tensor.contiguous() for number, batch in batches.items()
            for field in fields(Batch) if (tensor := getattr(batch, field.name)) is not None}


def as_batches(tensors: Mapping[str, Tensor]) -> dict[int, Batch]:
    """What `as_tensors` was given."""
    found: dict[int, dict[str, Tensor | None]] = {}
    for name, tensor in tensors.items():
        number, field = name.split(".")
        found.setdefault(int(number), {"real_source": None, "real_target": None})[field] = tensor
    return {number: Batch(**held) for number, held in found.items()}  # type: ignore[arg-type]
