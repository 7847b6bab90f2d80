"""What stays of products of new shapes, in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from pellucid.kernels.levels import multiplies_bf16
from pellucid.precision import DESCRIPTIONS, PRIMITIVES

CAPACITIES = """
from pellucid.precision import keep_primitives
import os
keep_primitives()
print(os.environ["ONEDNN_PRIMITIVE_CACHE_CAPACITY"], os.environ["LRU_CACHE_CAPACITY"])
"""
LEFT = CAPACITIES + """
from pellucid.config import ModelConfig, RunConfig
from pellucid.plan.process import primitive_bytes
print(primitive_bytes(RunConfig(model=ModelConfig(d_model=128, d_ff=256))))
"""
OURS = ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY")


def told(program: str, **settings: str) -> list[int]:
    """Both capacities; of LEFT, the bytes of a primitive, too."""
    environment = {key: value for key, value in os.environ.items() if key not in OURS} | settings
    environment["OMP_NUM_THREADS"] = "1"
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    return [int(word) for word in done.stdout.split()]


@pytest.mark.skipif(not multiplies_bf16(), reason="this processor multiplies no bf16")
def test_a_new_shape_leaves_a_primitive_and_no_description() -> None:
    *capacities, ours = told(LEFT)
    assert capacities == [PRIMITIVES, DESCRIPTIONS]
    *_, both = told(LEFT, LRU_CACHE_CAPACITY="1024")
    assert 100_000 < ours < 0.7 * both


def test_what_somebody_has_set_stays() -> None:
    assert told(CAPACITIES, ONEDNN_PRIMITIVE_CACHE_CAPACITY="7", LRU_CACHE_CAPACITY="5") == [7, 5]
