"""A small count of promise 15."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).parents[1]


def test_text_over_http_is_that_of_translate(tmp_path: Path) -> None:
    for name in ("one", "two"):
        shutil.copytree(TESTS / "runs" / "kept" / "0.1.0" / "run", tmp_path / name)
    words = ["--count", "60", "--connections", "4", "--run", str(tmp_path / "one"), "--run", str(tmp_path / "two")]
    done = subprocess.run([sys.executable, str(TESTS / "promises" / "15_same_bits.py"), *words], capture_output=True,
                          text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("promise 15: 60 of 60\n")
