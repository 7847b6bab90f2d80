"""How much memory a process and those that it starts take: bytes that are known beforehand."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.processes import descendants, resident, watch

pytestmark = pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="the system does not tell")
MIB = 2**20
FAMILY = """
import os, sys, time
from benchmarks.processes import peak_memory
shared = bytearray(b"x") * (40 << 20)
begun = peak_memory()
here, there = os.pipe()
back, forth = os.pipe()
if os.fork() == 0:
    own = bytearray(b"y") * (60 << 20)
    os.write(there, b".")
    os.read(back, 1)
    os._exit(0)
os.read(here, 1)
print(begun, peak_memory(), flush=True)
time.sleep(0.5)
os.write(forth, b".")
os.wait()
"""


def test_what_a_forked_process_takes_counts_and_what_it_shares_counts_once() -> None:
    peak, said = watch([sys.executable, "-c", FAMILY])
    begun, both = map(int, said.split())
    assert 60 * MIB <= both - begun < 75 * MIB
    assert peak == pytest.approx(both, abs=10 * MIB)


def test_a_process_that_is_gone_holds_nothing_and_has_nobody() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    assert (resident(process.pid), descendants(process.pid)) == (0, [])


def test_those_that_were_started_are_found_in_any_depth() -> None:
    inner = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'input()'], stdin=0)"
    process = subprocess.Popen([sys.executable, "-c", inner], stdin=subprocess.PIPE)
    try:
        while not (found := descendants(process.pid)):
            pass
        assert {process.pid, *found} <= set(descendants(os.getpid()))
    finally:
        assert process.stdin is not None
        process.stdin.close()
        process.wait()


def test_a_command_that_fails_says_why() -> None:
    with pytest.raises(RuntimeError, match="no such thing"):
        watch([sys.executable, "-c", "raise SystemExit('no such thing')"])
