"""The C++ files beside this one, once they are loaded: passes over memory made at once, on a CPU. Without them, every
file uses its plain equation.

Loading is a choice of the process, as the number of threads is: `pellucid train` makes it, and a model built in Python
computes the plain equations until `load` is called.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Callable, Iterator
from ctypes import c_float, c_int64, c_uint32, c_void_p
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor

SOURCES = sorted(Path(__file__).parent.glob("*.cpp"))
HEADERS = sorted(Path(__file__).parent.glob("*.h"))
_SIGNATURES: dict[str, list[type]] = {
    "drop": [c_void_p, c_void_p, c_int64, c_uint32, c_float, c_uint32, c_uint32],
    "drop_float_to": [c_void_p, c_void_p, c_int64, c_uint32, c_float, c_uint32, c_uint32],
    "add_dropped": [c_void_p, c_void_p, c_void_p, c_int64, c_uint32, c_float, c_uint32, c_uint32],
    "layer_norm": [c_void_p] * 6 + [c_int64, c_int64, c_float],
    "layer_norm_backward": [c_void_p] * 7 + [c_int64, c_int64],
    "attend": [c_void_p, c_void_p],
    "attend_backward": [c_void_p, c_void_p],
    "soften_rows": [c_void_p, c_void_p],
    "soften_rows_backward": [c_void_p, c_void_p, c_void_p],
    "exponentiate": [c_void_p] * 5 + [c_int64, c_int64],
    "r_drop": [c_void_p] * 5 + [c_float, c_int64, c_int64],
    "execute": [c_void_p, c_int64, c_void_p],
    "rank": [c_void_p, c_void_p, c_void_p, c_int64, c_int64, c_int64, c_void_p, c_int64],
    "search": [c_void_p],
}
_SUFFIX = {torch.bfloat16: "bf16", torch.float32: "float"}
_functions: dict[str, Callable[..., Any]] = {}


def load(path: Path | None) -> None:
    """Uses the compiled kernels at `path` from now on; with None, the plain equations.

    Raises:
        OSError: it is not a library that fits this processor and system.
    """
    _functions.clear()
    if path is None:
        return
    library = ctypes.CDLL(str(path))
    for name, arguments in _SIGNATURES.items():
        for suffix in _SUFFIX.values():
            function = library[f"{name}_{suffix}"]
            function.argtypes, function.restype = arguments, None
            _functions[f"{name}_{suffix}"] = function
    _functions["use_threads"] = library["use_threads"]


@contextlib.contextmanager
def rehearse(loaded: bool) -> Iterator[None]:
    """Everything as if the kernels were loaded, or were not, and nothing computed by them: for tensors that have shapes
    and no data."""
    before = dict(_functions)
    _functions.clear()
    if loaded:
        _functions.update({f"{name}_{suffix}": _nothing for name in _SIGNATURES for suffix in _SUFFIX.values()})
    try:
        yield
    finally:
        _functions.clear()
        _functions.update(before)


def _nothing(*arguments: Any) -> None:
    """What a kernel does in a rehearsal."""


def address(tensor: Tensor) -> int:
    """Where the data of a tensor begins; 0 for one that has none."""
    return 0 if isinstance(tensor, FakeTensor) else tensor.data_ptr()


def serve(*tensors: Tensor) -> bool:
    """Whether the kernels are loaded and take these tensors: on the CPU, in bf16 or fp32."""
    return bool(_functions) and all(t.device.type == "cpu" and t.dtype in _SUFFIX for t in tensors)


def apply(function: type[torch.autograd.Function], *arguments: Any) -> Tensor:
    """What `function` makes of its arguments."""
    out: Tensor = function.apply(*arguments)  # type: ignore[no-untyped-call]
    return out


def run(name: str, dtype: torch.dtype, *arguments: Any) -> None:
    """Calls the kernel `name` for `dtype`; tensors go as pointers to their data, structures by
    reference."""
    _functions[f"{name}_{_SUFFIX[dtype]}"](*[
        address(a) if isinstance(a, Tensor) else ctypes.byref(a) if isinstance(a, ctypes.Structure) else a
        for a in arguments])


def use_threads(count: int) -> None:
    """How many threads kernels and torch's own take when the calling thread calls them."""
    torch.get_num_threads()  # torch sets its own number when a thread first asks
    _functions["use_threads"](c_int64(count))


class Heads(ctypes.Structure):
    """A view [B, H, T, D/H] whose last dimension is dense."""

    _fields_ = [("data", c_void_p), ("batch", c_int64), ("head", c_int64), ("row", c_int64)]


class Sizes(ctypes.Structure):
    """What the attention kernels must know besides the data."""

    _fields_ = [("batch", c_int64), ("heads", c_int64), ("queries", c_int64), ("keys", c_int64), ("width", c_int64),
                ("lengths", c_void_p), ("causal", c_int64), ("scale", c_float)]


def heads(*views: Tensor) -> ctypes.Array[Heads]:
    """The views as the kernels take them."""
    return (Heads * len(views))(*[Heads(address(v), *v.stride()[:3]) for v in views])
