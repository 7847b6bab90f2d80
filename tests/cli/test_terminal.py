"""At a terminal each line is answered before the next one is typed."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import termios
from pathlib import Path
from typing import Any

import pytest

SECONDS = 60.0


def answer(terminal: int) -> str:
    """What the program writes, up to the end of the line."""
    read = b""
    while not read.endswith(b"\n"):
        assert select.select([terminal], [], [], SECONDS)[0], f"no answer, but {read!r}"
        read += os.read(terminal, 1)
    return read.decode().removesuffix("\r\n")


@pytest.mark.parametrize("verb", ["translate", "classify"])
def test_a_line_is_answered_before_the_next_is_typed(cli: Any, run: Path, classifier: Path, verb: str) -> None:
    folder, lines = (run, ["1 2", "", "3 4 5"]) if verb == "translate" else (classifier, ["aab1", "", "dc2"])
    together = cli(verb, folder, stdin="".join(f"{line}\n" for line in lines)).out.split("\n")
    terminal, program = pty.openpty()
    modes = termios.tcgetattr(program)
    modes[3] &= ~termios.ECHO
    termios.tcsetattr(program, termios.TCSANOW, modes)
    with subprocess.Popen([sys.executable, "-m", "pellucid", verb, folder], stdin=program, stdout=program,
                          stderr=subprocess.PIPE) as process:
        os.close(program)
        for line, wanted in zip(lines, together, strict=False):
            os.write(terminal, f"{line}\n".encode())
            assert answer(terminal) == wanted
        os.write(terminal, b"\x04")  # Ctrl-D: the end
        said = process.communicate(timeout=SECONDS)[1]
        assert process.returncode == 0
        assert b"Ctrl-D ends" in said
    os.close(terminal)
