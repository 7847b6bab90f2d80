"""What a plan is held against: the largest peak, medians of speeds, turn by turn; on commands that are made up."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks import plan
from benchmarks.plan_cases import BASE, CASES, HELD_OUT


def made_up(peaks: list[int], planned: list[float], had: list[float], turns: list[str]) -> Any:
    """`pellucid`, which trains with these peaks and speeds, and plans 900 bytes and these speeds."""
    speeds = iter(planned)
    trainings = iter(zip(peaks, had, strict=True))

    def pellucid(verb: str, *words: str) -> tuple[int, str]:
        turns.append(verb)
        if verb == "plan":
            memory = {"bytes": 900, "batch": {}, "held_by": {}}
            return 1, json.dumps({"memory": {"training": memory, "decoding": memory}, "precision": "bf16",
                                  "parameters": {"total": 7},
                                  "time": {"tokens_per_second": next(speeds), "others": 0.5}})
        peak, speed = next(trainings)
        folder = Path(words[words.index("--out") + 1])
        folder.mkdir()
        lines = [{"event": "train", "tokens_per_second": 1.0}, {"event": "train", "tokens_per_second": speed},
                 {"event": "validation"}]
        (folder / "metrics.jsonl").write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
        return peak, ""

    return pellucid


def test_planning_and_training_take_turns_and_medians_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    turns: list[str] = []
    monkeypatch.setattr(plan, "pellucid", made_up([800, 1000, 600], [50.0, 11.0, 9.0], [10.0, 1.0, 30.0], turns))
    row = plan.measure_whole(["copy", "--train.steps", "9"], 3)
    assert turns == ["plan", "train"] * 3
    assert (row["peak_memory_bytes"], row["error"]) == (1000, pytest.approx(-0.1))
    assert (row["tokens_per_second"], row["speed_error"]) == (10.0, pytest.approx(0.1))
    assert (row["low"], row["high"], row["busy"]) == (1.0, 30.0, [0.5] * 3)
    printed = plan.table([row])
    assert "| copy | 7 | 0 MiB | 0 MiB | -10.0 % |  |  |  | 11 | 10 | +10.0 % |" in printed
    assert len({line.count("|") for line in printed.splitlines()}) == 1


def test_what_was_held_out_is_no_row_that_was_looked_at() -> None:
    assert len(HELD_OUT) >= 6
    assert not set(HELD_OUT) & set(CASES)
    assert {BASE["train.workers"], *(case.get("train.workers", 1) for case in HELD_OUT.values())} == {1, 2}
    seen = [BASE | case for case in CASES.values()]
    assert all(BASE | case not in seen for case in HELD_OUT.values())
