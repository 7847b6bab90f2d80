"""Kernels in another process: for another processor, which is emulated, or with a sanitizer in them. driver.cpp is the
other end."""

from __future__ import annotations

import bisect
import ctypes
import struct
import subprocess
import threading
from collections.abc import Sequence
from functools import partial
from typing import Any

from tests.kernels.reach import Reach, reach

from pellucid.kernels.compiled import NAMES, Library
from pellucid.kernels.levels import Level

FLOATS = (ctypes.c_float, ctypes.c_double)


class Remote(Library):
    """What `Library` is, with all that the functions touch sent to a driver, and what they wrote fetched.

    Args:
        command: that runs the driver.
        level: that it was compiled for.

    Raises:
        RuntimeError: of each call, once the driver has ended.
    """

    def __init__(self, command: Sequence[str], level: Level) -> None:
        self.name, self.level, self.most_threads = " ".join(command), level, 2
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._busy = threading.Lock()
        self.functions = {name: partial(self._make, name) for name in NAMES}
        self.functions["use_threads"] = lambda count: None  # the driver takes as many as it likes

    def close(self) -> int:
        """Ends the driver; its exit status."""
        assert self._process.stdin
        self._process.stdin.close()
        return self._process.wait(60)

    def _make(self, name: str, *arguments: Any) -> None:
        types = NAMES[name]
        plain = [float(a) if t in FLOATS else _number(a) for a, t in zip(arguments, types, strict=True)]
        self.send(name, plain, reach(name, plain))

    def send(self, name: str, arguments: list[Any], touched: Reach) -> None:
        """Makes a call that may touch so much memory."""
        blocks = Blocks(touched)
        parameters = [struct.pack("=dqq", *_parameter(a, t, blocks))
                      for a, t in zip(arguments, NAMES[name], strict=True)]
        pointers = [struct.pack("=qqqq", *blocks.place(at), *blocks.place(to)) for at in touched.pointers
                    if (to := ctypes.c_int64.from_address(at).value) and blocks.holds(to)]
        message = [_counted(1, name.encode()), _counted(24, b"".join(parameters)), _counted(32, b"".join(pointers)),
                   struct.pack("=q", len(blocks.spans))]
        for begin, end, is_written in blocks.spans:
            message += [struct.pack("=q", is_written), _counted(1, ctypes.string_at(begin, end - begin))]
        with self._busy:
            self._exchange(b"".join(message), blocks)

    def _exchange(self, message: bytes, blocks: Blocks) -> None:
        assert self._process.stdin
        assert self._process.stdout
        try:
            self._process.stdin.write(message)
            self._process.stdin.flush()
        except BrokenPipeError:
            raise RuntimeError(f"the driver ended with {self._process.wait(60)}") from None
        for begin, end, is_written in blocks.spans:
            if is_written:
                written = self._process.stdout.read(end - begin)
                if len(written) < end - begin:
                    raise RuntimeError(f"the driver ended with {self._process.wait(60)}")
                ctypes.memmove(begin, written, end - begin)


class Blocks:
    """The spans of a call; those that overlap are one.

    Attributes:
        spans: begin, end, whether it is written.
    """

    def __init__(self, touched: Reach) -> None:
        self.spans: list[tuple[int, int, bool]] = []
        for address, size, is_written in sorted(touched.spans):
            if self.spans and address < self.spans[-1][1]:
                begin, end, was_written = self.spans.pop()
                self.spans.append((begin, max(end, address + size), was_written or is_written))
            else:
                self.spans.append((address, address + size, is_written))
        self._begins = [begin for begin, _, _ in self.spans]

    def holds(self, address: int) -> bool:
        number = bisect.bisect_right(self._begins, address) - 1
        return number >= 0 and address < self.spans[number][1]

    def place(self, address: int) -> tuple[int, int]:
        """The number of the block, and where in it."""
        assert self.holds(address), "a pointer leads to what nothing is known of"
        number = bisect.bisect_right(self._begins, address) - 1
        return number, address - self._begins[number]


def _number(argument: Any) -> int:
    """A whole number, or the address of what is given by reference."""
    if argument is None:
        return 0
    if isinstance(argument, ctypes.Array | ctypes.Structure):
        return ctypes.addressof(argument)
    return ctypes.addressof(argument._obj) if hasattr(argument, "_obj") else int(argument)


def _parameter(argument: Any, kind: Any, blocks: Blocks) -> tuple[float, int, int]:
    """As driver.cpp's Parameter has it: number, whole number or place, block."""
    if kind in FLOATS:
        return argument, 0, -1
    if kind is ctypes.c_void_p:
        block, place = blocks.place(argument) if argument and blocks.holds(argument) else (-1, 0)
        return 0.0, place, block
    return 0.0, argument, -1


def _counted(size: int, data: bytes) -> bytes:
    return struct.pack("=q", len(data) // size) + data
