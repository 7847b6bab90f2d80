"""The care of runs: what lies in a folder of runs, in which state each of them is, and what of it nobody needs.

What a run needs to be loaded, evaluated and resumed stays: the chosen weights, the newest checkpoint whole, and the
weights, without the optimizer's moments, of those that are averaged at the end.
"""

import contextlib
import fcntl
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Literal

from pellucid.cache import is_scratch
from pellucid.errors import CheckpointError, UserError
from pellucid.files import MANIFEST, check_folder, read_json, write_folder
from pellucid.runs.folder import ENDED, read_config
from pellucid.runs.format import AVERAGE, ENVIRONMENT, MOMENTS, STARTED
from pellucid.runs.scored import EVALUATION
from pellucid.runs.slim import MARK, all_files, plain_files, size_of

State = Literal["running", "finished", "interrupted", "not begun", "slim copy", "unreadable"]
_SIGNS = (".lock", "checkpoints", ENVIRONMENT, "tokenizer")  # one of them beside config.yaml: a run
_OF_START = {"config.yaml": "", ".lock": "", "data.json": "", ENVIRONMENT: "", STARTED: "", "metrics.jsonl": "",
             "tokenizer": "tokenizer.json", "data": "generated.json", "checkpoints": ""}
# What a start leaves, and the file that tells that a folder of that name is ours.
_LEFT = 60.0  # seconds after which what has a temporary name is taken for forgotten


@dataclass(frozen=True)
class Listed:
    """One run.

    Attributes:
        run: its folder.  task: None where it cannot be read.
        state: running, where a process holds the folder now; interrupted, where updates are left to be made.
        why: what cannot be read.
        step, steps: updates made; to be made, None where epochs decide.
        monitor, score: the validation score of the chosen weights, None where there are none.
        bytes: of all its files.  date: of the newest checkpoint, or of the configuration; local time, ISO 8601.
    """

    run: str
    task: str | None
    state: State
    why: str
    step: int
    steps: int | None
    monitor: str | None
    score: float | None
    bytes: int
    date: str


def find_runs(folder: Path) -> list[Path]:
    """The run folders in `folder`, at any depth, or `folder` itself; none inside of another, no link followed."""
    found = []
    for place, folders, files in os.walk(folder):
        if "config.yaml" in files and any(sign in folders or sign in files for sign in _SIGNS):
            found.append(Path(place))
            folders.clear()
        folders[:] = sorted(name for name in folders if not name.startswith("."))
    return found


def look_at(run: Path) -> Listed:
    """What can be told of a run without reading its weights."""
    best, last = _pointers(run)
    task, steps, why = None, None, ""
    try:
        config = read_config(run)
        task, steps = config.task, config.train.steps if config.train.epochs is None else None
    except UserError as error:
        why = error.what
    number = last.get("step") if last else best.get("step")
    step = number if isinstance(number, int) else 0
    score = best.get("score")
    files = (run / "last.json", run / "best.json", run / "config.yaml")
    changed = next(filter(os.path.exists, files), run)  # of what may be looked at
    return Listed(str(run), task, "unreadable" if why else _state(run, step), why, step, steps,
                  str(best["monitor"]) if "monitor" in best else None,
                  float(score) if isinstance(score, int | float) else None, size_of(run),
                  datetime.fromtimestamp(changed.stat().st_mtime, UTC).astimezone().isoformat(timespec="seconds"))


def _state(run: Path, step: int) -> State:
    if is_held(run):
        return "running"
    if (run / MARK).exists():
        return "slim copy"
    if not any(True for _ in (run / "checkpoints").glob("step-*")):
        return "not begun"
    return "finished" if (run / ENDED).exists() or _step_of_card(run) == step else "interrupted"


def _step_of_card(run: Path) -> int | None:
    """The updates that the model card tells of: it is written at the end, and was before ended.json."""
    with contextlib.suppress(OSError, UnicodeDecodeError):
        told = re.search(r"^Trained for ([\d,]{1,20}) updates", (run / "README.md").read_text("utf-8"), re.MULTILINE)
        return int(told[1].replace(",", "")) if told else None
    return None


def _pointer(path: Path) -> dict[str, Any]:
    try:
        value = read_json(path)
    except CheckpointError:
        return {}
    return value if isinstance(value, dict) else {}


def is_held(run: Path) -> bool:
    """Whether a process is training in the folder now, by its lock."""
    try:
        with held(run):
            return False
    except BlockingIOError:
        return True


@contextlib.contextmanager
def held(run: Path) -> Iterator[None]:
    """Holds the run's lock, so that no training begins meanwhile. Raises BlockingIOError where a process has it."""
    with contextlib.ExitStack() as stack:
        try:
            lock = stack.enter_context((run / ".lock").open("rb"))
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            raise
        except OSError:  # nobody has trained there, or the file system has no locks: nobody can tell
            pass
        yield


@dataclass(frozen=True)
class Waste:
    """Something that nobody needs: where, what it is, the bytes that go, how it goes, and whether it is that still."""

    path: Path
    what: str
    bytes: int
    remove: Callable[[], None]
    is_waste: Callable[[], bool] = lambda: True


def waste_in(folder: Path) -> tuple[list[Waste], list[str]]:
    """What can go in a folder of runs, and what was passed over, a sentence each."""
    found, passed = [_leftover(path) for path in _leftovers(folder)], []
    for run in find_runs(folder):
        if is_held(run):
            passed.append(f"{run} is being trained")
            continue
        try:
            found += _of_run(run, run != folder)
        except UserError as error:
            passed.append(f"{run} stays as it is: {error.what}")
        except PermissionError as error:
            passed.append(f"{run} stays as it is: no permission to read {error.filename}")
    return found, passed


def _of_run(run: Path, is_inside: bool) -> Iterator[Waste]:
    if _is_failed_start(run):
        yield Waste(run, "a start that failed, nothing was trained", size_of(run), partial(shutil.rmtree, run),
                    partial(_is_failed_start, run))
        return
    if is_inside:
        yield from map(_leftover, _leftovers(run))
    for name in ("checkpoints", "figures", EVALUATION, "inspection"):
        yield from map(_leftover, _leftovers(run / name))
    yield from _of_checkpoints(run)


def free(waste: Waste) -> int:
    """Takes it away, unless a training is there, or has made something of it meanwhile; the bytes that went."""
    run = next((place for place in (waste.path, *waste.path.parents) if (place / ".lock").exists()), None)
    with contextlib.suppress(BlockingIOError), held(run) if run is not None else contextlib.nullcontext():
        if waste.is_waste():
            waste.remove()
            return waste.bytes
    return 0


def _is_failed_start(run: Path) -> bool:
    """Whether there is nothing in it but what a start leaves, every file of it ours."""
    names = {path.name for path in run.iterdir() if not is_scratch(path)}
    is_ours = ".lock" in names and names <= _OF_START.keys() and all((run / name / _OF_START[name]).exists()
                                                                     for name in names)
    try:
        read_config(run)
    except UserError:
        return False
    return is_ours and not any(not is_scratch(path) for path in (run / "checkpoints").glob("*"))


def _of_checkpoints(run: Path) -> Iterator[Waste]:
    """Those that are neither chosen nor newest nor averaged at the end, and the moments of all but the newest.

    Raises:
        CheckpointError: it cannot be told which these are.
    """
    config = read_config(run)
    steps = sorted(path for path in (run / "checkpoints").glob("step-*") if path.name[5:].isdigit() and path.is_dir())
    if not steps or (run / MARK).exists() or not (run / "last.json").exists():  # a slim copy, or one from elsewhere
        return
    if not (run / "best.json").exists():
        raise CheckpointError("none of its weights are in use yet")
    pointers = _pointers(run)
    is_still = partial(_points_to, run, pointers)
    best, last = (pointer.get("checkpoint") for pointer in pointers)
    if last != steps[-1].name or not (run / "checkpoints" / str(best)).is_dir():
        raise CheckpointError("best.json and last.json do not name checkpoints that are there")
    check_folder(steps[-1])
    before = _pointer(steps[-1] / "state.json").get("best_step")  # the best, even where their mean is chosen
    averaged = steps[-config.train.average_last - 1:] if config.train.average_last > 1 else []  # and one unvalidated
    keep = {best, last, *(path.name for path in averaged), f"step-{before:08d}" if isinstance(before, int) else ""}
    for path in [*steps, run / "checkpoints" / AVERAGE]:
        if path.is_dir() and path.name not in keep:
            yield Waste(path, "neither chosen nor newest", size_of(path), partial(shutil.rmtree, path), is_still)
        elif path.name != last and (path / MOMENTS).is_file():
            check_folder(path)
            yield Waste(path / MOMENTS, "moments of the optimizer, not the newest", (path / MOMENTS).stat().st_size,
                        partial(_without_moments, path), is_still)


def _pointers(run: Path) -> list[dict[str, Any]]:
    """What best.json and last.json say, of which every training that saves changes one."""
    return [_pointer(run / f"{name}.json") for name in ("best", "last")]


def _points_to(run: Path, pointers: list[dict[str, Any]]) -> bool:
    return _pointers(run) == pointers


def _without_moments(checkpoint: Path) -> None:
    """Writes the checkpoint anew, whole, its weights being the same file."""
    def fill(place: Path) -> None:
        for path in plain_files(checkpoint):
            if path.name not in (MOMENTS, MANIFEST):
                try:
                    os.link(path, place / path.name)
                except OSError:  # a file system without hard links
                    shutil.copyfile(path, place / path.name)

    write_folder(checkpoint, fill)


def _leftovers(folder: Path) -> list[Path]:
    """What a killed writer left in a folder, some time ago."""
    if not folder.is_dir():
        return []
    found = []
    for path in filter(is_scratch, sorted(folder.iterdir())):
        with contextlib.suppress(FileNotFoundError):  # its writer has put it in place meanwhile
            if time.time() - max(one.lstat().st_mtime for one in (path, *all_files(path))) > _LEFT:
                found.append(path)
    return found


def _leftover(path: Path) -> Waste:
    size = size_of(path) if path.is_dir() else path.lstat().st_size
    return Waste(path, "left unfinished by a process that was killed", size,
                 lambda: shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink())
