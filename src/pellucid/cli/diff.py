"""pellucid diff A B"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pellucid.cli.arguments import parse
from pellucid.cli.fields import Positional
from pellucid.language import shortened

_NAME, _VALUE = 36, 28  # characters of a name, and of a value
_TITLES = {"configuration": "keys", "data": "figures", "environment": "entries"}


@dataclass
class Diff:
    """What differs between two runs: the configuration, the data, the environment, the weights part by part, and the
    last and best losses. Whether anything does or not, the exit code is 0."""

    a: Positional[Path]
    """a run folder"""
    b: Positional[Path]
    """another"""
    json: bool = False
    """print the differences as JSON"""


def main(program: str, words: Sequence[str]) -> int:
    """Compares, and prints what differs."""
    arguments = parse(Diff, program, words)
    from pellucid.inspection.difference import difference

    found = difference(arguments.a, arguments.b)
    print(json.dumps(found, ensure_ascii=False) if arguments.json else "\n".join(as_text(found)))
    return 0


def as_text(found: dict[str, Any]) -> Iterator[str]:
    """The differences for people."""
    yield f"a = {found['a']}\nb = {found['b']}\n"
    if found["same"]:
        yield "Nothing differs: configuration, data, environment, weights and losses are the same."
        return
    for section, what in _TITLES.items():
        rows = found[section]
        yield f"{section}: {f'{len(rows)} {what} differ' if len(rows) > 1 else '1 differs' if rows else 'the same'}"
        yield from _table((row["key"], _value(row["a"]), _value(row["b"])) for row in rows)
    yield from _weights(found["weights"])
    yield f"losses: {'the same' if all(row['same'] for row in found['curves']) else 'nats'}"
    yield from _table((row["key"], _loss(row["a"]), _loss(row["b"])) for row in found["curves"])


def _weights(found: dict[str, Any]) -> Iterator[str]:
    if found["a"] is None or found["b"] is None:
        none = [side for side in ("a", "b") if found[side] is None]
        yield f"weights: {' and '.join(none)} {'have' if len(none) > 1 else 'has'} none yet"
        return
    if found["distance"] == 0 and not found["unlike"]:
        yield f"weights: the same ({found['a']} of a, {found['b']} of b)"
        return
    whole = "no part has one shape in both" if found["distance"] is None else f"distance {found['distance']:.4f}"
    yield f"weights: {found['a']} of a, {found['b']} of b: {whole}; 0 is equal, 1 unrelated"
    yield from _table([
        ("part", "parameters", "distance"),
        *((part["part"], f"{part['parameters']:,}", f"{part['distance']:.4f}") for part in found["parts"]),
        *((row["tensor"], _shape(row["a"]), _shape(row["b"])) for row in found["unlike"])])


def _table(rows: Iterable[tuple[str, str, str]]) -> list[str]:
    """Names and two values, in columns that hold the longest name."""
    told = list(rows)
    width = max([_NAME, *(len(name) for name, _, _ in told)])
    return [f"  {name:<{width}} {a:<{_VALUE}} {b}".rstrip() for name, a, b in told]


def _value(value: Any) -> str:
    text = "–" if value is None else str(value).lower() if isinstance(value, bool) else " ".join(str(value).split())
    return shortened(text, _VALUE)


def _shape(shape: list[int] | None) -> str:
    return "not there" if shape is None else " × ".join(map(str, shape))


def _loss(one: dict[str, float] | None) -> str:
    return "–" if one is None else f"{one['loss']:.4f} at {one['step']:,}"
