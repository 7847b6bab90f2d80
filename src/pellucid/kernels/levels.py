"""The kinds of processor that the kernels are compiled for, each by the instructions that it must have.

One source, one file of machine code for each level; the best that a processor can run is taken. A level names all its
compiler flags, nothing depends on the machine that compiles: the same compiler makes the same code anywhere, for a
wheel too.
"""

import os
import platform
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

HOLD = "PELLUCID_KERNELS"  # a level's name: this one at most; "plain": none
ATEN = "ATEN_CPU_CAPABILITY"  # by which torch is held to older instructions
_HELD = {"default": "", "avx2": "avx2", "avx512": "avx512-bf16"}  # the best level under each of its values


@dataclass(frozen=True)
class Level:
    """A kind of processor.

    Attributes:
        name: told to people.
        machine: as `platform.machine()` says it.
        needs: the instructions that it must have, as Linux names them.
        flags: for the compiler.
    """

    name: str
    machine: str
    needs: frozenset[str]
    flags: tuple[str, ...]

    @property
    def multiplies_bf16(self) -> bool:
        """Whether it has an instruction for products of bf16; without one they are no faster than those of fp32."""
        return bool(self.needs & _BF16)


_BF16 = {"avx512_bf16", "bf16"}


def _x86(name: str, needs: str, flags: str, below: Level | None = None) -> Level:
    before = (below.needs, below.flags) if below else (frozenset[str](), ())
    return Level(name, "x86_64", before[0] | set(needs.split()), before[1] + tuple(flags.split()))


_AVX2 = _x86("avx2", "avx2 fma f16c bmi1 bmi2 abm popcnt", "-mavx2 -mfma -mf16c -mbmi -mbmi2 -mlzcnt -mpopcnt")
_AVX512 = _x86("avx512", "avx512f avx512bw avx512dq avx512vl avx512cd",
               "-mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512cd -mprefer-vector-width=512", _AVX2)
_AVX512_VNNI = _x86("avx512-vnni", "avx512_vnni", "-mavx512vnni", _AVX512)
_ARM = {"neon": ("asimd", "armv8-a"), "neon-dotprod": ("asimd asimddp", "armv8.2-a+dotprod"),
        "neon-bf16": ("asimd asimddp bf16", "armv8.2-a+dotprod+bf16")}

# The best first.
LEVELS = (
    _x86("avx512-bf16", "avx512_bf16", "-mavx512bf16", _AVX512_VNNI), _AVX512_VNNI, _AVX512,
    _x86("avx2-vnni", "avx_vnni", "-mavxvnni", _AVX2), _AVX2,
    *(Level(name, "aarch64", frozenset(needs.split()), (f"-march={march}",))
      for name, (needs, march) in reversed(_ARM.items())))


def machine() -> str:
    """The processor's family, as `Level.machine` has it."""
    return {"AMD64": "x86_64", "arm64": "aarch64"}.get(platform.machine(), platform.machine())


@cache
def instructions() -> frozenset[str]:
    """What the processor has, as the system lists it; Linux's names, on macOS too."""
    if sys.platform.startswith("linux"):
        lines = Path("/proc/cpuinfo").read_text(errors="replace").splitlines()
        listed = next((line for line in lines if line.startswith(("flags", "Features"))), ":")
        return frozenset(listed.split(":", 1)[1].split())
    if sys.platform == "darwin":
        names = {"hw.optional.arm.FEAT_DotProd": "asimddp", "hw.optional.arm.FEAT_BF16": "bf16",
                 "hw.optional.avx2_0": "avx2 fma f16c bmi1 bmi2 abm popcnt",
                 "hw.optional.avx512bw": "avx512f avx512bw avx512dq avx512vl avx512cd"}
        found = {"asimd"} if machine() == "aarch64" else set[str]()
        for name, here in names.items():
            told = subprocess.run(["sysctl", "-n", name], capture_output=True, text=True, check=False, timeout=60)
            found |= set(here.split()) if told.stdout.strip() == "1" else set()
        return frozenset(found)
    return frozenset()


def cores() -> int:
    """Those that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def levels_here() -> tuple[Level, ...]:
    """Those that this processor can run, the best first; none better than $PELLUCID_KERNELS or $ATEN_CPU_CAPABILITY
    allow."""
    able = tuple(level for level in LEVELS if level.machine == machine() and level.needs <= instructions())
    for held in (os.environ.get(HOLD) or None, _HELD.get(os.environ.get(ATEN, ""))):
        if held is not None:
            names = [level.name for level in LEVELS]
            able = tuple(level for level in able if held in names and names.index(level.name) >= names.index(held))
    return able


def multiplies_bf16() -> bool:
    """Whether the best level here does, or, where there is none, the processor."""
    levels = levels_here()
    return levels[0].multiplies_bf16 if levels else bool(instructions() & _BF16)


def gains_by_bf16() -> bool:
    """Whether oneDNN multiplies bf16 sooner than fp32 here, too: Intel's processors have to have AMX for it. By the
    instruction of AVX-512 alone a Sapphire Rapids makes 84 GFLOP/s a thread of bf16, and 150 of fp32."""
    return multiplies_bf16() and ("avx512_bf16" not in instructions() or "amx_bf16" in instructions() or not is_intel())


def is_intel() -> bool:
    """Whether the processor is one of Intel's, as the system tells."""
    listed = Path("/proc/cpuinfo")
    return listed.exists() and "GenuineIntel" in listed.read_text(errors="replace")
