"""What waits, and how long it is predicted to take."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest

from pellucid.config import DecodeConfig
from pellucid.serve.load import Load
from pellucid.serve.tasks import Ask


class Nothing:
    """Stands for a run."""


def ask(run: Any, beam_size: int = 1, **options: Any) -> Ask:
    return Ask(run, DecodeConfig(beam_size=beam_size, **options))


def test_each_way_of_searching_has_a_rate_of_its_own() -> None:
    load, run = Load(1), Nothing()
    load.note(ask(run), 100, 1.0)
    load.note(ask(run, 4), 100, 8.0)
    assert load.rate(ask(run).kind) == pytest.approx(0.01)
    assert load.rate(ask(run, 4).kind) == pytest.approx(0.08)
    assert load.rate(ask(run, 4, length_penalty=0.1).kind) == pytest.approx(0.08)  # which costs nothing
    assert load.rate(ask(run, 32).kind) == pytest.approx(0.64)  # a guess, by its width
    assert load.rate(ask(run, 1, sample=True).kind) == pytest.approx(0.02)  # a guess, the worst there is
    load.note(ask(run, no_repeat_ngram=1), 100, 4.0)  # and so is whatever goes by steps
    assert load.rate(ask(run, 1, sample=True).kind) == pytest.approx(0.04)
    assert load.rate(Ask(run, DecodeConfig(beam_size=1), has_prefixes=True).kind) == pytest.approx(0.04)
    assert load.rate(ask(run).kind) == pytest.approx(0.01)
    assert load.rate(ask(Nothing()).kind) == load.rate(ask(Nothing(), 32).kind)  # nothing is known


def test_what_was_measured_fades() -> None:
    load, run = Load(1), Nothing()
    for seconds in (1.0, 2.0):
        load.note(ask(run), 1, seconds)
    assert load.rate(ask(run).kind) == pytest.approx(1.2)


def test_what_waits_before_a_request_is_a_turn_of_each_or_less() -> None:
    load, run, other = Load(2), Nothing(), Nothing()
    load.note(ask(run), 1, 1.0)
    load.note(ask(other), 1, 10.0)
    load.add(ask(run), 100)  # ten texts
    load.add_turn(ask(run), 10)
    load.add(ask(other), 3)
    load.add_turn(ask(other), 3)
    assert load.seconds == pytest.approx((100 + 30) / 2)
    assert [load.seconds_before(texts) for texts in (1, 4, 10, 50)] == pytest.approx([20, 35, 65, 65])
    assert load.share(ask(run)) == 50
    load.add_turn(ask(run), -10)  # its last text is being decoded
    assert load.seconds_before(1) == pytest.approx(15)


def test_a_run_that_nobody_waits_for_is_let_go() -> None:
    load, run = Load(1), Nothing()
    for sign in (1, -1):
        load.add(ask(run), sign * 7)
        load.add_turn(ask(run), sign * 7)
    load.note(ask(run), 7, 1.0)
    there = weakref.ref(run)
    del run
    gc.collect()
    assert there() is None
    assert load.seconds == 0
