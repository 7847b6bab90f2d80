"""How much a client may ask: a bucket that fills as time goes by."""

from __future__ import annotations

import math

import pytest

from pellucid.errors import ConfigError
from pellucid.serve import limits
from pellucid.serve.limits import Limits, Meter, client_of


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What time it is, in its only place."""
    now = [100.0]
    monkeypatch.setattr(limits.time, "monotonic", lambda: now[0])
    return now


def test_so_many_at_once_and_so_many_a_minute(clock: list[float]) -> None:
    meter = Meter(60)
    assert [meter.refuses("a") for _ in range(61)] == [0] * 60 + [1]
    assert meter.refuses("b") == 0
    clock[0] += 2
    assert [meter.refuses("a") for _ in range(3)] == [0, 0, 1]
    clock[0] += 3600
    assert [meter.refuses("a") for _ in range(61)] == [0] * 60 + [1]


def test_it_says_when_to_come_again(clock: list[float]) -> None:
    meter = Meter(2)
    assert [meter.refuses("a") for _ in range(3)] == [0, 0, 30]
    clock[0] += 29
    assert meter.refuses("a") == 1  # what is refused costs nothing
    clock[0] += 1
    assert meter.refuses("a") == 0


def test_no_limit_counts_nothing() -> None:
    meter = Meter(0)
    assert not any(meter.refuses("a") for _ in range(1000))


def test_it_remembers_only_so_many_clients(clock: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "_MOST_CLIENTS", 10)
    meter = Meter(1)
    for number in range(100):
        meter.refuses(str(number))
    assert len(meter._left) == 10
    assert meter.refuses("99") == 60
    assert meter.refuses("1") == 0


@pytest.mark.parametrize(("one", "other", "same"), [
    ("1.2.3.4", "1.2.3.5", False), ("::1:0:0:0:1", "::1:ffff:0:0:1", True), ("::1:0:0:0:1", "::2:0:0:0:1", False),
    ("fe80::1%eth0", "fe80::2", True), ("", "", True), ("::ffff:1.2.3.4", "::ffff:1.2.3.5", False),
    ("::ffff:1.2.3.4", "1.2.3.4", True)])
def test_a_network_of_ipv6_is_one_client(one: str, other: str, same: bool) -> None:
    assert (client_of(one) == client_of(other)) is same


@pytest.mark.parametrize("value", [-1, math.nan, math.inf])
@pytest.mark.parametrize("name", ["timeout", "queue"])
def test_a_limit_is_a_number_from_0_on(name: str, value: float) -> None:
    with pytest.raises(ConfigError, match=f"a limit of {value}") as caught:
        Limits(**{name: value})
    assert caught.value.where == f"--{name}"  # the flag
