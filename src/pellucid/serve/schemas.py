"""A dataclass → its JSON Schema (draft 2020-12): types from its annotations, words from its docstring."""

from __future__ import annotations

import dataclasses
import inspect
import math
import re
import types
import typing
from collections.abc import Mapping
from typing import Any, Literal, get_args, get_origin

Schema = dict[str, Any]
Bounds = Mapping[str, tuple[float, float]]

_SCALARS = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}
_SECTION = re.compile(r"^(?:Attributes|Args):$", re.MULTILINE)
_ENTRY = re.compile(r"(?:^ {4}|(?<=\S) {2})(\w+(?:, \w+)*): ", re.MULTILINE)


class Schemas:
    """The schemas of dataclasses by their names, each made once.

    Attributes:
        components: those that were asked for, and those that they are made of.
    """

    def __init__(self) -> None:
        self.components: dict[str, Schema] = {}

    def read(self, kind: type) -> Schema:
        """A reference to what requests are read into, strictly: what has a default may be left out."""
        return self._add(kind, f"{kind.__name__}Request", _needed(kind))

    def described(self, kind: type) -> Schema:
        """A reference to what may have other keys as well, and where what has a default may be left out."""
        reference = self._add(kind, kind.__name__, _needed(kind))
        self.components[kind.__name__].pop("additionalProperties", None)
        return reference

    def told(self, kind: type) -> Schema:
        """A reference to what is answered, which always has all of its keys."""
        return self._add(kind, kind.__name__, [each.name for each in dataclasses.fields(kind)])

    def given(self, kind: type, name: str, bounds: Bounds, words: Mapping[str, str]) -> Schema:
        """A reference to what may be given in place of something else: any of its keys, within bounds."""
        if name not in self.components:
            self._add(kind, name, [])
            for key, schema in self.components[name]["properties"].items():
                schema.update(_within(bounds[key], schema["type"] == "integer") if key in bounds else {})
                schema.update({"description": words[key]} if key in words else {})
        return _reference(name)

    def _add(self, kind: type, name: str, required: list[str]) -> Schema:
        if name not in self.components:
            self.components[name] = {}  # it may be made of others of its own kind
            about, words = read_docstring(kind)
            hints = typing.get_type_hints(kind)
            properties = {}
            for each in dataclasses.fields(kind):
                properties[each.name] = self._of(hints[each.name])
                if each.name in words:
                    properties[each.name]["description"] = words[each.name]
            self.components[name] = {"type": "object", "description": about, "properties": properties,
                                     "required": required, "additionalProperties": False}
        return _reference(name)

    def _of(self, kind: Any) -> Schema:
        origin, members = get_origin(kind), get_args(kind)
        if dataclasses.is_dataclass(kind):
            assert isinstance(kind, type)
            return self.told(kind)
        if origin in (typing.Union, types.UnionType):
            return _either([self._of(member) for member in members])
        if origin is Literal:
            return {"type": "string", "enum": list(members)}
        if origin is list or (origin is tuple and members[-1] is Ellipsis):
            return {"type": "array", "items": self._of(members[0])}
        if origin is tuple:
            return {"type": "array", "prefixItems": [self._of(member) for member in members],
                    "minItems": len(members), "maxItems": len(members)}
        if origin is dict:
            return {"type": "object"} if members[1] is Any else {
                "type": "object", "additionalProperties": self._of(members[1])}
        return {"type": _SCALARS[kind]}


def _needed(kind: type) -> list[str]:
    return [each.name for each in dataclasses.fields(kind)
            if each.default is each.default_factory is dataclasses.MISSING]


def _reference(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def _either(schemas: list[Schema]) -> Schema:
    """One of them; a scalar or nothing in the short way."""
    if all(schema.keys() == {"type"} for schema in schemas):
        return {"type": [schema["type"] for schema in schemas]}
    return {"anyOf": schemas}


def _within(bounds: tuple[float, float], is_whole: bool) -> Schema:
    """From the first to the second; a smallest number above another is told as the other, left out."""
    low, high = bounds
    known: Schema = {"exclusiveMinimum": 0} if low == math.ulp(0.0) else {"minimum": low}
    if high != math.inf:
        known["maximum"] = int(high) if is_whole else high
    return known


def read_docstring(kind: type) -> tuple[str, dict[str, str]]:
    """What a dataclass is, and what each of its fields is, as its docstring and those of what it is made from say."""
    known, words = {each.name for each in dataclasses.fields(kind)}, dict[str, str]()
    for base in kind.__mro__[-2::-1]:
        _, *rest = _SECTION.split(inspect.getdoc(base) or "", maxsplit=1)
        text = rest[0].partition("\n\n")[0].replace("None", "null") if rest else ""
        found = [match for match in _ENTRY.finditer(text) if known.issuperset(match[1].split(", "))]
        ends = [*(match.start() for match in found), len(text)][1:]
        words |= {name: " ".join(text[match.end() : end].split())
                  for match, end in zip(found, ends, strict=True) for name in match[1].split(", ")}
    return " ".join(_SECTION.split(inspect.getdoc(kind) or "", maxsplit=1)[0].split()), words
