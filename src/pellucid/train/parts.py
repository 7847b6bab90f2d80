"""A batch divided by its rows, so that several workers have about as many tokens each; parts as named tensors."""

from collections.abc import Mapping
from dataclasses import fields
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from pellucid.data.batching import Batch
from pellucid.train.world import deal


def divide(batch: Batch, count: int) -> list[Batch | None]:
    """`count` parts of tokens as equal as rows allow, rows in order, without columns that are padding in all their
    rows; None for a part without rows, which the first never is."""
    if count == 1:
        return [batch]
    costs = _lengths(batch.source, batch.real_source) + _lengths(batch.target, batch.real_target)
    return [_rows(batch, rows) if rows else None for rows in _shares(costs, count)]


def _lengths(ids: Tensor, real: Tensor | None) -> Tensor:
    return torch.full((len(ids),), ids.shape[1]) if real is None else real.sum(1)


def _shares(costs: Tensor, count: int) -> list[list[int]]:
    """The rows of each part: neighbours, which are of about one length, unless dealing rows out makes the largest part
    smaller by a hundredth, as it does where rows are few and long."""
    middles = 2 * costs.cumsum(0) - costs  # twice the place of each row's middle
    begun = [0, *(max(1, int((count * middles < 2 * k * costs.sum()).sum())) for k in range(1, count)), len(costs)]
    neighbours = [list(range(start, end)) for start, end in pairwise(begun)]
    dealt = deal(costs.tolist(), count)
    largest = [max(int(costs[rows].sum()) for rows in way) for way in (neighbours, dealt)]
    return dealt if 1.01 * largest[1] < largest[0] else neighbours


def _rows(batch: Batch, rows: list[int]) -> Batch:
    source, real_source = _trimmed(batch.source, batch.real_source, rows)
    target, real_target = _trimmed(batch.target, batch.real_target, rows)
    return Batch(source, real_source, target, batch.target_input[rows, : target.shape[1]], real_target)


def _trimmed(ids: Tensor, real: Tensor | None, rows: list[int]) -> tuple[Tensor, Tensor | None]:
    if real is None:
        return ids[rows], None
    real = real[rows]
    longest = int(real.sum(1).max())
    real = real[:, :longest]
    return ids[rows, :longest], None if bool(real.all()) else real


def as_tensors(batches: Mapping[int, Batch]) -> dict[str, Tensor]:
    """Batches by their numbers → tensors by names that hold them."""
    return {f"{number}.{field.name}": tensor.contiguous() for number, batch in batches.items()
            for field in fields(Batch) if (tensor := getattr(batch, field.name)) is not None}


def as_batches(tensors: Mapping[str, Tensor]) -> dict[int, Batch]:
    """What `as_tensors` was given, by number: tensors that were bytes come in any order, and sums depend on theirs."""
    found: dict[int, dict[str, Any]] = {}
    for name, tensor in tensors.items():
        number, field = name.split(".")
        found.setdefault(int(number), {"real_source": None, "real_target": None})[field] = tensor
    return {number: Batch(**held) for number, held in sorted(found.items())}
