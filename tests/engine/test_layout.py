"""What is written twice, in C++ and in Python, is the same: names, order, numbers, widths."""

from __future__ import annotations

import ctypes
import importlib
import pkgutil
import re
from collections.abc import Iterator
from enum import IntEnum
from pathlib import Path
from types import ModuleType

import pytest

import pellucid.kernels
from pellucid.config import ModelConfig
from pellucid.engine import layout
from pellucid.engine.engine import Engine
from pellucid.model.build import build

FOLDER = Path(pellucid.kernels.__file__).parent
CODE = "".join(re.sub(r"//.*", "", path.read_text(encoding="utf-8")) for path in sorted(FOLDER.glob("*.[ch]*"))
               if path.suffix in (".h", ".cpp"))
TYPES = {"i64": ctypes.c_int64, "float": ctypes.c_float}  # others are pointers


def modules() -> Iterator[ModuleType]:
    yield layout
    yield from (importlib.import_module(f"pellucid.kernels.{each.name}")
                for each in pkgutil.iter_modules(pellucid.kernels.__path__)
                if each.name != "triton_attention")  # which hands no structure to C++, and needs triton


ENUMS = {name: kind for name, kind in vars(layout).items()
         if isinstance(kind, type) and issubclass(kind, IntEnum) and kind is not IntEnum}
STRUCTURES = {name: kind for module in modules() for name, kind in vars(module).items()
              if isinstance(kind, type) and issubclass(kind, ctypes.Structure) and kind is not ctypes.Structure}


def enums(code: str) -> dict[str, list[tuple[str, int]]]:
    """The members of every enum that has a name."""
    found: dict[str, list[tuple[str, int]]] = {}
    for name, body in re.findall(r"\benum (?:class )?(\w+) \{([^}]*)\}", code):
        found[name] = []
        for member, value in re.findall(r"(\w+)(?:\s*=\s*(\d+))?", body):
            before = found[name][-1][1] if found[name] else -1
            found[name].append((member, int(value) if value else before + 1))
    return found


def fields(code: str, name: str) -> list[tuple[str, type]]:
    """The fields of a struct, `from` with the underscore that Python wants."""
    body = re.search(rf"\bstruct {name} \{{(.*?)\n\}};", code, re.DOTALL)
    assert body, f"C++ has no struct {name}"
    found = []
    for declaration in filter(None, map(str.strip, body[1].split(";"))):
        kind, names = re.fullmatch(r"(?:const )?(\w+) (.*)", declaration, re.DOTALL).groups()
        for each in re.split(r",\s*", names):
            word = each.strip("* ")
            found.append((word + "_" * (word == "from"), ctypes.c_void_p if "*" in each else TYPES[kind]))
    return found


def test_every_enum_has_the_same_names_and_numbers() -> None:
    assert enums(CODE) == {name: [(each.name, each.value) for each in kind] for name, kind in ENUMS.items()}
    assert set(ENUMS) == {"Kind", "Activation", "Norm", "Buffer", "Group"}


def test_no_enum_of_cpp_is_without_a_name() -> None:
    assert len(re.findall(r"\benum\b", CODE)) == len(enums(CODE))


@pytest.mark.parametrize("name", STRUCTURES)
def test_every_structure_has_the_same_fields(name: str) -> None:
    assert fields(CODE, name) == [tuple(field) for field in STRUCTURES[name]._fields_]


def test_the_structures_are_these() -> None:
    assert set(STRUCTURES) == {"Operation", "Execution", "Search", "Heads", "Sizes"}


@pytest.mark.parametrize("name", ["PANEL", "APART"])
def test_every_size_is_the_same(name: str) -> None:
    assert re.findall(rf"\b{name} = (\d+)", CODE) == [str(getattr(layout, name))]


def test_the_same_rows_lie_apart() -> None:
    there, = re.findall(r"return (buffer == .*) \? width \+ APART : width;", CODE)
    assert set(re.findall(r"buffer == (\w+)", there)) == {
        buffer.name for buffer in layout.Buffer if buffer.stride(32) == 32 + layout.APART}
    assert {buffer.stride(32) for buffer in layout.Buffer} == {32, 32 + layout.APART}


@pytest.mark.parametrize(("before", "after"), [
    ("EMBED, MULTIPLY", "MULTIPLY, EMBED"), ("BYTES, SCALES", "BYTES, OTHER, SCALES"), ("STD_NORM", "SAMPLE_NORM"),
    ("INT8 = 4", "INT8 = 8"), ("LINEAR, RELU", "LINEAR = 1, RELU")])
def test_an_enum_that_is_changed_on_one_side_is_noticed(before: str, after: str) -> None:
    assert before in CODE
    assert enums(CODE.replace(before, after)) != enums(CODE)


@pytest.mark.parametrize(("name", "before", "after"), [
    ("Operation", "i64 layer;", ""), ("Operation", "float alpha, scale", "float scale, alpha"),
    ("Operation", "*gain, *bias", "*bias, *gain"), ("Execution", "i64 rows, seen", "i64 seen, rows"),
    ("Search", "i64 *sizes", "i64 sizes"), ("Heads", "i64 batch, head", "float batch, head"),
    ("Sizes", "i64 causal", "i64 is_causal")])
def test_a_structure_that_is_changed_on_one_side_is_noticed(name: str, before: str, after: str) -> None:
    assert before in CODE
    assert fields(CODE.replace(before, after), name) != fields(CODE, name)


NAMES = {name for name, *_ in layout.Operation._fields_} - {"kind", "from_", "to", "inner", "outer"}
LISTED = {kind: NAMES & set(re.findall(r"\w+", reads)) for kind, reads in re.findall(
    r"^// {5}([A-Z_]+) +(.*)$", (FOLDER / "decoding.h").read_text(encoding="utf-8"), re.MULTILINE)}


def test_what_each_operation_reads_is_listed() -> None:
    assert list(LISTED) == [kind.name for kind in layout.Kind]
    assert set().union(*LISTED.values()) == NAMES


@pytest.mark.usefixtures("compiled_kernels")
@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_no_operation_is_given_more_than_it_reads(precision: str) -> None:
    for parts in ({}, {"residual": "deepnorm", "feed_forward": "swiglu"}, {"residual": "none", "norm": "stdnorm"},
                  {"position": "rotary", "attention": "window"}, {"position": "transformer_xl"}):
        config = ModelConfig(d_model=32, n_heads=2, d_ff=96, encoder_layers=2, decoder_layers=2, **parts)
        engine = Engine(build(config, 9, 9, shared=True).eval(), precision)
        for operation in (*engine.encoder.stack(9).operations, *engine.decoder.stack(9).operations):
            kind = layout.Kind(operation.kind).name
            assert {name for name in NAMES if getattr(operation, name)} <= LISTED[kind], kind
