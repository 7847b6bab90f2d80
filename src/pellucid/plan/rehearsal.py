"""The very code that trains and decodes, on tensors that have shapes and no data: what it allocates is written down,
byte by byte, and nothing is computed.

So no formula has to follow the model: whatever option is chosen, it is the code of that option which allocates. Only
what happens below torch is not seen here; plan/process.py measures that.
"""

import contextlib
import weakref
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from pellucid.kernels import calls
from pellucid.kernels.compiled import NAMES

Holdings = dict[str, int]  # bytes, by what holds them
Product = tuple[str, tuple[tuple[int, ...], ...]]  # an operation, how its matrices lie, and the shapes it multiplies
_PRODUCTS = {"mm": 0, "addmm": 1, "bmm": 0, "baddbmm": 1, "mkldnn_linear": 0, "linear": 0}  # and where the left one is


class Ledger(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch's own has no types
    """Every storage that begins and ends while this is entered, with what holds it; every product of matrices, and the
    operations of them all, two for each multiplication and addition."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch's own has no types
        self.events: list[tuple[int, int]] = []  # (number of the storage, bytes that begin, or end when negative)
        self.products: set[Product] = set()
        self.operations = 0
        self._holders: list[str] = []  # by number
        self._holder = "activations"  # of what begins now
        self._numbers: dict[int, int] = {}  # of the storages that are alive, by address

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.aten._local_scalar_dense.default:  # item(), int(), bool(): there is no value, 1 will do
            return 1.0 if args[0].dtype.is_floating_point else 1
        out = func(*args, **(kwargs or {}))
        name = func.overloadpacket.__name__
        if name in _PRODUCTS:
            matrices = [a for a in args if isinstance(a, Tensor) and a.dim() > 1]
            lies = "".join("t" if a.shape[-1] > 1 and a.stride(-1) != 1 else "n" for a in matrices)
            self.products.add((f"{name} {lies}", tuple(tuple(a.shape) for a in matrices)))
            self.operations += 2 * out.numel() * args[_PRODUCTS[name]].shape[-1]
        for tensor in tree_leaves(out):
            if isinstance(tensor, Tensor):
                self._note(tensor)
        return out

    def _note(self, tensor: Tensor) -> None:
        storage = tensor.untyped_storage()
        address = storage._cdata
        if address not in self._numbers:
            number, size = len(self._holders), storage.nbytes()
            self._numbers[address] = number
            self._holders.append(self._holder)
            self.events.append((number, size))
            weakref.finalize(storage, self._end, address, number, size)

    def _end(self, address: int, number: int, size: int) -> None:
        self._numbers.pop(address, None)
        self.events.append((number, -size))

    def belongs(self, holder: str, tensor: object) -> None:
        """Says what holds a tensor, from its beginning on; nothing else is known here."""
        number = self._numbers.get(tensor.untyped_storage()._cdata) if isinstance(tensor, Tensor) else None
        if number is not None:
            self._holders[number] = holder

    @contextlib.contextmanager
    def holding(self, holder: str) -> Iterator[None]:
        """What begins while this lasts is held by `holder`."""
        before, self._holder = self._holder, holder
        try:
            yield
        finally:
            self._holder = before

    def peak(self, first: int) -> Holdings:
        """What was alive when it was the most, from event `first` on."""
        live, most, place = 0, -1, 0
        for i, (_, size) in enumerate(self.events):
            live += size
            if i >= first and live > most:
                most, place = live, i
        held: Holdings = {}
        for number, size in self.events[: place + 1]:
            held[self._holders[number]] = held.get(self._holders[number], 0) + size
        return {holder: size for holder, size in held.items() if size}


@contextlib.contextmanager
def rehearsal(compiled: bool, with_data: bool = False) -> Iterator[Ledger]:
    """A context in which kernels compute nothing, and tensors have shapes and no data.

    Args:
        compiled: whether the run will have the C++ kernels.
        with_data: tensors have data after all, for code that must know where it lies.
    """
    ledger, data = Ledger(), contextlib.nullcontext() if with_data else FakeTensorMode()
    with calls.rehearse(NAMES if compiled else ()), data, ledger:
        yield ledger
