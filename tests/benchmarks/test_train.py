"""Peers run in every format that may be the faster one; a training arrives at a loss, or says that it did not."""

from __future__ import annotations

import math

import pytest
import torch

from benchmarks import train
from benchmarks.processes import named
from benchmarks.worker import train_until


def test_a_training_ends_at_the_first_loss_that_is_low_enough() -> None:
    losses, trained = iter([5.0, 3.0, 1.9, 1.0]), []
    assert train_until(2.0, lambda number: trained.append(number) or 0.0, lambda number: next(losses), 7) == (30, 1.9)
    assert trained == [number % 6 for number in range(30)]


@pytest.mark.parametrize(("losses", "said"), [
    ([5.0, math.nan], "the loss is nan after 20 updates, and not 2"),
    ([5.0] * 301, "the loss is 5.000 after 3000 updates, and not 2")])
def test_a_loss_that_is_no_number_or_stays_too_high_is_no_arrival(losses: list[float], said: str) -> None:
    of_updates = iter(losses)
    with pytest.raises(SystemExit, match=said):
        train_until(2.0, lambda number: 0.0, lambda number: next(of_updates), 7)


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU is always faster in bf16")
@pytest.mark.parametrize("multiplies", [True, False])
def test_peers_run_in_both_formats_where_bf16_can_be_multiplied(multiplies: bool,
                                                                monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(train, "multiplies_bf16", lambda: multiplies)
    assert train.formats() == (["fp32", "bf16"] if multiplies else ["fp32"])


@pytest.mark.parametrize(("case", "peers"), [
    ("title", {("nn.Transformer", "{} compile"), ("marian", "sdpa {}")}),
    ("classifier", {("nn.Transformer", "{}"), ("nn.Transformer", "{} compile")}),
    ("short-tiny", {("nn.Transformer", "{}"), ("nn.Transformer", "{} compile"), ("marian", "sdpa {}"),
                    ("x-transformers", "flash {}")})])
def test_each_peer_runs_in_each_format(case: str, peers: set[tuple[str, str]]) -> None:
    systems = train.systems_of(case, None, [])
    assert {(name, setting.format(kind)) for name, setting in peers for kind in train.formats()} <= set(systems)
    assert len(set(systems)) == len(systems)


def test_our_formats_run_where_they_are_asked_for_alone() -> None:
    find = named(train.SYSTEMS, train.ASKED_ALONE)
    ours = [("pellucid", setting) for setting in ("default", "plain equations")]
    assert [system for system in train.systems_of("short-tiny", None, []) if system[0] == "pellucid"] == ours
    assert train.systems_of("short-tiny", None, [find("pellucid")]) == ours
    assert train.systems_of("title", None, [find("pellucid: bf16"), find("marian")]) == [*train.MARIAN,
                                                                                        ("pellucid", "bf16")]


def test_every_row_can_be_asked_for_by_what_is_printed_of_it() -> None:
    systems = [*train.SYSTEMS, *train.ASKED_ALONE]
    row = {"workload": "short-tiny", "tokens_per_second": 1.0, "low": 1.0, "high": 1.0, "fraction_of_limit": 1.0,
           "peak_memory_bytes": 1}
    printed = train.table([row | {"system": name, "setting": setting} for name, setting in systems]).splitlines()[2:]
    find = named(train.SYSTEMS, train.ASKED_ALONE)
    for system, line in zip(systems, printed, strict=True):
        assert system in find(line.split(" | ")[1])
        assert find(": ".join(system)) == [system]
