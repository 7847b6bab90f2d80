"""The weights in numbers: of each parameter and each part how large, how spread, how many near 0, of which rank.

The effective rank of a matrix is exp(-Σ p_i ln p_i), p_i = σ_i / Σ σ, of its singular values σ (Roy and Vetterli 2007):
the number of directions that it would have, were all as strong. The spectral norm is the largest σ.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass, fields, replace

import numpy as np
import torch
from torch import Tensor, nn

from pellucid.inspection.measures import part_named, tensors_of
from pellucid.inspection.points import Points
from pellucid.inspection.record import spoken
from pellucid.train.flow import part_of

NEAR = 0.01  # of its parameter's root mean square: a weight no larger is near 0
KINDS = ("attention", "feed-forward", "other")  # of matrices
_BINS = 120
_DRAWN = 0.999  # of the weights of the widest row lie within the ends of the histograms


@dataclass(frozen=True)
class Statistics:
    """What is told of some weights.

    Attributes:
        count: how many.  mean, deviation, minimum, maximum: of them.
        near_zero: the share whose size is at most NEAR of the root mean square of their parameter, if that is finite.
        norm: √Σ w².
        spectral_norm, effective_rank: of a matrix; None of anything else.
    """

    count: int
    mean: float
    deviation: float
    minimum: float
    maximum: float
    near_zero: float
    norm: float
    spectral_norm: float | None = None
    effective_rank: float | None = None


@dataclass(frozen=True)
class Weights:
    """One parameter.

    Attributes:
        name: as in a checkpoint.  part: as people say it; of all its uses, where it has several.
        shape: of the tensor.
    """

    name: str
    part: str
    shape: tuple[int, ...]
    statistics: Statistics


def weights_of(model: nn.Module) -> list[Weights]:
    """Each parameter once, in the order of the model."""
    return [Weights(names[0], part_named(names), tuple(tensor.shape), statistics(tensor))
            for names, tensor in tensors_of(model)]


@torch.inference_mode()
def statistics(tensor: Tensor) -> Statistics:
    """Of one parameter, in fp64; σ of a matrix only where all its weights are finite."""
    flat = tensor.detach().cpu().double().flatten()
    size = flat.square().mean().sqrt()
    near = (flat.abs() <= NEAR * size).double().mean() if size.isfinite() else size.new_tensor(torch.nan)
    found = Statistics(flat.numel(), *(float(value) for value in (
        flat.mean(), flat.std(correction=0), flat.min(), flat.max(), near, flat.norm())))
    if tensor.dim() != 2 or not flat.isfinite().all():
        return found
    matrix = flat.view(tensor.shape)
    gram = matrix.T @ matrix if len(matrix) > tensor.shape[1] else matrix @ matrix.T
    sigma = torch.linalg.eigvalsh(gram).clamp(min=0).sqrt()  # a tenth of the time of its singular values
    rank = float(torch.special.entr(sigma / sigma.sum()).sum().exp()) if sigma[-1] > 0 else 0.0
    return replace(found, spectral_norm=float(sigma[-1]), effective_rank=rank)


def together(parts: Sequence[Statistics]) -> Statistics:
    """Of several parameters, from what is known of each."""
    count = sum(one.count for one in parts)
    mean = sum(one.count * one.mean for one in parts) / count
    squares = sum(one.norm ** 2 for one in parts)
    return Statistics(
        count, mean, math.sqrt(max(squares / count - mean ** 2, 0.0)),  # a NaN that comes first is kept
        float(np.min([one.minimum for one in parts])), float(np.max([one.maximum for one in parts])),
        sum(one.count * one.near_zero for one in parts) / count, math.sqrt(squares))


def by_part(weights: Sequence[Weights]) -> dict[str, Statistics]:
    """Those of each part, in the order of the model."""
    groups: dict[str, list[Statistics]] = {}
    for one in weights:
        groups.setdefault(one.part, []).append(one.statistics)
    return {part: together(group) for part, group in groups.items()}


def as_points(weights: Sequence[Weights]) -> Points:
    """A row a parameter."""
    return Points(["parameter", "shape", *(field.name for field in fields(Statistics))],
                  [[one.name, "×".join(map(str, one.shape)), *astuple(one.statistics)] for one in weights])


@dataclass(frozen=True)
class Matrices:
    """The matrices of one part, as its gradient is told (`train.flow.part_of`), kind by kind.

    Attributes:
        size: root mean square.  shares: of the weights in each bin of the histogram [_BINS].
    """

    part: str
    kind: str
    size: float
    shares: Tensor


@torch.inference_mode()
def histograms(model: nn.Module) -> tuple[Tensor, list[Matrices]]:
    """The edges of the bins [_BINS + 1], the same for all, and the matrices of each part and kind; nothing of biases
    and gains. What is further out than the edges is in no bin."""
    groups = {key: torch.cat([tensor.detach().cpu().float().flatten() for tensor in group])
              for key, group in _grouped(model).items()}
    groups = {key: values[values.isfinite()] for key, values in groups.items()}
    ends = [float(values.abs().sort().values[int(_DRAWN * (len(values) - 1))]) for values in groups.values()
            if len(values)]
    edges = torch.linspace(-1, 1, _BINS + 1) * (max(ends, default=0.0) or 1.0)
    return edges, [Matrices(part, kind, float(values.double().square().mean().sqrt()),
                            torch.histogram(values, edges)[0] / len(values))
                   for (part, kind), values in groups.items() if len(values)]


def _grouped(model: nn.Module) -> dict[tuple[str, str], list[Tensor]]:
    groups: dict[tuple[str, str], list[Tensor]] = {}
    for names, tensor in tensors_of(model):
        if tensor.dim() > 1:
            groups.setdefault((part_of(names[0]), _kind(names[0])), []).append(tensor)
    return groups


def _kind(name: str) -> str:
    words = name.split(".")
    return ("other" if "position" in words else "attention" if any(word.endswith("attention") for word in words)
            else "feed-forward" if "feed_forward" in words else "other")


def drawn_parts(model: nn.Module) -> dict[str, str]:
    """How pictures name the parts that gradients are told by (`train.flow.part_of`): each with all that it serves."""
    return {part_of(names[0]): spoken(part_of(names[0])) if names[0].split(".")[1] == "layers" else
            part_named(names).replace("source embedding = target embedding", "embedding")
            for names, _ in tensors_of(model)}


def histogram_rows(edges: Tensor, matrices: Sequence[Matrices]) -> Iterator[tuple[object, ...]]:
    """A row a bin: the part, the kind of its matrices, the edges of the bin and the share of the weights in it."""
    ends = edges.numpy()
    for one in matrices:
        yield from ((one.part, one.kind, low, high, share)
                    for low, high, share in zip(ends[:-1], ends[1:], one.shares.numpy(), strict=True))
