"""What Python and the kernels of decoding share: the numbers and the structures of kernels/decoding.h and search.cpp,
name by name; what they mean stands there."""

import ctypes
from collections.abc import Mapping
from ctypes import c_float, c_int64, c_void_p
from enum import IntEnum

PANEL = 16  # columns of a packed weight that lie together
APART = 16  # numbers between rows that are multiplied
LANES = 16  # widths are multiples of this: of the floats that a register of any processor holds


# What an operation does, what a product goes through, how rows are normalised, and how many inner numbers of a product
# are taken at once in each precision.
Kind = IntEnum("Kind", "EMBED MULTIPLY ADD_PRODUCT NORMALIZE GATE ATTEND_SOURCE ATTEND_PAST QUANTIZE ROTATE", start=0)
Activation = IntEnum("Activation", "LINEAR RELU GELU SWISH GELU_TANH", start=0)
Norm = IntEnum("Norm", "NO_NORM LAYER_NORM RMS_NORM STD_NORM", start=0)
Group = IntEnum("Group", {"FP32": 1, "BF16": 2, "INT8": 4})


class Buffer(IntEnum):
    """What the operations read and write, a row for each token: fp32 or bf16 as asked for, but for the stream, the
    scales and the logits, which are fp32, and the bytes. From REMEMBERED on come the newest keys and values of each
    layer."""

    STREAM, TYPED, JOINT, ATTENDED, GATES, INNER, SOURCE, LOGITS, BYTES, SCALES, REMEMBERED = range(11)

    def stride(self, width: int) -> int:
        """Numbers from one row to the next; decoding.h says why."""
        return width + APART if self in (Buffer.TYPED, Buffer.ATTENDED, Buffer.INNER, Buffer.BYTES) else width

    def type_name(self, typed: str) -> str:
        """The type of its numbers among buffers of `typed`, which is "float32" or "bfloat16"."""
        if self in (Buffer.STREAM, Buffer.LOGITS, Buffer.SCALES):
            return "float32"
        return "int16" if self == Buffer.BYTES else typed


def row_rooms(widths: Mapping[int, int], typed: str) -> dict[Buffer, tuple[int, str]]:
    """Of each buffer with rows of so many numbers, but for what is remembered: the numbers that a row has room for, and
    their type."""
    found = ((Buffer(number), width) for number, width in widths.items() if number < Buffer.REMEMBERED)
    return {buffer: (buffer.stride(width), buffer.type_name(typed)) for buffer, width in found}


def remembered(widths: Mapping[int, int]) -> int:
    """Numbers that a row leaves in a layer, of those whose rows are the widest."""
    return max(width for buffer, width in widths.items() if buffer >= Buffer.REMEMBERED)


ITEM_BYTES = {"float32": 4, "bfloat16": 2, "int16": 2}
SUFFIX = {"float32": "float", "bfloat16": "bf16"}  # of the kernels' names


class Operation(ctypes.Structure):
    """One operation; which fields it reads is listed in decoding.h."""

    POINTERS = ("weight", "gain", "bias", "shift")

    _fields_ = [*((name, c_int64) for name in ("kind", "from_", "to", "inner", "outer", "activation", "norm",
                                               "in_place", "heads", "keys_width", "keys", "keys_at", "keys_stride",
                                               "layer", "window", "span")),
                *((name, c_void_p) for name in POINTERS),
                *((name, c_float) for name in ("alpha", "scale", "epsilon"))]


class Execution(ctypes.Structure):
    """What one execution of a program works on."""

    _fields_ = [("buffers", c_void_p), *((name, c_int64) for name in ("rows", "seen", "longest", "layers")),
                *((name, c_void_p) for name in ("tokens", "positions", "places", "steps", "ancestors", "sentences",
                                                "firsts", "lengths"))]


class Search(ctypes.Structure):
    """What one search works on, and where it puts what it finds."""

    _fields_ = [("operations", c_void_p), ("count", c_int64),
                *((name, c_void_p) for name in ("buffers", "places", "firsts", "lengths")),
                *((name, c_int64) for name in ("longest", "sentences", "beam", "layers", "width", "bos", "eos",
                                               "pad", "forced", "min_length", "max_length", "n_best", "scores")),
                *((name, c_void_p) for name in ("penalties", "largest", "tokens", "log_p", "sizes"))]
