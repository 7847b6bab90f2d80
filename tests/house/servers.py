"""What the documents say of servers, tried: `pellucid serve` and `play` run until the next one, and curl asks them."""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import signal
import subprocess
import sys
import tomllib
import urllib.request
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PORT = 5000  # that the documents ask


class Servers:
    """The server of a page, one at a time."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        self._url = ""

    def start(self, words: Sequence[str]) -> None:
        """Starts `pellucid serve …` or `pellucid play …` and waits until it answers."""
        self.stop()
        quietly = ["--no-browser"] if words[0] == "play" else []
        command = [sys.executable, "-m", "pellucid", *words, "--port", "0", *quietly]
        self._process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True,
                                         env=os.environ | {"PYTHONPATH": str(ROOT / "src")})
        assert self._process.stderr is not None
        told: list[str] = []
        for line in self._process.stderr:
            told.append(line)
            if found := re.search(r"listening on (http://\S+)", line):
                self._url = found[1]
                return
        raise AssertionError(f"{words} does not answer: {''.join(told)}")

    def curl(self, words: Sequence[str]) -> bytes:
        """What `curl [-N] URL [-d DATA …]` prints."""
        assert self._url, "no server has been started on this page"
        data = [word for before, word in itertools.pairwise(words) if before == "-d"]
        (place,) = [word for word in words[1:] if word.startswith("localhost:")]
        assert set(words) <= {"curl", "-N", "-d", place, *data}, f"the tests do not know how to check: {words}"
        assert place.startswith(f"localhost:{PORT}/")
        body = "&".join(data).replace(" ", "+") if "=" in "".join(data[:1]).split("{")[0] else "&".join(data)
        url = self._url + place.removeprefix(f"localhost:{PORT}")
        with urllib.request.urlopen(url, body.encode() if data else None, timeout=60) as answer:
            found: bytes = answer.read()
        return found

    def stop(self) -> None:
        """Ends it, as Ctrl-C does."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(signal.SIGINT)
            self._process.communicate(timeout=60)
            assert self._process.returncode == 0
            self._process = None


def check_extra(words: Sequence[str]) -> None:
    """That `pip install 'pellucid[EXTRA]'` names an extra that there is."""
    (extra,) = re.findall(r"pellucid\[(\w+)\]", " ".join(words))
    assert extra in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
