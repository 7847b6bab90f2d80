"""A small count of promise 22; what misbehaves on connections is in test_deadlines.py, signals in test_server.py."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROMISES = Path(__file__).parents[1] / "promises"


def test_whatever_is_asked_is_answered() -> None:
    words = [sys.executable, str(PROMISES / "22_hostile.py"), "--count", "150", "--raw", "0", "--seed", "3"]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("promise 22: 150 of 150\n")
