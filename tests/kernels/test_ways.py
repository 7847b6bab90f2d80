"""The kernels' tests pass for each kind of processor, by other compilers, with sanitizers that say nothing, and on
processors that are emulated.

What runs is in ways.py, what each function may touch in reach.py. A way that this machine lacks something for is
skipped; where PELLUCID_REQUIRE_WAYS is set, only for what the processor lacks.
"""

from __future__ import annotations

import ctypes
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.kernels.reach import FUNCTIONS, Reach
from tests.kernels.ways import DRIVERS, WAYS, Way

from pellucid.kernels.compiled import NAMES
from pellucid.kernels.levels import LEVELS

ROOT = Path(__file__).parents[2]
TESTS = ["tests/kernels/test_kernels.py", "tests/kernels/test_adam.py", "tests/kernels/test_bits.py",
         "tests/engine/test_program.py"]
SEARCHES = ["tests/engine/test_engine.py", "tests/engine/test_not_finite.py"]
# Of the engine's: all steps in one call, and step by step, in each precision; what is left out only repeats them.
LEFT_OUT = ("not in_fp32_the_engine_finds and not neighbours and not side_by_side and not independent_over_features"
            " and not empty0")


def require(way: Way, to_run: bool = True) -> None:
    if lacking := way.obstacle(to_run):
        assert lacking.startswith("the processor") or not os.environ.get("PELLUCID_REQUIRE_WAYS"), lacking
        pytest.skip(lacking)


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_the_kernels_tests_pass(way: Way) -> None:
    require(way)
    way.build()
    name = next(name for name, each in WAYS.items() if each is way)
    told = subprocess.run(
        [sys.executable, "-m", "pytest", "-x", "-rs", "-p", "no:cacheprovider", "-p", "tests.kernels.ways", *TESTS,
         *(SEARCHES if way.searches else []), "-k", LEFT_OUT], cwd=ROOT, capture_output=True, text=True, check=False,
        env=os.environ | {"PELLUCID_WAY": name, "PELLUCID_CACHE": str(DRIVERS.parent)})
    said = told.stdout + told.stderr
    assert told.returncode == 0, said
    assert not re.search("Sanitizer|runtime error|SKIPPED", said), said


@pytest.mark.parametrize("name", ["avx2 haswell", "avx2 clang", "avx2-vnni", "avx512"])
def test_no_instruction_is_of_a_later_processor(name: str) -> None:
    """In all of the code, of which the tests above run what they come by. AVX-512's begin with the byte 62."""
    require(WAYS[name], to_run=False)
    listing = subprocess.run(["objdump", "-d", "--insn-width=16", WAYS[name].build().with_name("kernels.so")],
                             capture_output=True, text=True, check=True).stdout
    instructions = re.findall(r"^ *[0-9a-f]+:\t([0-9a-f]{2}) [^\t]*\t(?:\{vex\} )?(\w+)", listing, re.MULTILINE)
    assert len(instructions) > 10_000
    assert any(first == "62" for first, _ in instructions) == (name == "avx512")  # so that finding none means something
    assert any(what.startswith("vpdpbusd") for _, what in instructions) == (name == "avx2-vnni")
    assert not any(what.startswith("vdpbf16") for _, what in instructions)


def test_all_levels_and_all_functions_are_among_them() -> None:
    assert {way.level for way in WAYS.values()} >= {level.name for level in LEVELS}
    suffixed = {f"{name}_{suffix}" for name in FUNCTIONS for suffix in ("bf16", "float")}
    assert suffixed - {"clip_bf16", "adam_bf16"} | {"use_threads"} == set(NAMES)


def test_a_sanitizer_sees_a_byte_too_much(capfd: pytest.CaptureFixture[str]) -> None:
    """So that its silence means something."""
    require(WAYS["addresses"])
    x, out = np.ones(5, dtype=np.float32), np.zeros(5, dtype=np.float32)
    places = [each.ctypes.data for each in (x, out)]
    remote = WAYS["addresses"].start()
    arguments = [*places, 5, 0, 1.0, 1, 2]
    remote.send("drop_float", arguments, Reach(4, "float32", [(places[0], 20, False), (places[1], 20, True)]))
    assert out.tolist() == [1.0] * 5
    with pytest.raises(RuntimeError, match="the driver ended"):
        remote.send("drop_float", arguments, Reach(4, "float32", [(places[0], 20, False), (places[1], 19, True)]))
    assert "heap-buffer-overflow" in capfd.readouterr().err


def test_structures_are_as_large_on_every_processor() -> None:
    """A pointer and a whole number have eight bytes, as `Remote` takes for granted."""
    assert ctypes.sizeof(ctypes.c_void_p) == ctypes.sizeof(ctypes.c_int64) == 8
