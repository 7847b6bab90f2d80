"""A mapping → a frozen dataclass, every key known, every value of its type; and the overrides of a command line.

Only the types that configurations and studies need: bool, int, float, str, Literal, tuples, unions with None,
dataclasses, and mappings, which are taken as they stand.
"""

import dataclasses
import difflib
import functools
import sys
import types
import typing
from typing import Any, Literal, get_args, get_origin

from pellucid.errors import ConfigError, guess

_NAMES = {int: "a whole number", float: "a number", bool: "true or false", str: "text", dict: "a mapping",
          tuple: "a list"}
_SHOWN = 200  # characters of what was given that are told
_LARGEST = sys.float_info.max

hints_of = functools.cache(typing.get_type_hints)  # which compiles each hint: most of reading a configuration


def read_dataclass(kind: Any, mapping: Any, where: str = "") -> Any:
    """An instance of the dataclass `kind` from `mapping`; keys left out keep their defaults.

    Raises:
        ConfigError: an unknown key (the nearest valid one is named), one that is missing, or a value of a wrong type.
    """
    if not isinstance(mapping, dict):
        raise ConfigError(f"{where or 'the configuration'} must be a mapping of keys to values, not {_show(mapping)}",
                          where=where)
    hints = hints_of(kind)
    names = {key_of(f.name): f.name for f in dataclasses.fields(kind)}
    values = {}
    for key, value in mapping.items():
        place = f"{where}.{key}" if where else str(key)
        if key not in names:
            raise unknown_key(place, [f"{where}.{name}" if where else name for name in names])
        values[names[key]] = _read(hints[names[key]], value, place)
    for field in dataclasses.fields(kind):
        if field.name not in values and field.default is field.default_factory is dataclasses.MISSING:
            place = f"{where}.{field.name}" if where else field.name
            raise ConfigError(f"{place} is missing", where=place)
    try:
        return kind(**values)
    except ValueError as error:
        raise ConfigError(f"{where}: {error}", where=where) from error


def key_of(field: str) -> str:
    """The key of a field; one that is a word of Python's own has an underscore behind it."""
    return field.removesuffix("_")


def unknown_key(key: str, known: list[str]) -> ConfigError:
    """The error for a key that does not exist, naming the nearest one in `known`, or all of them in its section."""
    key = _short(key)
    section, _, name = key.rpartition(".")
    last = {each: each.rpartition(".")[2] for each in known}
    beside = [each for each in known if each.rpartition(".")[0] == section]
    namesakes = [each for each in known if last[each] == name]
    near = difflib.get_close_matches(key, namesakes, n=1, cutoff=0) or _nearest(
        name, {each: last[each] for each in beside})
    if not near and not beside:
        near = difflib.get_close_matches(key, known, n=1, cutoff=0.5) or _nearest(name, last)
    fix = f"did you mean {near[0]}?" if near else f"the keys here are {', '.join(last[e] for e in beside or known)}"
    return ConfigError(f"unknown key {key}", where=key, fix=fix)


def _nearest(name: str, last: dict[str, str]) -> list[str]:
    """The key whose last name is nearest to this one, if any is near."""
    wanted = difflib.get_close_matches(name, last.values(), n=1, cutoff=0.5)
    return [key for key in last if last[key] in wanted][:1]


def _show(value: Any) -> str:
    return f"{_short(repr(value))} ({type(value).__name__})"


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"


def _read(kind: Any, value: Any, where: str) -> Any:
    if isinstance(value, str) and (half := next((c for c in value if "\ud800" <= c <= "\udfff"), "")):
        raise ConfigError(f"{where} is not valid UTF-8", where=where, why=f"{value!r:.{_SHOWN}} has the byte "
                          f"0x{ord(half) & 0xFF:02x}, and the run's config.yaml could not be read",
                          fix="write it in UTF-8; a file needs another name")
    origin = get_origin(kind)
    if origin in (typing.Union, types.UnionType):
        return _read_union(get_args(kind), value, where)
    if origin is Literal:
        if value not in get_args(kind):
            choices = [str(choice) for choice in get_args(kind)]
            raise ConfigError(f"{where} is {_short(repr(value))}, which is none of its choices", where=where,
                              fix=f"{guess(_short(str(value)), choices)}choose {', '.join(choices)}")
        return value
    if origin is tuple:
        return _read_tuple(get_args(kind), value, where)
    if dataclasses.is_dataclass(kind):
        return read_dataclass(kind, _as_split(kind, value), where)
    return _read_scalar(dict if origin is dict else kind, value, where)


def _as_split(kind: Any, value: Any) -> Any:
    """A bare string stands for {path: string} where the dataclass has a path, a list for {mixture: list} likewise."""
    key = "path" if isinstance(value, str) else "mixture" if isinstance(value, list) and value else None
    return {key: value} if any(f.name == key for f in dataclasses.fields(kind)) else value


def _read_union(members: tuple[Any, ...], value: Any, where: str) -> Any:
    if value is None and type(None) in members:
        return None
    rest = [member for member in members if member is not type(None)]
    if len(rest) == 1:
        return _read(rest[0], value, where)
    for member in rest:
        if type(value) is member:
            return value
        if get_origin(member) is tuple and isinstance(value, list):
            return _read_tuple(get_args(member), value, where)
    raise _wrong_type(where, value, " or ".join(_NAMES[get_origin(member) or member] for member in rest))


def _read_tuple(members: tuple[Any, ...], value: Any, where: str) -> tuple[Any, ...]:
    if not isinstance(value, list | tuple):
        raise _wrong_type(where, value, "a list")
    if members[-1] is Ellipsis:
        return tuple(_read(members[0], item, f"{where}[{i}]") for i, item in enumerate(value))
    if len(value) != len(members):
        raise _wrong_type(where, value, f"a list of {len(members)}")
    return tuple(_read(kind, item, f"{where}[{i}]") for i, (kind, item) in enumerate(zip(members, value, strict=True)))


def _read_scalar(kind: Any, value: Any, where: str) -> Any:
    if kind is float and type(value) in (int, float):
        if not -_LARGEST <= value <= _LARGEST:
            raise ConfigError(f"{where} is {_short(str(value))}, not a finite number", where=where)
        return float(value)
    if kind is float and isinstance(value, str):  # YAML 1.1 reads 1e-9 as text
        try:
            return _read_scalar(float, float(value), where)
        except ValueError as error:
            raise _wrong_type(where, value, "a number") from error
    if type(value) is kind:
        return value
    raise _wrong_type(where, value, _NAMES[kind])


def _wrong_type(where: str, value: Any, wanted: str) -> ConfigError:
    return ConfigError(f"{where} must be {wanted}, not {_show(value)}", where=where)


def merge(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """`base` with `over` laid on top, section by section; a value that is no mapping replaces what was there."""
    merged = dict(base)
    for key, value in over.items():
        both = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = merge(merged[key], value) if both else value
    return merged


def nest(dotted: str, value: Any) -> dict[str, Any]:
    """``nest("a.b", 1)`` is ``{"a": {"b": 1}}``."""
    for name in reversed(dotted.split(".")):
        value = {name: value}
    assert isinstance(value, dict)
    return value
