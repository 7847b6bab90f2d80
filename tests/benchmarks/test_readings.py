"""Each way to read a figure from what commands told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.claims import Figure, Line, Version
from benchmarks.readings import Step, values_of

TABLE = "words before\n| a | b | × |\n|---|---|---|\n| x | 3 (2–4) | 1.5 |\n| y | 5 | 2.5 |\n"


def read(figure: dict[str, Any], steps: list[Step]) -> float | str:
    line = Line("line", "about", Version(), None, {"it": Figure(**figure)}, {}, {}, "here")
    values, lacking = values_of(line, steps, {})
    return values["it"][0] if "it" in values else lacking["it"]


def step(output: str, number: int = 1, seed: int | None = None, seconds: float | None = 3.0) -> Step:
    return Step(number, seed, output, Path("nowhere.json"), seconds)


@pytest.mark.parametrize(("figure", "value"), [
    ({"pattern": r"(\d+) of"}, 8.0), ({"pattern": r"(\d+) of", "command": 1}, 7.0),
    ({"clock": True, "scale": 0.5}, 1.5),
    ({"cell": "x > b", "command": 3}, 3.0), ({"cell": "x > b", "number": 3, "command": 3}, 4.0),
    ({"cell": "* > ×", "take": "max", "command": 3}, 2.5), ({"cell": "* > ×", "command": 3}, 2.0),
    ({"key": "rows.1.n", "command": 4, "take": "min"}, 10.0), ({"key": "rows.1.n", "command": 4}, 11.0),
    ({"key": "rows.1.n", "command": 4, "seed": 2}, 12.0)])
def test_a_figure_is_read(figure: dict[str, Any], value: float) -> None:
    rows = [json.dumps({"rows": [{}, {"n": n}]}) for n in (10, 12)]
    steps = [step("5 of 9\n7 of 9"), step("9 of 9", 2), step(TABLE, 3), step(rows[0], 4, 1),
             step(f"said\n{rows[1]}", 4, 2), step("8 of 9", 5)]
    assert read(figure, steps) == value


@pytest.mark.parametrize("figure", [{"pattern": "(no)"}, {"cell": "z > b"}, {"cell": "x > b", "number": 4},
                                    {"key": "rows.9"}, {"key": "n"}, {"pattern": "(words)"}])
def test_what_was_not_printed_is_said(figure: dict[str, Any]) -> None:
    assert isinstance(read(figure, [step(TABLE)]), str)
    assert isinstance(read(figure, [step("")]), str)


def test_the_time_of_a_command_that_was_stopped_is_not_known() -> None:
    assert "stopped" in str(read({"clock": True}, [step("", seconds=None)]))


def test_a_file_that_was_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "1.json"
    path.write_text('{"n": 4}', encoding="utf-8")
    assert read({"key": "n"}, [Step(1, None, "{", path, 1.0)]) == 4
