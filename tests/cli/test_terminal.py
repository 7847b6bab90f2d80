"""At a terminal each line is answered before the next one is typed, and each message has a line of its own."""

from __future__ import annotations

import json
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


def screen(*words: object, code: int = 0) -> list[str]:
    """The lines that a terminal shows at the end, of standard output and standard error."""
    terminal, program = pty.openpty()
    read = b""
    with subprocess.Popen([sys.executable, "-m", "pellucid", *map(str, words)], stdin=program, stdout=program,
                          stderr=program) as process:
        os.close(program)
        while select.select([terminal], [], [], SECONDS)[0]:
            try:
                read += os.read(terminal, 2 ** 16)
            except OSError:  # nobody writes to it any more
                break
        assert process.wait(SECONDS) == code, read
    os.close(terminal)
    return [line.rpartition("\x1b[2K")[2] for line in read.decode().split("\r\n")]


def test_the_page_is_told_on_a_line_of_its_own(run: Path, tmp_path: Path) -> None:
    assert f"{tmp_path / 'index.html'}: open it in a browser" in screen("inspect", run, "--out", tmp_path)


@pytest.mark.parametrize("words", [["evaluate"], ["doctor"], ["plan", "--no-calibration"]])
def test_a_report_begins_on_a_line_of_its_own(run: Path, tiny: Path, words: list[str]) -> None:
    verb, *more = words
    *_, report, end = screen(verb, tiny if verb == "plan" else run, *more, "--json")
    assert isinstance(json.loads(report), dict)
    assert end == ""


def test_a_folder_is_told_on_one_live_line(run: Path, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for name in ("a", "b"):
        (tmp_path / "in" / name).write_text("1 2\n3\n")
    (tmp_path / "in" / "c").write_bytes(b"\xff\n")
    *lines, end = screen("translate", run, "--input", tmp_path / "in", "--output", tmp_path / "out", code=3)
    assert lines[0].startswith("c is left out: ")
    assert lines[1].startswith("2 of 3 shards are done, 2 of them by this process")
    assert lines[2] == "pellucid: left out: 1 of 3 shards"
    assert end == ""
