"""Where lines of claims.yaml are run: a folder with `runs/`, what was printed, and DATA as `data/`.

What is done is kept there: a command that has ended is not run again, and a training goes on where it was.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.claims import ROOT, Line, Needs, Version
from benchmarks.readings import Step
from pellucid.kernels import levels


class CommandFailed(RuntimeError):
    """A command of a line ended with an error; the message has its last words."""


class Desk:
    """The folder.

    Args:
        folder: made if it is not there.
        data: what `data/` stands for; without it the lines that need data are left out.
    """

    def __init__(self, folder: Path, data: Path | None) -> None:
        self.folder, self.data = folder.resolve(), data
        self.folder.mkdir(parents=True, exist_ok=True)
        link = self.folder / "data"
        if link.is_symlink():
            link.unlink()
        if data is not None:
            link.symlink_to(data.resolve())

    def lacks(self, needs: Needs) -> str:
        """Why a line cannot be run here; empty if it can."""
        for name in needs.data:
            if self.data is None:
                return f"no DATA was given, and it needs {name}"
            if not (self.data / name).exists():
                return f"DATA has no {name}"
        for package in needs.packages:
            if importlib.util.find_spec(package) is None:
                return f"the package {package} is not installed"
        for variable in needs.variables:
            if not os.environ.get(variable):
                return f"${variable} is not set"
        if needs.bf16 and not levels.multiplies_bf16():
            return "this processor does not multiply bf16"
        for instruction in needs.instructions:
            if instruction not in levels.instructions():
                return f"this processor has no {instruction}"
        return ""

    def outcome(self, line: Line, version: Version) -> dict[str, Any] | None:
        """What a line came to when it was last run with these commands; None if it was not."""
        kept = _kept(self.folder / line.name / "outcome.json")
        return kept if kept.get("commands") == list(version.commands) else None

    def keep(self, line: Line, version: Version, values: dict[str, list[float]]) -> dict[str, Any]:
        """Writes what it came to, with machine, versions and date."""
        outcome = {"commands": list(version.commands), "values": values, "commit": _commit(), **_described()}
        (self.folder / line.name / "outcome.json").write_text(json.dumps(outcome, indent=1) + "\n", encoding="utf-8")
        return outcome

    def forget(self, line: Line) -> None:
        """What a line printed and came to; its runs stay, and are found finished."""
        for path in (self.folder / line.name).glob("*"):
            path.unlink()

    def run(self, line: Line, version: Version) -> list[Step]:
        """Runs the commands of a line that have not ended yet.

        Raises:
            CommandFailed: one of them ended with an error.
        """
        (self.folder / line.name).mkdir(exist_ok=True)
        return [self._step(line.name, number, command, seed) for number, command in enumerate(version.commands, start=1)
                for seed in (version.seeds if "{seed}" in command else (None,))]

    def _step(self, name: str, number: int, command: str, seed: int | None) -> Step:
        stem = self.folder / name / (f"{number}" if seed is None else f"{number}-seed-{seed}")
        output, log, ended, json_file = (stem.with_suffix(end) for end in (".out", ".log", ".ended", ".json"))
        words = command.replace("{seed}", str(seed)).replace("{json}", str(json_file)).replace("{root}", str(ROOT))
        before = _kept(ended)
        if before.get("command") != words:
            was_stopped = not before and output.exists()
            json_file.unlink(missing_ok=True)
            began = time.monotonic()
            self._execute(words, output, log)
            before = {"command": words, "seconds": None if was_stopped else time.monotonic() - began}
            ended.write_text(json.dumps(before), encoding="utf-8")
        return Step(number, seed, output.read_text(encoding="utf-8"), json_file, before["seconds"])

    def _execute(self, words: str, output: Path, log: Path) -> None:
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
        python_path = os.pathsep.join(filter(None, [str(ROOT), str(ROOT / "src"), os.environ.get("PYTHONPATH")]))
        with output.open("w") as printed, log.open("w") as errors:
            done = subprocess.run(["bash", "-euo", "pipefail", "-c", words], cwd=self.folder, stdout=printed,
                                  stderr=errors, stdin=subprocess.DEVNULL, check=False,
                                  env=os.environ | {"PATH": path, "PYTHONPATH": python_path})
        if done.returncode:
            told = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-3:]
            raise CommandFailed("\n  ".join([f"{words} ended with {done.returncode}", *told]))


def _kept(path: Path) -> dict[str, Any]:
    """What a file holds; nothing if it is not there or was not written to its end."""
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return {}
    return found


def _described() -> dict[str, Any]:
    from benchmarks import machine

    return machine.describe()


def _commit() -> str:
    done = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True,
                          check=False)
    return done.stdout.strip()
