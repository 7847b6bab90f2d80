"""What the commands of a line told, as numbers."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from statistics import mean
from typing import Any

from benchmarks.claims import Figure, Line
from benchmarks.tables import Cell, printed

TAKE: dict[str, Callable[[list[float]], float]] = {"mean": mean, "min": min, "max": max}


@dataclass(frozen=True)
class Step:
    """A command that has run.

    Args:
        number: of the command in its line, from 1.
        seed: that it ran with; None where it has none.
        output: what it printed.
        json_file: what it may have written.
        seconds: it took; None where it was stopped in between and went on.
    """

    number: int
    seed: int | None
    output: str
    json_file: Path
    seconds: float | None


def values_of(line: Line, steps: list[Step], widths: dict[str, int]) -> tuple[dict[str, list[float]], dict[str, str]]:
    """Name → its numbers: of a figure one, of a printed cell ``row > column`` as many as it has. And why others are not
    to be had. `widths` are those of `tables.printed`."""
    values: dict[str, list[float]] = {}
    lacking: dict[str, str] = {}
    for name, figure in line.figures.items():
        try:
            values[name] = [_read(figure, steps, widths)]
        except (LookupError, ValueError, TypeError) as error:
            lacking[name] = str(error)
    if line.tables:
        for (row, column), cell in _cells(steps, widths).items():
            values[f"{row} > {column}"] = [number.value for number in cell.numbers]
    return values, lacking


def _read(figure: Figure, steps: list[Step], widths: dict[str, int]) -> float:
    number = figure.command or max(step.number for step in steps)
    chosen = [step for step in steps if step.number == number and figure.seed in (None, step.seed)]
    found = [value for step in chosen for value in _all_of(figure, step, widths)]
    if not found:
        raise LookupError(f"nothing was printed that is {figure.key or figure.pattern or figure.cell}")
    return figure.scale * TAKE[figure.take](found)


def _all_of(figure: Figure, step: Step, widths: dict[str, int]) -> list[float]:
    if figure.clock:
        if step.seconds is None:
            raise LookupError("it was stopped in between, so its time is not known")
        return [step.seconds]
    if figure.key:
        return [float(_at(_json_of(step), figure.key))]
    if figure.pattern:
        return [float(match[-1][1].replace(",", "")) for match in [list(re.finditer(figure.pattern, step.output))]
                if match]
    row, _, column = figure.cell.partition(" > ")
    return [cell.numbers[figure.number - 1].value for (r, c), cell in printed(step.output, widths).items()
            if fnmatchcase(r, row) and fnmatchcase(c, column) and len(cell.numbers) >= figure.number]


def _json_of(step: Step) -> Any:
    """The file that the command wrote, or what it printed: the whole, or its last line."""
    if step.json_file.exists():
        return json.loads(step.json_file.read_text(encoding="utf-8"))
    try:
        return json.loads(step.output)
    except json.JSONDecodeError:
        return json.loads(step.output.strip().splitlines()[-1])


def _at(value: Any, key: str) -> Any:
    for part in key.split("."):
        value = value[int(part)] if isinstance(value, list) else value[part]
    return value


def _cells(steps: list[Step], widths: dict[str, int]) -> dict[tuple[str, str], Cell]:
    found: dict[tuple[str, str], Cell] = {}
    for step in steps:
        found |= printed(step.output, widths)
    return found
