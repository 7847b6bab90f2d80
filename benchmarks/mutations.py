"""Whether the tests would notice: small faults are put into the code, one at a time, and the tests of its folder run.

    python -m benchmarks.mutations [--only TEXT] [--first N] [--json FILE]

The faults are those of mutations.yaml. Each is put into a copy of the checkout, and those of its tests run there that
lie where one would look for them: tests/nn for a file of nn/, first of all the one that FILE says found it the last
time, then those named as the file. What finds a fault must pass without it. A fault that no test notices lives, and the
command fails.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks.arguments import new_file, positive
from benchmarks.claims import ROOT
from pellucid.config.reader import read_dataclass
from pellucid.config.strict_yaml import read_yaml

LIST = Path(__file__).with_name("mutations.yaml")
SLOW = "tests/kernels/test_ways.py"  # the same kernels on other processors
LIMIT = 900  # seconds; what runs longer has been noticed, too


@dataclass(frozen=True)
class Edit:
    """`old`, which stands once in `file` of src/pellucid, becomes `new`."""

    file: str
    old: str
    new: str


@dataclass(frozen=True)
class Mutation(Edit):
    """A fault.

    Args:
        says: what is wrong with it.
        tests: folders of tests; those of the file's own room, if left out.
        also: further edits that belong to it.
    """

    says: str = ""
    tests: tuple[str, ...] = ()
    also: tuple[Edit, ...] = ()

    @property
    def edits(self) -> tuple[Edit, ...]:
        """All that it changes."""
        return (self, *self.also)

    @property
    def folders(self) -> list[str]:
        """Where its tests lie."""
        return [f"tests/{room}" for room in self.tests or (self.file.split("/")[0],)]

    @property
    def own_tests(self) -> list[str]:
        """Those that are named as one of its files, if there are any."""
        named = [f"{folder}/test_{Path(edit.file).stem}.py" for edit in self.edits for folder in self.folders]
        return [name for name in named if (ROOT / name).exists()]


def read_mutations() -> list[Mutation]:
    """All of mutations.yaml.

    Raises:
        ConfigError: an unknown key.
    """
    entries = read_yaml(LIST.read_text(encoding="utf-8"), str(LIST))
    return [read_dataclass(Mutation, entry, str(LIST)) for entry in entries]


def put_in(mutation: Mutation, source: Path) -> dict[Path, str]:
    """Changes the files below `source`, and gives what they were.

    Raises:
        ValueError: what is to be changed does not stand there once.
    """
    before: dict[Path, str] = {}
    for edit in mutation.edits:
        path = source / edit.file
        text = path.read_text(encoding="utf-8")
        if text.count(edit.old) != 1:
            raise ValueError(f"{edit.file} has {text.count(edit.old)} times {edit.old!r}")
        before.setdefault(path, text)
        path.write_text(text.replace(edit.old, edit.new), encoding="utf-8")
    return before


def killer_of(mutation: Mutation, copy: Path, known: str | None) -> str | None:
    """The first test that fails with the fault in the copy, that which is `known` to before all others; None where it
    lives."""
    for places in ([known] if known else [], mutation.own_tests, mutation.folders):
        if places and (failure := first_failure(copy, places)):
            return failure
    return None


def first_failure(copy: Path, places: list[str]) -> str | None:
    """The first test of these files and folders that fails in the copy; None where all pass.

    Raises:
        RuntimeError: the tests cannot be run.
    """
    environment = {**os.environ, "PYTHONPATH": str(copy / "src"), "PELLUCID_CACHE": str(copy / "cache")}
    words = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", f"--deselect={SLOW}", *places]
    try:
        done = subprocess.run(words, cwd=copy, env=environment, capture_output=True, text=True, timeout=LIMIT,
                              check=False)
    except subprocess.TimeoutExpired:
        return f"not done after {LIMIT} s"
    if done.returncode == 0:
        return None
    told = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    if done.returncode != 1 or not told:
        raise RuntimeError(f"the tests cannot be run (exit code {done.returncode}):\n{done.stdout}{done.stderr}")
    return told[0].split(" - ")[0].split(maxsplit=1)[1]


def killers_in(path: Path | None) -> dict[tuple[str, str], str]:
    """What found each fault the last time, by its file and its words, as far as such tests are there still."""
    last = json.loads(path.read_text(encoding="utf-8"))["mutations"] if path and path.exists() else []
    found = {(each["file"], each["says"]): each["killed_by"] or "" for each in last}
    return {fault: test for fault, test in found.items() if is_there(test)}


def is_there(test: str) -> bool:
    """Whether the file of a test has a function of its name."""
    path, _, name = test.partition("::")
    return (ROOT / path).is_file() and f"def {name.partition('[')[0]}(" in (ROOT / path).read_text(encoding="utf-8")


def main() -> int:
    """Prints a line for each fault, and which lived."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="those whose file or words contain this")
    parser.add_argument("--first", type=positive, help="this many of them")
    parser.add_argument("--json", type=new_file, help="what became of each is written there, and read the next time")
    arguments = parser.parse_args()
    chosen = [each for each in read_mutations() if arguments.only in f"{each.file} {each.says}"][: arguments.first]
    found, known = [], killers_in(arguments.json)
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "copy"
        for name in ("src", "tests", "benchmarks", "pyproject.toml"):
            place = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
            copy.mkdir(exist_ok=True)
            place(ROOT / name, copy / name)
        for number, mutation in enumerate(chosen, start=1):
            began, before = time.monotonic(), put_in(mutation, copy / "src" / "pellucid")
            killer = killer_of(mutation, copy, known.get((mutation.file, mutation.says)))
            for path, text in before.items():
                path.write_text(text, encoding="utf-8")
            found.append({"file": mutation.file, "says": mutation.says, "killed_by": killer})
            print(f"{number:>3} of {len(chosen)}  {'died ' if killer else 'LIVED'}  {mutation.file}: {mutation.says}"
                  f"  ({killer or ', '.join(mutation.folders)}, {time.monotonic() - began:.0f} s)", flush=True)
        killers = {test for each in found if is_there(test := each["killed_by"] or "")}
        if killers and (failure := first_failure(copy, sorted(killers))):
            raise SystemExit(f"without a fault: {failure}")
    lived = [each for each in found if each["killed_by"] is None]
    print(f"{len(found) - len(lived)} of {len(found)} died")
    if arguments.json:
        arguments.json.write_text(json.dumps({"mutations": found}, indent=1) + "\n", encoding="utf-8")
    return 1 if lived else 0


if __name__ == "__main__":
    sys.exit(main())
