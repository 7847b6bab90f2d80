"""What a process holds beside tensors, measured in this one: the libraries, and the primitives that oneDNN keeps.

oneDNN makes machine code for each new shape of a bf16 product, and `precision.keep_primitives` lets it keep thousands,
so an epoch of batches leaves them behind: of a small model they are the largest part of the memory.
"""

import gc
import os
from collections.abc import Iterable
from pathlib import Path

import torch
from torch.nn.functional import linear

from pellucid.config import RunConfig
from pellucid.kernels.allocator import give_back
from pellucid.precision import products_in

_PROBES = 12  # new shapes of each product
_ROWS = 1009  # of a probe: a number that no batch is likely to have


def resident() -> int:
    """Bytes of this process that are in memory now; 0 where the system does not tell."""
    try:
        return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def baselines(precision: str) -> tuple[int, int]:
    """Bytes of a process that has loaded what decoding needs, and has multiplied a first matrix; and of one that has
    loaded what training needs."""
    import pellucid.runs.run

    _multiply(64, 64, 64, precision)
    gc.collect()
    decoding = resident()
    import matplotlib.figure  # noqa: F401

    import pellucid.train.train  # noqa: F401

    return decoding, resident()


def primitive_bytes(config: RunConfig) -> int:
    """Bytes that a bf16 product of a new shape leaves behind: the mean over those of the model's layers, forward and
    backward, each tried with shapes of its own."""
    model = config.model
    d, f = model.d_model, model.d_ff
    layers = [(d, 3 * d), (d, d), (d, f), (f, d)]
    _multiply_by(range(_ROWS, _ROWS + _PROBES), layers)  # whatever is kept of the last ones alone is there from here on
    before = _settled()
    _multiply_by(range(_ROWS + _PROBES, _ROWS + 2 * _PROBES), layers)
    return max(0, _settled() - before) // (3 * _PROBES * len(layers))


def _settled() -> int:
    """`resident`, what was freed given back to the system."""
    gc.collect()
    give_back()
    return resident()


def _multiply_by(numbers: Iterable[int], layers: Iterable[tuple[int, int]]) -> None:
    """Each layer, for each of these numbers of rows."""
    for rows in numbers:
        for inner, outer in layers:
            _multiply(rows, inner, outer, "bf16")


def _multiply(rows: int, inner: int, outer: int, precision: str) -> None:
    """A linear layer and its gradients: three products."""
    x = torch.zeros(rows, inner, requires_grad=True)
    weight, bias = torch.zeros(outer, inner, requires_grad=True), torch.zeros(outer)
    with products_in(precision, x.device):
        out = linear(x, weight, bias)
    out.sum().backward()  # type: ignore[no-untyped-call]
