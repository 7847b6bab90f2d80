"""pellucid diff A B"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pellucid.cli.arguments import parse
from pellucid.cli.fields import Positional
from pellucid.cli.passages import plain
from pellucid.language import as_written, columns, padded, shortened

_NAME, _VALUE = 36, 28  # columns of a name, and characters of a value
_BEFORE = 8  # characters of what two long values share, before they part
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
        yield from _table((row["key"], *_values(row["a"], row["b"])) for row in rows)
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
    """Names and two values, in columns that hold the longest name and value."""
    told = [tuple(map(plain, row)) for row in rows]
    names, values = (max([least, *(columns(row[i]) for row in told)]) for i, least in enumerate((_NAME, _VALUE)))
    return [f"  {padded(name, names)} {padded(a, values)} {b}".rstrip() for name, a, b in told]


def _values(a: Any, b: Any) -> tuple[str, str]:
    """Two that differ, shortened so that they do; long ones that begin alike are told from shortly before they part."""
    texts = _text(a), _text(b)
    one, other = (shortened(text, _VALUE) for text in texts)
    if one != other:
        return one, other
    begin = next((i for i, (x, y) in enumerate(zip(*texts, strict=False)) if x != y), 0) - _BEFORE
    one, other = (shortened(f"…{text[begin:]}" if begin > 0 else text, _VALUE) for text in texts)
    return one, other


def _text(value: Any) -> str:
    return "–" if value is None else as_written(value)


def _shape(shape: list[int] | None) -> str:
    return "not there" if shape is None else " × ".join(map(str, shape))


def _loss(one: dict[str, float] | None) -> str:
    return "–" if one is None else f"{one['loss']:.4f} at {one['step']:,}"
