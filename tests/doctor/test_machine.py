"""What the facts about a machine mean for a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from pellucid.config.mapping import from_mapping
from pellucid.doctor.machine import findings_from, look_around, size
from pellucid.kernels import calls, gpu
from pellucid.kernels.compiled import chosen, use_kernels
from pellucid.train.dry_run import parameters_of

CONFIG = from_mapping({"model": {"d_model": 8, "n_heads": 2, "d_ff": 8}, "train": {"average_last": 5}})
FACTS = {"device": "cpu", "cores": 2, "threads": 2, "kernels": "compiled", "allocator": "tcmalloc", "precision": "bf16",
         "parameters": 1000, "free_disk_bytes": 2**30, "others": 0.05}


def test_nothing_to_say() -> None:
    assert findings_from(FACTS, CONFIG) == []


@pytest.mark.parametrize(("facts", "kind", "severity"), [
    ({"kernels": "plain: no C++ compiler"}, "kernels", "warning"),
    ({"precision": "fp32"}, "precision", "note"),
    ({"allocator": "glibc"}, "allocator", "note"),
    ({"threads": 1}, "threads", "note"),
    ({"threads": 4}, "threads", "warning"),
    ({"others": 0.2}, "busy", "note"),
    ({"others": 0.5}, "busy", "warning"),
    ({"others": 0.5, "threads": 1}, "busy", "warning"),  # which is what it advises
    ({"free_disk_bytes": 12 * 1000 * 7 - 1}, "disk", "broken"),  # five to average, and two more
])
def test_what_stands_in_the_way(facts: dict[str, Any], kind: str, severity: str) -> None:
    (finding,) = findings_from(FACTS | facts, CONFIG)
    assert (finding.kind, finding.severity, finding.where) == (kind, severity, "environment")
    assert findings_from(FACTS | facts | {"device": "cuda"}, CONFIG) == ([finding] if kind == "disk" else [])


def test_a_busy_machine_is_told_with_what_it_costs_and_what_to_set() -> None:
    """Where all share the cores fairly, one that others keep busy for half of the time is worth two thirds."""
    (finding,) = findings_from(FACTS | {"cores": 16, "threads": 16, "others": 0.75}, CONFIG)
    assert "75 % of the cores (12.0 of 16)" in finding.what
    assert "1.8 times as long" in finding.cost
    assert "OMP_NUM_THREADS=4 " in finding.do
    assert [f.kind for f in findings_from(FACTS | {"others": 1.0, "threads": 3}, CONFIG)] == ["busy", "threads"]
    assert findings_from(FACTS | {"others": None}, CONFIG) == []


def test_nobody_is_sent_for_an_allocator_that_would_not_help() -> None:
    """fp32 products are not oneDNN's, and elsewhere there is no glibc."""
    fp32 = from_mapping({"train": {"precision": "fp32"}})
    assert findings_from(FACTS | {"allocator": "glibc", "precision": "fp32"}, fp32) == []
    assert findings_from(FACTS | {"allocator": "the system's"}, CONFIG) == []


def test_the_facts_here(tmp_path: Path) -> None:
    facts = look_around(CONFIG, tmp_path / "not" / "there", 100, None)[1]
    assert set(FACTS) <= set(facts)
    assert facts["parameters"] == parameters_of(CONFIG, 100, 100, shared=True) > 100 * 8
    assert facts["free_disk_bytes"] > 0


@pytest.mark.parametrize("wanted", [True, False])
def test_a_look_changes_nothing_of_how_this_process_computes(tmp_path: Path, wanted: bool) -> None:
    told = use_kernels(torch.device("cpu"), wanted)
    before = chosen(), dict(calls._functions), gpu.is_used()
    for kernels in ("auto", "plain"):
        facts = look_around(from_mapping({"train": {"kernels": kernels}}), tmp_path, 100, None)[1]
        assert (chosen(), dict(calls._functions), gpu.is_used()) == before
        if (kernels == "auto") == wanted and facts["device"] == "cpu":
            assert facts["kernels"] == told


def test_sizes_in_words() -> None:
    assert [size(count) for count in (1000, 1.5 * 2**30, 200 * 2**20)] == ["1000 bytes", "1.5 GiB", "200 MiB"]
