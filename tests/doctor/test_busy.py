"""How busy a machine is, by readings that are made up."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pellucid.doctor import busy
from pellucid.doctor.busy import watched

STAT = """cpu  1000 2 3 4000 5 6 7 8 0 0
cpu0 100 10 20 3000 500 1 2 7 50 0
cpu1 900 0 0 1000 0 0 0 0 0 0
cpu12 55 0 0 1000 0 0 0 0 0 0
intr 12345 0
"""


def readings(monkeypatch: pytest.MonkeyPatch, everyone: list[Any], here: list[float], clock: list[float]) -> None:
    for name, values in (("spent_by_all", everyone), ("spent_here", here)):
        coming: Iterator[Any] = iter(values)
        monkeypatch.setattr(busy, name, lambda coming=coming: next(coming))
    ticks = iter(clock)
    monkeypatch.setattr(busy.time, "monotonic", lambda: next(ticks))
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 1}, raising=False)


@pytest.mark.parametrize(("everyone", "here", "share"), [
    ([100.0, 120.0], [7.0, 20.0], 0.35),  # twenty of twenty seconds were worked, thirteen of them here
    ([100.0, 110.0], [0.0, 10.0], 0.0),
    ([100.0, 109.0], [0.0, 10.0], 0.0),  # clocks tick coarsely
    ([100.0, 140.0], [0.0, 0.0], 1.0),
    ([None, None], [0.0, 0.0], None),
    ([100.0, None], [0.0, 0.0], None),
])
def test_the_share_of_others_is_what_was_not_spent_here(everyone: list[Any], here: list[float], share: float | None,
                                                        monkeypatch: pytest.MonkeyPatch) -> None:
    readings(monkeypatch, everyone, here, [50.0, 60.0])
    with watched() as others:
        assert others.share is None
    assert others.share == pytest.approx(share)


def test_the_line_of_each_processor_that_may_be_used_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Idle, waiting for a disk and the guests that user time has already are left out."""
    monkeypatch.setattr(os, "sysconf", lambda name: 100)
    monkeypatch.setattr(Path, "read_text", lambda self, **_: STAT)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 1}, raising=False)
    assert busy.spent_by_all() == pytest.approx((100 + 10 + 20 + 1 + 2 + 7 + 900) / 100)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 2})
    assert busy.spent_by_all() is None


def test_a_system_that_does_not_tell_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(self: Path, **_: Any) -> str:
        raise FileNotFoundError

    with monkeypatch.context() as patch:
        patch.setattr(Path, "read_text", missing)
        with watched() as others:
            pass
        assert others.share is None
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    with watched() as others:
        pass
    assert others.share is None


def test_what_is_spent_here_grows_with_work() -> None:
    before, until = busy.spent_here(), time.process_time() + 0.05
    while time.process_time() < until:
        pass
    assert busy.spent_here() >= before + 0.02


def test_a_short_moment_is_made_long_enough() -> None:
    begun = time.monotonic()
    with watched(0.05):
        pass
    assert time.monotonic() - begun >= 0.05
