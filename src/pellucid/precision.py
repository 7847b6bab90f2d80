"""The number format of matrix products: bf16 where it is multiplied sooner than fp32, fp32 elsewhere.

Weights, sums of gradients, norms and the optimizer stay fp32.
"""

import contextlib
import os
from collections.abc import Callable, Iterator

import torch

from pellucid.kernels.levels import gains_by_bf16, multiplies_bf16

PRIMITIVES, DESCRIPTIONS = 4096, 64  # that are kept, by oneDNN and by PyTorch


def keep_primitives() -> None:
    """Says how many of the primitives that it makes for each new shape of a product oneDNN keeps; call it before the
    first one.

    It keeps 1,024 by default, and an epoch of batches has several times as many shapes: without this, a small model
    spends a tenth of its time on making them anew. They are 0.3 MB each, so that those of a large corpus are bounded.
    Beside that cache PyTorch has one of its own, of descriptions that are as large; for the layers of one batch, which
    have the same shapes, a few are enough.
    """
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", str(PRIMITIVES))
    os.environ.setdefault("LRU_CACHE_CAPACITY", str(DESCRIPTIONS))
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # products of a GPU that come out alike each time


def resolve(precision: str, device: torch.device) -> str:
    """"auto" → "bf16" or "fp32", by which of them torch multiplies sooner."""
    # oneDNN says yes to processors on which it must imitate bf16, more slowly than fp32
    return _resolved(precision, device, lambda: gains_by_bf16() and torch.ops.mkldnn._is_mkldnn_bf16_supported())


def resolve_packed(precision: str, device: torch.device) -> str:
    """The same of the engine's own products, whose weights of bf16 are half as many bytes to read."""
    return _resolved(precision, device, multiplies_bf16)


def _resolved(precision: str, device: torch.device, gains: Callable[[], bool]) -> str:
    if precision != "auto":
        return precision
    gains_there = torch.cuda.is_bf16_supported() if device.type == "cuda" else device.type == "cpu" and gains()
    return "bf16" if gains_there else "fp32"


def products_in(precision: str, device: torch.device) -> torch.autocast:
    """A context in which matrix products run in `precision`."""
    return torch.autocast(device.type, dtype=torch.bfloat16, enabled=precision == "bf16")


@contextlib.contextmanager
def made_in_fp32() -> Iterator[None]:
    """A context in which weights are made in fp32, whatever torch's default type is."""
    default = torch.get_default_dtype()
    torch.set_default_dtype(torch.float32)
    try:
        yield
    finally:
        torch.set_default_dtype(default)
