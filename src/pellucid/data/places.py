"""Where the files of a run's data lie now. A relative path is looked up in the present folder, then in the one that it
was given in, which the run's data.json remembers; the SHA-256 there tells them from other files of the same name.
"""

import contextlib
from dataclasses import dataclass
from pathlib import Path

from pellucid.config import Split
from pellucid.data import hub, shards
from pellucid.errors import CheckpointError, DataError
from pellucid.files import read_json


@dataclass(frozen=True)
class Known:
    """What a run remembers of the files of a split.

    Args:
        record: the file that remembers it, data.json.
        given: the files, as the configuration names them.
        directory: in which they were given, if a path of them is relative and this was recorded; else "".
        sha256: of the files, as of `shards.sha256_of`.
    """

    record: Path
    given: Split
    directory: str
    sha256: str

    def is_of(self, found: Split) -> bool:
        """Whether these files are those that the run had; what cannot be read is not."""
        try:
            return shards.sha256_of(found) == self.sha256
        except DataError:
            return False

    def check(self, name: str, found: Split) -> None:
        """Makes sure that the files `found`, of the split of this name, are those that the run had.

        Raises:
            DataError: they are not; every place that was looked at is named.
        """
        if self.is_of(found):
            return
        places = {_named(place): place for place in (self.given, inside(self.given, self.directory))}
        seen = {name: self._state(place) for name, place in places.items()}
        changed = any(state.startswith(_OTHER) for state in seen.values())
        raise DataError(f"the {name} data changed since this run began" if changed else
                        f"the {name} data of this run is not there any more", where=str(self.record),
                        why="looked at " + "; ".join(f"{place}: {state}" for place, state in seen.items()),
                        fix="put the files back, or work in the folder that has them; evaluate takes others by "
                            "--source and --target, train in another --out")

    def _state(self, split: Split) -> str:
        try:
            shards.sha256_of(split)
            files = [Path(file) for shard in shards.shards_of(split) for file in shard.files]
        except DataError as error:
            return f"{error.what} ({error.where})"
        with contextlib.suppress(OSError):
            recorded = self.record.stat().st_mtime
            later = [file.name for file in files if file.stat().st_mtime > recorded]
            if later and len(files) > 1:
                more = f" and {len(later) - _TOLD:,} more" if len(later) > _TOLD else ""
                return f"{_OTHER}; written to since it was recorded: {', '.join(later[:_TOLD])}{more}"
        return _OTHER


_OTHER = "other data, its SHA-256 is not the recorded one"
_TOLD = 5  # files


def _named(split: Split) -> str:
    return " and ".join(path if hub.is_address(path) else str(Path(path).absolute()) for path in split.paths)


def known_of(record: Path, name: str, given: Split) -> Known | None:
    """What data.json remembers of the split of this name; None where that is nothing that can be used."""
    try:
        about = read_json(record)[name]
        sha256, directory = about["sha256"], about.get("directory", "")
    except (CheckpointError, KeyError, TypeError, AttributeError):
        return None
    if not isinstance(sha256, str) or len(sha256) != 64:
        return None
    is_place = isinstance(directory, str) and Path(directory).is_absolute()
    return Known(record, given, directory if is_place else "", sha256)


def locate(given: Split, known: Known | None) -> tuple[Split, str]:
    """The files of a split, as they are given or where the run had them, and the folder of its relative paths; "" where
    no path is relative."""
    here = _working_directory() if _is_relative(given) else ""
    if known is None or not here or known.directory in ("", here):
        return given, here
    there = inside(given, known.directory)
    if not all(map(shards.are_there, there.paths)):
        return given, here
    if known.is_of(given):
        return given, here
    return there, known.directory


def inside(split: Split, directory: str) -> Split:
    """The split with its relative paths in this folder."""
    there = split.renamed(lambda path: path if hub.is_address(path) else str(Path(directory, path)))
    return there if directory else split


def _is_relative(split: Split) -> bool:
    return any(not hub.is_address(path) and not Path(path).is_absolute() for path in split.paths)


def _working_directory() -> str:
    try:
        return str(Path.cwd())
    except OSError:  # it has been removed
        return ""
