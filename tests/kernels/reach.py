"""What memory each function of the kernels may touch, to the byte: what it reads, what it writes, and where in it the
pointers are. It is what rows.cpp, attention.cpp, decoding.h and search.cpp say of their arguments, written anew."""

from __future__ import annotations

import ctypes
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pellucid.engine.layout import ITEM_BYTES, Buffer, Execution, Kind, Operation, Search
from pellucid.engine.verify import ACCESS
from pellucid.engine.verify import Sizes as Stack
from pellucid.kernels.heads import Heads, Sizes

_WORD = 8  # bytes of a whole number, or of a pointer
_FLOAT, _INT32 = 4, 4
_TYPES = {"bf16": (2, "bfloat16"), "float": (4, "float32")}


@dataclass
class Reach:
    """The memory of one call.

    Attributes:
        item: bytes of T.  typed: T, as engine/layout.py names it.
        spans: (address, bytes, whether it is written).
        pointers: where pointers lie that the function follows.
    """

    item: int
    typed: str
    spans: list[tuple[int, int, bool]] = field(default_factory=list)
    pointers: list[int] = field(default_factory=list)

    def reads(self, address: int | None, size: int) -> None:
        if address and size:
            self.spans.append((address, size, False))

    def writes(self, address: int | None, size: int) -> None:
        if address and size:
            self.spans.append((address, size, True))

    def structures(self, address: int, kind: Any, count: int) -> list[Any]:
        """So many structures there, whose pointers are followed."""
        size = ctypes.sizeof(kind)
        self.reads(address, count * size)
        places = [getattr(kind, name).offset for name, type_ in kind._fields_ if type_ is ctypes.c_void_p]
        self.pointers += [address + i * size + place for i in range(count) for place in places]
        return list((kind * count).from_address(address))

    def numbers(self, address: int, count: int) -> list[int]:
        """So many whole numbers that it reads."""
        self.reads(address, count * _WORD)
        return list((ctypes.c_int64 * count).from_address(address))

    def addresses(self, address: int, count: int) -> list[int]:
        """So many pointers that it follows."""
        self.pointers += range(address, address + count * _WORD, _WORD)
        return self.numbers(address, count)


def reach(name: str, arguments: list[Any]) -> Reach:
    """Of a call by its name in C++, arguments as whole numbers and floats."""
    function, _, suffix = name.rpartition("_")
    found = Reach(*_TYPES[suffix])
    FUNCTIONS[function](found, *arguments)
    return found


# ---- rows.cpp -------------------------------------------------------------------------------------------------------


def _drop(r: Reach, x: int, out: int, count: int, *_: Any) -> None:
    r.reads(x, count * r.item)
    r.writes(out, count * r.item)


def _drop_float_to(r: Reach, x: int, out: int, count: int, *_: Any) -> None:
    r.reads(x, count * _FLOAT)
    r.writes(out, count * r.item)


def _add_dropped(r: Reach, x: int, y: int, out: int, count: int, *_: Any) -> None:
    r.reads(x, count * _FLOAT)
    r.reads(y, count * r.item)
    r.writes(out, count * _FLOAT)


def _layer_norm(r: Reach, x: int, gain: int, bias: int, y: int, *others: Any) -> None:
    mean, inverse, rows, width, _ = others
    r.reads(x, rows * width * _FLOAT)
    r.writes(y, rows * width * r.item)
    for each in (gain, bias):
        r.reads(each, width * _FLOAT)
    for each in (mean, inverse):
        r.writes(each, rows * _FLOAT)


def _layer_norm_backward(r: Reach, x: int, gain: int, mean: int, inverse: int, *others: int) -> None:
    upstream, gradient, partial, rows, width = others
    r.reads(x, rows * width * _FLOAT)
    r.reads(gain, width * _FLOAT)
    for each in (mean, inverse):
        r.reads(each, rows * _FLOAT)
    r.reads(upstream, rows * width * r.item)
    r.writes(gradient, rows * width * _FLOAT)
    r.writes(partial, -(-rows // 128) * 2 * width * _FLOAT)


def _exponentiate(r: Reach, logits: int, targets: int, *others: int) -> None:
    *columns, rows, width = others
    r.writes(logits, rows * width * r.item)
    r.reads(targets, rows * _WORD)
    for each in columns:
        r.writes(each, rows * _FLOAT)


def _r_drop(r: Reach, logits: int, targets: int, *others: Any) -> None:
    *columns, _, rows, width = others
    r.writes(logits, 2 * rows * width * r.item)
    r.reads(targets, rows * _WORD)
    for each in columns:
        r.writes(each, rows * _FLOAT)


def _clip(r: Reach, gradients: int, sizes: int, count: int, _: float, norm: int) -> None:
    for gradient, size in zip(r.addresses(gradients, count), r.numbers(sizes, count), strict=True):
        r.writes(gradient, size * _FLOAT)
    r.writes(norm, _FLOAT)


def _adam(r: Reach, *arguments: Any) -> None:
    *lists, sizes, count = arguments[:7]
    for number, each in enumerate(lists):
        for pointer, size in zip(r.addresses(each, count), r.numbers(sizes, count), strict=True):
            (r.reads if number == 1 else r.writes)(pointer, (1 if number == 4 else size) * _FLOAT)


# ---- attention.cpp --------------------------------------------------------------------------------------------------


def _sizes(r: Reach, address: int) -> Any:
    sizes = r.structures(address, Sizes, 1)[0]
    r.reads(sizes.lengths, sizes.batch * _WORD)
    return sizes


def _heads(r: Reach, sizes: Any, address: int, rows: list[int], written: int) -> None:
    """So many rows each; those from `written` on are written."""
    for number, (heads, count) in enumerate(zip(r.structures(address, Heads, len(rows)), rows, strict=True)):
        last = (sizes.batch - 1) * heads.batch + (sizes.heads - 1) * heads.head + (count - 1) * heads.row
        (r.writes if number >= written else r.reads)(heads.data, (last + sizes.width) * r.item)


def _attend(r: Reach, sizes: int, heads: int) -> None:
    z = _sizes(r, sizes)
    _heads(r, z, heads, [z.queries, z.keys, z.keys, z.queries], 3)


def _attend_backward(r: Reach, sizes: int, heads: int) -> None:
    z = _sizes(r, sizes)
    _heads(r, z, heads, [z.queries, z.keys, z.keys, z.queries, z.queries, z.keys, z.keys], 4)


def _soften_rows(r: Reach, sizes: int, scores: int) -> None:
    z = _sizes(r, sizes)
    r.writes(scores, z.batch * z.heads * z.queries * z.keys * r.item)


def _soften_rows_backward(r: Reach, sizes: int, weights: int, gradient: int) -> None:
    z = _sizes(r, sizes)
    size = z.batch * z.heads * z.queries * z.keys * r.item
    r.reads(weights, size)
    r.writes(gradient, size)


def _turn(r: Reach, sizes: int, heads: int, tables: int, apart: int) -> None:
    z = _sizes(r, sizes)
    _heads(r, z, heads, [z.queries, z.queries], 1)
    r.reads(tables, ((z.batch - 1) * apart + z.queries * 2 * z.width) * _FLOAT)


# ---- decoding.cpp and search.cpp ------------------------------------------------------------------------------------


def _rank(r: Reach, logits: int, values: int, ids: int, *others: int) -> None:
    rows, vocabulary, count, forbidden, n_forbidden = others
    r.reads(logits, rows * vocabulary * r.item)
    r.writes(values, rows * count * _FLOAT)
    r.writes(ids, rows * count * _WORD)
    r.numbers(forbidden, n_forbidden)


def _operations(r: Reach, address: int, count: int, tokens: int) -> tuple[list[Any], dict[int, int]]:
    """The operations and the width of each buffer, with all weights, the table's for so many tokens."""
    operations = r.structures(address, Operation, count)
    widths: Counter[int] = Counter()
    for o in operations:
        stack = Stack(o.outer, 1, r.typed, {o.weight: tokens * o.outer * _FLOAT}, 0, None)
        for pointer, size in ACCESS[Kind(o.kind)].blocks.items():
            r.reads(getattr(o, pointer), size(o, stack))
        widths[o.to] = max(widths[o.to], o.outer)
        if o.kind != Kind.EMBED:
            widths[o.from_] = max(widths[o.from_], o.inner)
        if o.kind == Kind.QUANTIZE:
            widths[Buffer.SCALES] = 1
        if o.kind == Kind.ATTEND_SOURCE:
            widths[o.keys] = max(widths[o.keys], o.keys_stride)
    return operations, dict(widths)


def _buffers(r: Reach, address: int, widths: dict[int, int], rows: int, sources: int | None) -> list[tuple[int, int]]:
    """Where each is that there is a pointer to, and its bytes, for so many rows, and so many of the source, if it is
    read."""
    found = []
    for number, pointer in enumerate(r.addresses(address, max(*widths, Buffer.REMEMBERED - 1) + 1)):
        if pointer and number in widths:
            buffer = Buffer(min(number, Buffer.REMEMBERED))
            count = sources if buffer == Buffer.SOURCE and sources is not None else rows
            found.append((pointer, count * buffer.stride(widths[number]) * ITEM_BYTES[buffer.type_name(r.typed)]))
    return found


def _ends(firsts: list[int], lengths: list[int]) -> int:
    return max((first + length for first, length in zip(firsts, lengths, strict=True)), default=0)


def _execute(r: Reach, operations: int, count: int, execution: int) -> None:
    e = r.structures(execution, Execution, 1)[0]
    tokens, sources = r.numbers(e.tokens, e.rows) if e.tokens else [0], None
    every, widths = _operations(r, operations, count, max(tokens, default=0) + 1)
    if e.sentences:
        sentences = max(r.numbers(e.sentences, e.rows), default=-1) + 1
        ends = _ends(r.numbers(e.firsts, sentences), r.numbers(e.lengths, sentences))
        sources = ends if any(o.kind == Kind.ATTEND_PAST for o in every) else None
    if e.places:
        positions = max(r.numbers(e.positions, e.rows), default=-1) + 1 if e.positions else e.seen
        r.reads(e.places, positions * widths[Buffer.STREAM] * _FLOAT)
    for buffer in _buffers(r, e.buffers, widths, e.rows, sources):
        r.writes(*buffer)
    if e.steps:
        r.reads(e.ancestors, e.rows * e.seen * _INT32)
        ancestors = (ctypes.c_int32 * (e.rows * e.seen)).from_address(e.ancestors)
        for number, step in enumerate(r.addresses(e.steps, e.seen * e.layers)):
            rows = max(ancestors[number // e.layers :: e.seen]) + 1
            r.reads(step, rows * widths[Buffer.REMEMBERED + number % e.layers] * r.item)


def _search(r: Reach, address: int) -> None:
    s = r.structures(address, Search, 1)[0]
    last = Operation.from_address(s.operations + (s.count - 1) * ctypes.sizeof(Operation))
    _, widths = _operations(r, s.operations, s.count, last.outer)
    sources = _ends(r.numbers(s.firsts, s.sentences), r.numbers(s.lengths, s.sentences))
    for buffer in _buffers(r, s.buffers, widths, s.sentences * s.beam, sources):
        r.reads(*buffer)  # what it leaves there is nobody's
    r.reads(s.places, s.max_length * widths[Buffer.STREAM] * _FLOAT)
    r.reads(s.penalties, (s.max_length + 1) * _WORD)
    r.reads(s.largest, s.max_length * _WORD)
    hypotheses = s.sentences * s.n_best
    r.writes(s.tokens, hypotheses * s.max_length * _WORD)
    r.writes(s.log_p, hypotheses * s.max_length * _FLOAT)
    r.writes(s.sizes, hypotheses * _WORD)


FUNCTIONS: dict[str, Callable[..., None]] = {
    "drop": _drop, "drop_float_to": _drop_float_to, "add_dropped": _add_dropped, "layer_norm": _layer_norm,
    "layer_norm_backward": _layer_norm_backward, "attend": _attend, "attend_backward": _attend_backward,
    "soften_rows": _soften_rows, "soften_rows_backward": _soften_rows_backward, "exponentiate": _exponentiate,
    "turn": _turn, "r_drop": _r_drop, "clip": _clip, "adam": _adam, "execute": _execute, "rank": _rank,
    "search": _search}
