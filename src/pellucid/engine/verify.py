"""What each operation touches; nothing that comes from a file reaches a kernel before all of it lies where it should.

The kernels (kernels/decoding.cpp) check nothing: a number of an operation is an address, a width or an index to them.
What `Program` writes fits by construction; what a file says is compared with the table here, field by field. It need
not be what any model is. It cannot make a kernel read or write where nothing of the engine is.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from ctypes import Array
from dataclasses import dataclass

from pellucid.engine.layout import ITEM_BYTES, LANES, PANEL, Activation, Buffer, Group, Kind, Norm, Operation

_FLOAT = 4  # bytes


class Misfit(ValueError):
    """An operation would reach beyond what there is; the message says which, and why."""


@dataclass(frozen=True)
class Sizes:
    """What the operations of a stack have to fit.

    Attributes:
        width: D of the model.  layers: of the decoder.  typed: as of a `Stack`.
        blocks: bytes of the weights that begin at each address.
        positions: that a token can have.
        source: how wide a row of the keys and values of the source is, in the decoder; None in the encoder.
    """

    width: int
    layers: int
    typed: str
    blocks: Mapping[int, int]
    positions: int
    source: int | None


Rule = Callable[[Operation, Sizes], bool]
Bytes = Callable[[Operation, Sizes], int]


@dataclass(frozen=True)
class Access:
    """What a kind of operation touches.

    Attributes:
        reads, writes: what buffers `from` and `to` can be, REMEMBERED for any layer's; no `from` where there are none.
        fields: that it looks at beside these, `inner` and `outer`; all others are zero.
        rules: what holds, in words.
        blocks: the bytes that it reads where a pointer leads.
    """

    reads: frozenset[int]
    writes: frozenset[int]
    fields: str
    rules: Mapping[str, Rule]
    blocks: Mapping[str, Bytes]


def _padded(o: Operation, s: Sizes) -> int:
    """Columns of a packed weight."""
    return int(-(-o.outer // PANEL) * PANEL)


def _group(o: Operation, s: Sizes) -> Group:
    return Group.INT8 if o.shift else Group.FP32 if s.typed == "float32" else Group.BF16


def _packed(o: Operation, s: Sizes) -> int:
    """Bytes of a packed weight; its numbers take 4 bytes, 2, or 1, a group of them always 4."""
    return int(_padded(o, s) * o.inner * 4 // _group(o, s))


def _tokens(o: Operation, blocks: Mapping[int, int]) -> int:
    """Rows of an embedding table."""
    return int(blocks.get(o.weight or 0, 0) // (o.outer * _FLOAT))


def _past(o: Operation) -> bool:
    """Whether it writes what later steps remember."""
    return bool(o.to >= Buffer.REMEMBERED)


def _columns(o: Operation) -> int:
    """Of a table by distance."""
    return int(o.span if o.kind == Kind.ATTEND_PAST else 2 * o.span - 1)


_TYPED = frozenset({Buffer.TYPED, Buffer.JOINT, Buffer.ATTENDED, Buffer.GATES, Buffer.INNER})
_STREAM, _BYTES = frozenset({Buffer.STREAM}), frozenset({Buffer.BYTES})

_ROWS: dict[str, Rule] = {
    "a row is as wide as the model": lambda o, s: o.inner == o.outer == s.width}
_PRODUCT: dict[str, Rule] = {
    "there is a weight": lambda o, s: o.weight is not None,
    "bytes have a gain and a shift, and nothing else has": lambda o, s:
        (o.from_ == Buffer.BYTES) == (o.shift is not None) == (o.gain is not None),
    "numbers are multiplied in whole groups": lambda o, s: o.inner > 0 and o.inner % _group(o, s) == 0}
_TURNED: dict[str, Rule] = {
    "heads share the width of the keys, each in whole lanes": lambda o, s:
        o.heads > 0 and o.keys_width > 0 and o.keys_width % (o.heads * LANES) == 0,
    "queries are as wide as keys": lambda o, s: o.keys_width <= o.inner}
_HEADS: dict[str, Rule] = _TURNED | {
    "heads share the width of the values, each in whole lanes": lambda o, s: o.outer % (o.heads * LANES) == 0,
    "a window is open": lambda o, s: o.window >= 0,
    "there are tables for each position, or none": lambda o, s:
        o.span >= s.positions if o.weight or o.bias else o.span == 0}
_BY_DISTANCE: dict[str, Bytes] = {
    "weight": lambda o, s: _columns(o) * o.keys_width * ITEM_BYTES[s.typed],
    "bias": lambda o, s: _columns(o) * o.heads * _FLOAT}
_PRODUCT_BLOCKS: dict[str, Bytes] = {
    "weight": _packed, "bias": lambda o, s: o.outer * _FLOAT, "gain": lambda o, s: _padded(o, s) * _FLOAT,
    "shift": lambda o, s: _padded(o, s) * _FLOAT}

ACCESS: dict[Kind, Access] = {
    Kind.EMBED: Access(
        frozenset(), _STREAM, "weight",
        {"there is a table": lambda o, s: o.weight is not None,
         "a row is as wide as the model": lambda o, s: o.outer == s.width and o.inner == 0},
        {"weight": lambda o, s: max(_tokens(o, s.blocks), 1) * o.outer * _FLOAT}),
    Kind.MULTIPLY: Access(
        _TYPED | _BYTES, _TYPED | {Buffer.SOURCE, Buffer.LOGITS, Buffer.REMEMBERED},
        "weight bias activation gain shift",
        _PRODUCT | {
            "there is such a layer": lambda o, s: not _past(o) or o.to - Buffer.REMEMBERED < s.layers,
            "the encoder writes the source, the decoder logits and what it remembers": lambda o, s:
                o.to != Buffer.SOURCE if s.source is not None else o.to != Buffer.LOGITS and not _past(o)},
        _PRODUCT_BLOCKS),
    Kind.ADD_PRODUCT: Access(
        _TYPED | _BYTES, _STREAM, "weight bias alpha gain shift",
        _PRODUCT | {"a row is as wide as the model": lambda o, s: o.outer == s.width}, _PRODUCT_BLOCKS),
    Kind.NORMALIZE: Access(
        _STREAM, _TYPED, "norm in_place gain bias epsilon", _ROWS,
        {"gain": lambda o, s: o.inner * _FLOAT, "bias": lambda o, s: o.inner * _FLOAT}),
    Kind.GATE: Access(
        _TYPED, _TYPED, "activation",
        {"gates lie beside what they open, in whole lanes": lambda o, s:
            o.inner == 2 * o.outer and o.outer % LANES == 0}, {}),
    Kind.ATTEND_SOURCE: Access(
        _TYPED, _TYPED, "heads keys_width scale window span weight bias keys keys_at keys_stride",
        _HEADS | {
            "keys are of the source in the decoder, of the sentence in the encoder": lambda o, s:
                o.keys == Buffer.SOURCE if s.source is not None else o.keys in _TYPED,
            "only within a sentence there is a distance": lambda o, s: s.source is None or o.window == o.span == 0,
            "keys and values lie in one row": lambda o, s:
                0 <= o.keys_at <= o.keys_stride - o.keys_width - o.outer}, _BY_DISTANCE),
    Kind.ATTEND_PAST: Access(
        _TYPED, _TYPED, "heads keys_width scale window span weight bias layer",
        _HEADS | {"only the decoder has a past, of each layer": lambda o, s:
                  s.source is not None and 0 <= o.layer < s.layers}, _BY_DISTANCE),
    Kind.QUANTIZE: Access(
        _TYPED, _BYTES, "",
        {"bytes are as many, in whole lanes": lambda o, s: o.inner == o.outer and o.inner % LANES == 0}, {}),
    Kind.ROTATE: Access(
        frozenset({Buffer.JOINT, Buffer.REMEMBERED}), frozenset({Buffer.JOINT, Buffer.REMEMBERED}),
        "heads keys_width span weight",
        _TURNED | {"it is turned where it lies": lambda o, s: o.from_ == o.to and o.inner == o.outer,
                   "each position has its turn": lambda o, s: o.weight is not None and 0 < o.span >= s.positions},
        {"weight": lambda o, s: int(o.span * 2 * o.keys_width // o.heads) * _FLOAT}),
}
_CHOICES: dict[str, Sequence[int]] = {"activation": list(Activation), "norm": list(Norm), "in_place": (0, 1)}
_FIELDS = [name for name, *_ in Operation._fields_ if name not in ("kind", "from_", "to", "inner", "outer")]


def check(operations: Array[Operation], sizes: Sizes) -> dict[int, int]:
    """Holds the operations of a stack to the table, in their order: each reads only what one before it has written.

    Returns:
        How wide a row of each buffer that they write must be.

    Raises:
        Misfit: they do not fit.
    """
    if sizes.width <= 0 or sizes.width % LANES or sizes.layers <= 0:
        raise Misfit(f"a model of {sizes.layers} layers, {sizes.width} wide")
    widths: dict[int, int] = {}
    for number, operation in enumerate(operations):
        for rule, holds in _rules(operation, sizes, widths):
            if not holds:
                raise Misfit(f"operation {number}: it is not so that {rule}")
        widths[operation.to] = max(operation.outer, widths.get(operation.to, 0))
        if operation.kind == Kind.QUANTIZE:
            widths[Buffer.SCALES] = 1
    for rule, holds in _rules_of_all(operations, sizes, widths):
        if not holds:
            raise Misfit(f"it is not so that {rule}")
    return widths


def tokens_of(operations: Array[Operation], blocks: Mapping[int, int]) -> int:
    """Tokens that every table among them has a row for."""
    return min(_tokens(o, blocks) for o in operations if o.kind == Kind.EMBED)


def _rules(o: Operation, s: Sizes, widths: Mapping[int, int]) -> Iterator[tuple[str, bool]]:
    """What holds of one operation, and whether; each can only be asked if those before it hold."""
    yield "its kind is known", 0 <= o.kind < len(Kind)
    access = ACCESS[Kind(o.kind)]
    yield "it writes what its kind does", min(o.to, Buffer.REMEMBERED) in access.writes
    yield "it has columns", o.outer > 0
    from_ = min(o.from_, Buffer.REMEMBERED)
    yield "it reads what its kind does", from_ in access.reads if access.reads else not from_
    yield "what it reads has been written", not access.reads or 0 < o.inner <= widths.get(o.from_, 0)
    for name in _FIELDS:
        value = getattr(o, name)
        if name not in access.fields.split():
            yield f"{name} is nothing to its kind", not value
        elif name in _CHOICES:
            yield f"{name} is known", value in _CHOICES[name]
        elif isinstance(value, float):
            yield f"{name} is a finite number", math.isfinite(value)
    for rule, holds in access.rules.items():
        yield rule, holds(o, s)
    if o.kind == Kind.ATTEND_SOURCE:
        yield "keys have been written", o.keys_stride <= (s.source or widths.get(o.keys, 0))
    if o.kind == Kind.ATTEND_PAST:
        yield "what is remembered is keys and values", o.keys_width + o.outer == widths.get(
            Buffer.REMEMBERED + o.layer, 0)
    for pointer, size in access.blocks.items():
        if getattr(o, pointer) is not None:
            yield f"{pointer} leads to as many numbers as are read", s.blocks.get(getattr(o, pointer)) == size(o, s)


def _rules_of_all(operations: Array[Operation], s: Sizes, widths: Mapping[int, int]) -> Iterator[tuple[str, bool]]:
    """What holds of all together."""
    yield "there is a table", any(o.kind == Kind.EMBED for o in operations)
    if s.source is None:
        yield "the source is written", Buffer.SOURCE in widths
        return
    logits = [number for number, o in enumerate(operations) if o.to == Buffer.LOGITS]
    yield "logits come last, and once", logits == [len(operations) - 1]
    yield "each of them has a row in the table", widths[Buffer.LOGITS] <= tokens_of(operations, s.blocks)
    yield "each layer is remembered", all(Buffer.REMEMBERED + layer in widths for layer in range(s.layers))
