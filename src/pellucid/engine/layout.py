"""What Python and the kernels of decoding share: the structures of kernels/decoding.h and search.cpp, field by
field, and the numbers that stand for operations and buffers."""

from __future__ import annotations

import ctypes
from ctypes import c_float, c_int64, c_void_p
from enum import IntEnum


class Kind(IntEnum):
    """What an operation does."""

    EMBED = 0
    MULTIPLY = 1
    ADD_PRODUCT = 2
    NORMALIZE = 3
    GATE = 4
    ATTEND_SOURCE = 5
    ATTEND_PAST = 6
    QUANTIZE = 7


class Buffer(IntEnum):
    """What the operations read and write, a row for each token: fp32 or bf16 as asked for, but for the stream, the
    scales and the logits, which are fp32, and the bytes. From REMEMBERED on come the newest keys and values of each
    layer."""

    STREAM = 0
    TYPED = 1
    JOINT = 2
    ATTENDED = 3
    GATES = 4
    INNER = 5
    SOURCE = 6
    LOGITS = 7
    BYTES = 8
    SCALES = 9
    REMEMBERED = 10

    def type_name(self, typed: str) -> str:
        """The type of its numbers among buffers of `typed`, which is "float32" or "bfloat16"."""
        if self in (Buffer.STREAM, Buffer.LOGITS, Buffer.SCALES):
            return "float32"
        return "uint8" if self == Buffer.BYTES else typed


ITEM_BYTES = {"float32": 4, "bfloat16": 2, "uint8": 1}
SUFFIX = {"float32": "float", "bfloat16": "bf16"}  # of the kernels' names


class Operation(ctypes.Structure):
    """One operation."""

    POINTERS = ("weight", "gain", "bias", "shift")

    _fields_ = [*((name, c_int64) for name in ("kind", "from_", "from_stride", "to", "inner", "outer", "variant",
                                               "heads", "keys", "keys_at", "stride")),
                *((name, c_void_p) for name in POINTERS),
                *((name, c_float) for name in ("scalar", "epsilon"))]


class Step(ctypes.Structure):
    """What one execution works on."""

    _fields_ = [("buffers", c_void_p), ("rows", c_int64), ("seen", c_int64), ("longest", c_int64),
                *((name, c_void_p) for name in ("tokens", "positions", "places", "steps", "ancestors", "sentences",
                                                "firsts", "lengths"))]


class Search(ctypes.Structure):
    """What one search works on, and where it puts what it finds."""

    _fields_ = [("operations", c_void_p), ("count", c_int64),
                *((name, c_void_p) for name in ("buffers", "places", "firsts", "lengths")),
                *((name, c_int64) for name in ("longest", "sentences", "beam", "layers", "width", "bos", "eos",
                                               "pad", "min_length", "max_length", "n_best", "scores")),
                *((name, c_void_p) for name in ("penalties", "largest", "tokens", "log_p", "sizes"))]
