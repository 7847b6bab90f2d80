"""Every number that a kernel would use as an address, a width or an index is held against what there is."""

from __future__ import annotations

import ctypes
import math
import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

import pellucid.kernels
from pellucid.config import ModelConfig
from pellucid.engine.engine import Engine
from pellucid.engine.frozen import Stack, at
from pellucid.engine.layout import Activation, Buffer, Kind, Norm, Operation
from pellucid.engine.verify import ACCESS, Misfit, Sizes, check, tokens_of
from pellucid.model.build import build

pytestmark = pytest.mark.usefixtures("compiled_kernels")

D, V, F, LAYERS, LONGEST = 64, 40, 96, 2, 24
PRECISIONS = ("fp32", "bf16", "int8")
PARTS: list[dict[str, Any]] = [
    {}, {"position": "learned", "residual": "post", "feed_forward": "swiglu"},
    {"norm": "rmsnorm", "feed_forward": "geglu"}, {"norm": "stdnorm", "residual": "none", "tie_embeddings": False},
    {"residual": "deepnorm", "norm": "none"}, {"position": "rotary", "d_key": 18, "attention": "window", "window": 3},
    {"position": "t5", "d_key": 48}, {"position": "alibi"}, {"position": "quadratic"},
    {"position": "transformer_xl"},
    {"embedding_norm": True, "output_bias": True, "biases": False}]


@cache
def stacks(precision: str, part: int) -> tuple[Stack, Stack]:
    torch.manual_seed(1)
    config = ModelConfig(d_model=D, n_heads=2, d_ff=F, encoder_layers=1, decoder_layers=LAYERS, max_length=LONGEST,
                         **PARTS[part])
    engine = Engine(build(config, V, V, shared=True).eval(), precision)
    return engine.encoder.stack(LONGEST), engine.decoder.stack(LONGEST)


def sizes_of(stack: Stack, source: int | None) -> Sizes:
    return Sizes(D, LAYERS, stack.typed, {at(block): block.nbytes for block in stack.weights}, LONGEST, source)


def copied(stack: Stack) -> ctypes.Array[Operation]:
    return type(stack.operations)(*stack.operations)


def first_of(kind: Kind, operations: ctypes.Array[Operation]) -> Operation:
    return next(operation for operation in operations if operation.kind == kind)


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("part", range(len(PARTS)))
def test_every_engine_fits_and_each_of_its_blocks_is_as_long_as_what_is_read(precision: str, part: int) -> None:
    encoder, decoder = stacks(precision, part)
    assert check(encoder.operations, sizes_of(encoder, None)) == dict(encoder.widths)
    sizes = sizes_of(decoder, encoder.widths[Buffer.SOURCE])
    assert check(decoder.operations, sizes) == dict(decoder.widths)
    assert encoder.vocabulary == decoder.vocabulary == tokens_of(decoder.operations, sizes.blocks) == V
    for stack, of_stack in ((encoder, sizes_of(encoder, None)), (decoder, sizes)):
        pointers = {getattr(o, name) for o in stack.operations for name in Operation.POINTERS} - {None}
        assert pointers == of_stack.blocks.keys()
        for address, size in of_stack.blocks.items():
            for wrong in (size - 1, size + 1, 0):
                with pytest.raises(Misfit):
                    check(stack.operations, replace(of_stack, blocks={**of_stack.blocks, address: wrong}))


def test_the_table_is_the_one_of_the_kernels() -> None:
    """decoding.h lists the fields that each kind reads."""
    header = Path(pellucid.kernels.__file__).with_name("decoding.h").read_text(encoding="utf-8")
    fields = {name for name, *_ in Operation._fields_} - {"kind", "from_", "to", "inner", "outer"}
    listed = {kind: fields & set(re.findall(r"\w+", reads))
              for kind, reads in re.findall(r"^// {5}([A-Z_]+) +(.*)$", header, re.MULTILINE)}
    assert {kind.name: set(access.fields.split()) for kind, access in ACCESS.items()} == listed
    assert all(set(access.blocks) == set(access.fields.split()) & set(Operation.POINTERS) for access in ACCESS.values())


FAR = [-(2**63), -1, 2**20, 2**40, 2**63 - 1]
CHANGES: dict[tuple[Kind, str], list[Any]] = {
    (Kind.EMBED, "kind"): [-1, len(Kind), 2**62], (Kind.EMBED, "weight"): [None, 1, 2**63],
    (Kind.EMBED, "outer"): [0, 16, 2 * D, *FAR], (Kind.EMBED, "to"): [Buffer.TYPED, Buffer.SOURCE, 99, *FAR],
    (Kind.EMBED, "heads"): [1, 2**62],  # room is made for the most heads of any operation
    (Kind.MULTIPLY, "from_"): [Buffer.STREAM, Buffer.SOURCE, Buffer.LOGITS, Buffer.GATES, Buffer.REMEMBERED, *FAR],
    (Kind.MULTIPLY, "inner"): [0, 1, D // 2, 2 * D, *FAR], (Kind.MULTIPLY, "outer"): [0, *FAR],
    (Kind.MULTIPLY, "to"): [Buffer.STREAM, Buffer.SOURCE, Buffer.LOGITS, Buffer.BYTES, Buffer.SCALES, 99, *FAR],
    (Kind.MULTIPLY, "weight"): [None, 1], (Kind.MULTIPLY, "bias"): [1],
    (Kind.MULTIPLY, "activation"): [-1, len(Activation)],
    (Kind.ADD_PRODUCT, "to"): [Buffer.TYPED, Buffer.LOGITS, Buffer.SCALES, Buffer.REMEMBERED, *FAR],
    (Kind.ADD_PRODUCT, "alpha"): [math.nan, math.inf], (Kind.ADD_PRODUCT, "outer"): [16, 2 * D, *FAR],
    (Kind.NORMALIZE, "from_"): [Buffer.TYPED, Buffer.JOINT, *FAR], (Kind.NORMALIZE, "inner"): [0, 16, 2 * D, *FAR],
    (Kind.NORMALIZE, "to"): [Buffer.STREAM, Buffer.LOGITS, *FAR], (Kind.NORMALIZE, "norm"): [-1, len(Norm)],
    (Kind.NORMALIZE, "in_place"): [2, -1], (Kind.NORMALIZE, "epsilon"): [math.nan, -math.inf],
    (Kind.NORMALIZE, "gain"): [1], (Kind.NORMALIZE, "bias"): [1],
    (Kind.ATTEND_SOURCE, "heads"): [0, 3, 8, D, *FAR],
    (Kind.ATTEND_SOURCE, "keys_width"): [0, 16, D + 16, 2 * D, *FAR], (Kind.ATTEND_SOURCE, "window"): [1, *FAR],
    (Kind.ATTEND_SOURCE, "span"): [1, 64, *FAR], (Kind.ATTEND_SOURCE, "weight"): [1],
    (Kind.ATTEND_SOURCE, "bias"): [1], (Kind.ATTEND_SOURCE, "scale"): [math.nan, math.inf],
    (Kind.ATTEND_SOURCE, "keys"): [Buffer.STREAM, Buffer.JOINT, Buffer.LOGITS, Buffer.REMEMBERED, *FAR],
    (Kind.ATTEND_SOURCE, "keys_at"): [2 * D * LAYERS, 2 * D * LAYERS - D, *FAR],
    (Kind.ATTEND_SOURCE, "keys_stride"): [0, D, 2 * D * LAYERS + 16, *FAR],
    (Kind.ATTEND_SOURCE, "inner"): [0, D - 16, 4 * D, *FAR], (Kind.ATTEND_SOURCE, "outer"): [16, 4 * D, *FAR],
    (Kind.ATTEND_PAST, "layer"): [LAYERS, *FAR], (Kind.ATTEND_PAST, "heads"): [0, 3, 8, *FAR],
    (Kind.ATTEND_PAST, "keys_width"): [0, 32, D + 16, 2 * D, *FAR], (Kind.ATTEND_PAST, "window"): [-1, -(2**63)],
    (Kind.ATTEND_PAST, "outer"): [16, 2 * D, *FAR], (Kind.ATTEND_PAST, "inner"): [0, 16, 4 * D, *FAR],
}


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize(("kind", "field"), CHANGES, ids=lambda each: getattr(each, "name", each))
def test_no_number_of_an_operation_reaches_beyond_what_there_is(kind: Kind, field: str, precision: str) -> None:
    encoder, decoder = stacks(precision, 0)
    sizes = sizes_of(decoder, encoder.widths[Buffer.SOURCE])
    for value in CHANGES[kind, field]:
        operations = copied(decoder)
        setattr(first_of(kind, operations), field, value)
        with pytest.raises(Misfit):
            check(operations, sizes)


@pytest.mark.parametrize(("kind", "field", "values"), [
    (Kind.QUANTIZE, "inner", [0, 16, 2 * D, *FAR]), (Kind.QUANTIZE, "outer", [16, *FAR]),
    (Kind.QUANTIZE, "to", [Buffer.TYPED, Buffer.SCALES, *FAR]), (Kind.QUANTIZE, "from_", [Buffer.STREAM, *FAR]),
    (Kind.MULTIPLY, "gain", [None, 1]), (Kind.MULTIPLY, "shift", [None, 1]),
    (Kind.MULTIPLY, "from_", [Buffer.TYPED]),  # its numbers would be read as bytes
    (Kind.GATE, "inner", [0, F, 4 * F, *FAR]), (Kind.GATE, "outer", [0, 2 * F, *FAR]),
    (Kind.GATE, "from_", [Buffer.BYTES, Buffer.STREAM, *FAR])])
def test_nor_one_of_bytes_and_gates(kind: Kind, field: str, values: list[Any]) -> None:
    encoder, decoder = stacks("int8", 1)
    for value in values:
        operations = copied(decoder)
        setattr(first_of(kind, operations), field, value)
        with pytest.raises(Misfit):
            check(operations, sizes_of(decoder, encoder.widths[Buffer.SOURCE]))


@pytest.mark.parametrize(("part", "kind", "field", "values"), [
    (5, Kind.ROTATE, "heads", [0, 1, 3, 4, *FAR]), (5, Kind.ROTATE, "keys_width", [0, 32, 96, 128, *FAR]),
    (5, Kind.ROTATE, "span", [0, 1, LONGEST, 63, 65, *FAR]), (5, Kind.ROTATE, "weight", [None, 1]),
    (5, Kind.ROTATE, "to", [Buffer.TYPED, Buffer.LOGITS, Buffer.REMEMBERED + 1, *FAR]),
    (5, Kind.ROTATE, "from_", [Buffer.TYPED, Buffer.JOINT, *FAR]), (5, Kind.ROTATE, "outer", [0, 64, 256, *FAR]),
    (5, Kind.ATTEND_PAST, "window", [-1, -(2**63)]), (6, Kind.ATTEND_PAST, "keys_width", [64, 80, *FAR]),
    (6, Kind.ATTEND_PAST, "outer", [32, 96, *FAR]), (6, Kind.ATTEND_PAST, "bias", [None, 1]),
    (7, Kind.ATTEND_PAST, "span", [0, 1, LONGEST, 63, 65, *FAR]), (7, Kind.ATTEND_PAST, "bias", [None, 1]),
    (8, Kind.ATTEND_PAST, "span", [0, 1, LONGEST, 63, 65, *FAR]), (8, Kind.ATTEND_PAST, "weight", [1])])
def test_nor_one_of_positions(part: int, kind: Kind, field: str, values: list[Any]) -> None:
    encoder, decoder = stacks("bf16", part)
    for value in values:
        operations = copied(decoder)
        setattr(first_of(kind, operations), field, value)
        with pytest.raises(Misfit):
            check(operations, sizes_of(decoder, encoder.widths[Buffer.SOURCE]))


@pytest.mark.parametrize("part", [5, 6, 7, 8])
def test_tables_reach_as_far_as_there_are_positions(part: int) -> None:
    encoder, decoder = stacks("fp32", part)
    for stack, source in ((encoder, None), (decoder, encoder.widths[Buffer.SOURCE])):
        check(stack.operations, replace(sizes_of(stack, source), positions=64))
        with pytest.raises(Misfit, match="position"):
            check(stack.operations, replace(sizes_of(stack, source), positions=65))


@pytest.mark.parametrize(("precision", "part", "kind", "fields", "reason"), [
    ("bf16", 0, Kind.MULTIPLY, {"inner": D - 1}, "whole groups"),
    ("bf16", 0, Kind.ADD_PRODUCT, {"inner": D - 1}, "whole groups"),
    ("bf16", 0, Kind.ADD_PRODUCT, {"outer": 2 * D}, "as wide as the model"),
    ("bf16", 0, Kind.ADD_PRODUCT, {"weight": None}, "there is a weight"),
    ("int8", 0, Kind.ADD_PRODUCT, {"gain": None}, "a gain and a shift"),
    ("int8", 0, Kind.ADD_PRODUCT, {"shift": None}, "a gain and a shift"),
    ("int8", 0, Kind.MULTIPLY, {"shift": None}, "a gain and a shift"),
    ("bf16", 1, Kind.GATE, {"inner": 48, "outer": 24}, "whole lanes")])
def test_blocks_as_long_as_is_read_make_no_operation_fit(precision: str, part: int, kind: Kind, fields: dict[str, Any],
                                                         reason: str) -> None:
    """Who writes a file chooses both: the numbers of an operation, and how long its weights are."""
    encoder, decoder = stacks(precision, part)
    sizes, operations = sizes_of(decoder, encoder.widths[Buffer.SOURCE]), copied(decoder)
    operation = first_of(kind, operations)
    for name, value in fields.items():
        setattr(operation, name, value)
    fitting = {getattr(operation, name): size(operation, sizes) for name, size in ACCESS[kind].blocks.items()}
    with pytest.raises(Misfit, match=reason):
        check(operations, replace(sizes, blocks=sizes.blocks | fitting))


def test_nothing_is_remembered_of_a_layer_that_is_not_there() -> None:
    """It would be written behind what there is room for; all layers that are there are written as well."""
    encoder, decoder = stacks("fp32", 0)
    every = list(decoder.operations)
    beyond = Operation.from_buffer_copy(next(o for o in every if o.to == Buffer.REMEMBERED))
    beyond.to = Buffer.REMEMBERED + LAYERS
    place = next(number for number, o in enumerate(every) if o.to == Buffer.REMEMBERED)
    operations = [*every[:place], beyond, *every[place:]]
    with pytest.raises(Misfit, match="there is such a layer"):
        check((Operation * len(operations))(*operations), sizes_of(decoder, encoder.widths[Buffer.SOURCE]))


@pytest.mark.parametrize(("part", "kind", "field", "value"), [
    (0, Kind.EMBED, "weight", None), (5, Kind.ATTEND_SOURCE, "window", -1)])
def test_nor_is_a_number_of_the_encoder_further_than_what_there_is(part: int, kind: Kind, field: str,
                                                                   value: int | None) -> None:
    encoder, _ = stacks("fp32", part)
    operations = copied(encoder)
    setattr(first_of(kind, operations), field, value)
    with pytest.raises(Misfit):
        check(operations, sizes_of(encoder, None))


def test_the_encoder_has_neither_a_past_nor_another_source() -> None:
    encoder, decoder = stacks("fp32", 0)
    for kind, field, value in [(Kind.MULTIPLY, "to", Buffer.REMEMBERED), (Kind.MULTIPLY, "to", Buffer.LOGITS),
                               (Kind.ATTEND_SOURCE, "keys", Buffer.SOURCE)]:
        operations = copied(encoder)
        setattr(first_of(kind, operations), field, value)
        with pytest.raises(Misfit):
            check(operations, sizes_of(encoder, None))
    with pytest.raises(Misfit, match="the decoder logits"):
        check(decoder.operations, sizes_of(decoder, None))


def test_nothing_is_read_before_it_is_written_and_all_that_is_needed_is_there() -> None:
    encoder, decoder = stacks("fp32", 0)
    sizes = sizes_of(decoder, encoder.widths[Buffer.SOURCE])

    def misfit(reason: str, operations: list[Operation], of_all: Sizes = sizes) -> None:
        with pytest.raises(Misfit, match=reason):
            check((Operation * len(operations))(*operations), of_all)

    every = list(decoder.operations)
    misfit("has been written", every[1:])
    misfit("logits come last", every[:-1])
    misfit("logits come last", [*every, every[1]])
    misfit("logits come last", [*every[:-1], every[-1], every[-1]])
    misfit("a table", [])
    misfit("keys and values", [o for o in every if o.to != Buffer.REMEMBERED + 1])
    misfit("source is written", [o for o in encoder.operations if o.to != Buffer.SOURCE], sizes_of(encoder, None))
    misfit("3 layers|each layer", every, replace(sizes, layers=3))
    misfit("a model of 0 layers", every, replace(sizes, layers=0))
    misfit("a model of", every, replace(sizes, width=D + 1))
    misfit("as wide as the model", every, replace(sizes, width=2 * D))
    misfit("keys have been written", every, replace(sizes, source=2 * D))


def test_every_token_that_can_be_chosen_has_a_row_in_the_table() -> None:
    encoder, decoder = stacks("fp32", 3)  # whose table is no output
    table = first_of(Kind.EMBED, decoder.operations).weight
    sizes = sizes_of(decoder, encoder.widths[Buffer.SOURCE])
    check(decoder.operations, replace(sizes, blocks={**sizes.blocks, table: (V + 1) * D * 4}))
    with pytest.raises(Misfit, match="a row in the table"):
        check(decoder.operations, replace(sizes, blocks={**sizes.blocks, table: (V - 1) * D * 4}))
