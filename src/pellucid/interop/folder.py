"""Folders that are written for others: whole at once, and never over something."""

import contextlib
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pellucid.cache import scratch_name
from pellucid.errors import ConfigError
from pellucid.files import make_folder, output_errors, remove_leftovers, sync_folder

_LEFT = 3600.0  # seconds; what is younger may be of another that is at work


@dataclass(frozen=True)
class Written:
    """What was written for others.

    Attributes:
        what: what it is, in the words of who reads it.
        files: their names, with their bytes.
        notes: what is otherwise there than here, a sentence each.
    """

    what: str
    files: dict[str, int]
    notes: tuple[str, ...]


def refuse_existing(out: Path) -> None:
    """Raises a ConfigError if there is something at `out`."""
    if os.path.lexists(out):
        raise ConfigError("there is something already", where=str(out), fix="give another --out: nothing is replaced")


@contextlib.contextmanager
def new_folder(out: Path) -> Iterator[Path]:
    """A folder to fill, which gets the name `out` when the block ends and all of it is on the disk, and goes when it
    fails. What one that was killed long ago left for `out` goes first.

    Raises:
        ConfigError: there is something at `out`.
        OutputError: disk full, no permission.
    """
    refuse_existing(out)
    make_folder(out.absolute().parent)
    temporary = scratch_name(out)
    with output_errors(out):
        remove_leftovers(temporary.parent, _LEFT, of=out.absolute())
        try:
            temporary.mkdir()
            yield temporary
            for path in [*temporary.rglob("*"), temporary]:
                if path.is_dir():
                    sync_folder(path)
                else:
                    with path.open("r+b") as file:
                        os.fsync(file.fileno())
            temporary.rename(out)
            sync_folder(out.absolute().parent)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)


def sizes(folder: Path) -> dict[str, int]:
    """The bytes of each file below a folder, by its name in there."""
    return {path.relative_to(folder).as_posix(): path.stat().st_size
            for path in sorted(folder.rglob("*")) if path.is_file()}
