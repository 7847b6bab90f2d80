"""The C++ files beside this one, once they are loaded: passes over memory made at once, on a CPU. Without them, torch's
own functions serve.

Loading is a choice of the process, as the number of threads is: `pellucid train` makes it, and a model built in Python
computes with torch's own until `load` is called.
"""

import contextlib
import ctypes
import functools
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor

Gradients = TypeVar("Gradients")
FLOATS = frozenset({torch.float32, torch.bfloat16, torch.float16})
SUFFIX = {torch.bfloat16: "bf16", torch.float32: "float"}
_functions: Mapping[str, Callable[..., Any]] = {}  # that serve now
_latest = _functions  # that served last: what has begun with them ends with them, such as a backward pass
_told = threading.local()  # how many threads the kernels have been told to take in this one


def load(functions: Mapping[str, Callable[..., Any]]) -> None:
    """Uses these compiled functions from now on, by their names in C++ (see `compiled.Library`); torch's own, if there
    are none."""
    global _functions, _latest, _told
    _functions = dict(functions)
    _latest = _functions or _latest
    _told = threading.local()


@contextlib.contextmanager
def rehearse(names: Iterable[str]) -> Iterator[None]:
    """Everything as if the functions of these names were loaded, and nothing computed by them: for tensors that have
    shapes and no data."""
    global _functions, _latest, _told
    before = _functions, _latest
    load(dict.fromkeys(names, _nothing))
    try:
        yield
    finally:
        (_functions, _latest), _told = before, threading.local()


def _nothing(*arguments: Any) -> None:
    """What a kernel does in a rehearsal."""


def address(tensor: Tensor) -> int:
    """Where the data of a tensor begins; 0 for one that has none."""
    return tensor.data_ptr() if has_data(tensor) else 0


def has_data(tensor: Tensor) -> bool:
    """Whether it is more than its shape."""
    return not isinstance(tensor, FakeTensor)


def addresses(tensors: Sequence[Tensor]) -> list[int]:
    """Of each of many."""
    return [0] * len(tensors) if isinstance(tensors[0], FakeTensor) else [t.data_ptr() for t in tensors]


def is_fast(x: Tensor) -> bool:
    """Whether anything in this room is for x: float64, and what is no float, goes by the equations as written."""
    return x.dtype in FLOATS


def is_autocast(x: Tensor) -> bool:
    """Whether autocast is on where x is."""
    device = x.device.type
    return torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device)


def products_dtype(x: Tensor) -> torch.dtype:
    """The type in which products of x are made here: autocast's, where that is on."""
    return torch.get_autocast_dtype(x.device.type) if is_autocast(x) else x.dtype


def serve(*tensors: Tensor) -> bool:
    """Whether the kernels are loaded and take these tensors: on the CPU, in bf16 or fp32."""
    if not _functions:
        return False
    for t in tensors:  # noqa: SIM110 - half of what all() costs, hundreds of times an update
        if t.dtype not in SUFFIX or not t.is_cpu:
            return False
    return True


def apply(function: type[torch.autograd.Function], *arguments: Any) -> Tensor:
    """What `function` makes of its arguments."""
    out: Tensor = function.apply(*arguments)  # type: ignore[no-untyped-call]
    return out


def first_order(backward: Callable[[Any, Tensor], Gradients]) -> Callable[[Any, Tensor], Gradients]:
    """A backward pass that has no derivative, and refuses where one may be asked for. Torch's `once_differentiable`
    would be left out of a sum of gradients by inputs that are named, and nobody told."""

    @functools.wraps(backward)
    def refusing(context: Any, upstream: Tensor) -> Gradients:
        if torch.is_grad_enabled():
            raise RuntimeError("what is computed fast has no gradients of gradients (create_graph=True); the equations "
                               "have them, which are computed as they are written in float64: model.double()")
        return backward(context, upstream)

    return refusing


def run(name: str, dtype: torch.dtype, *arguments: Any) -> None:
    """Calls the kernel `name` for `dtype`; dense tensors go as pointers to their data, structures by reference."""
    assert all(a.is_contiguous() for a in arguments if isinstance(a, Tensor))
    call(f"{name}_{SUFFIX[dtype]}", *[
        address(a) if isinstance(a, Tensor) else ctypes.byref(a) if isinstance(a, ctypes.Structure) else a
        for a in arguments])


def call(name: str, *arguments: Any) -> None:
    """Calls a function by its name in C++."""
    functions = _latest
    _take_threads(functions)
    functions[name](*arguments)


def caller() -> Callable[..., None]:
    """`call` of what is loaded now, whatever is loaded later."""
    functions = dict(_functions)

    def call_it(name: str, *arguments: Any) -> None:
        _take_threads(functions)
        functions[name](*arguments)

    return call_it


def _take_threads(functions: Mapping[str, Callable[..., Any]]) -> None:
    """As many threads as torch has in the calling thread."""
    count = torch.get_num_threads()
    if getattr(_told, "count", None) != count:
        functions["use_threads"](count)
        _told.count = count


def use_threads(count: int) -> None:
    """How many threads kernels and torch's own take when the calling thread calls them."""
    torch.get_num_threads()  # torch sets its own number when a thread first asks
    openmp = _openmp()
    if openmp is None:
        torch.set_num_threads(count)
    else:
        openmp.omp_set_num_threads(count)  # torch would tell its other threads, too


@functools.cache
def _openmp() -> ctypes.CDLL | None:
    """The library that torch has its threads from, where it brings it under a name that is known."""
    found = sorted((Path(torch.__file__).parent / "lib").glob("libgomp*"))
    return ctypes.CDLL(str(found[0])) if found else None


if hasattr(os, "register_at_fork"):  # the kernels have new threads in a forked child, torch's own would wait for ever
    os.register_at_fork(after_in_child=lambda: torch.set_num_threads(1))
