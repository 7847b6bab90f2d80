"""What the facts about a machine mean for a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pellucid.config.mapping import from_mapping
from pellucid.doctor.machine import findings_from, look_around, parameters_of, size

CONFIG = from_mapping({"model": {"d_model": 8, "n_heads": 2, "d_ff": 8}, "train": {"average_last": 5}})
FACTS = {"device": "cpu", "cores": 2, "threads": 2, "kernels": "compiled", "precision": "bf16", "parameters": 1000,
         "free_disk_bytes": 2**30}


def test_nothing_to_say() -> None:
    assert findings_from(FACTS, CONFIG) == []


@pytest.mark.parametrize(("facts", "kind", "severity"), [
    ({"kernels": "plain: no C++ compiler"}, "kernels", "warning"),
    ({"precision": "fp32"}, "precision", "note"),
    ({"threads": 1}, "threads", "note"),
    ({"threads": 4}, "threads", "warning"),
    ({"free_disk_bytes": 12 * 1000 * 7 - 1}, "disk", "broken"),  # five to average, and two more
])
def test_what_stands_in_the_way(facts: dict[str, Any], kind: str, severity: str) -> None:
    (finding,) = findings_from(FACTS | facts, CONFIG)
    assert (finding.kind, finding.severity, finding.where) == (kind, severity, "environment")
    assert findings_from(FACTS | facts | {"device": "cuda"}, CONFIG) == ([finding] if kind == "disk" else [])


def test_the_facts_here(tmp_path: Path) -> None:
    facts = look_around(CONFIG, tmp_path / "not" / "there", 100)[1]
    assert set(FACTS) <= set(facts)
    assert facts["parameters"] == parameters_of(CONFIG, 100) > 100 * 8
    assert facts["free_disk_bytes"] > 0


def test_sizes_in_words() -> None:
    assert [size(count) for count in (1000, 1.5 * 2**30, 200 * 2**20)] == ["1000 bytes", "1.5 GiB", "200 MiB"]
