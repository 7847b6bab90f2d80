"""Every write that must survive: whole or not at all, on the disk before it is named, and checked when read back.

A file is written beside its place, flushed to the disk, and renamed over it; a folder likewise. After a crash there is
the old one or the new one, never half of either. What the system then still loses or changes, digests show.
"""

import contextlib
import ctypes
import errno
import hashlib
import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from pellucid.cache import cache_folder, delete, is_scratch, scratch_name, tell_of_damage
from pellucid.errors import CheckpointError, OutputError, check_format, no_right, right_to_read

MANIFEST = "manifest.json"
REPAIR = "copy it again, or run the same `pellucid train` command again: it goes on from what is whole"
_FORMAT = 1
_LARGE = 2**20  # bytes; the SHA-256 of what is smaller is there in 1 ms


@contextlib.contextmanager
def output_errors(path: Path) -> Iterator[None]:
    """Turns the system's refusal to write `path` into an OutputError that says what is needed."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise OutputError("the disk is full", where=str(path), why=f"{free_bytes(path):,} bytes are free there",
                              fix="free some space and run it again: nothing that was saved is lost") from error
        raise OutputError(f"cannot write: {error.strerror or error}", where=str(path),
                          fix="check the path and its permissions") from error


def free_bytes(path: Path) -> int:
    """Free where `path` is, or would be."""
    place = next(place for place in (path.absolute(), *path.absolute().parents) if place.exists())
    return shutil.disk_usage(place).free


def make_folder(path: Path) -> None:
    """Makes the folder and its parents, on the disk when this returns.

    Raises:
        OutputError: it cannot be made.
    """
    with output_errors(path):
        missing = [place for place in (path, *path.parents) if not place.exists()]
        path.mkdir(parents=True, exist_ok=True)
        for place in missing:
            sync_folder(place.parent)


@contextlib.contextmanager
def writing(path: Path) -> Iterator[BinaryIO]:
    """A file to write, which takes the place of `path` at once when the block ends, and goes when it fails: a reader,
    or a crash, sees the old file or the new one.

    Raises:
        OutputError: disk full, no permission.
    """
    with _beside(path) as temporary:
        with temporary.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)


def write_bytes(path: Path, data: bytes) -> None:
    """Replaces `path` with `data`, as `writing` does."""
    with writing(path) as file:
        file.write(data)


def write_text(path: Path, text: str) -> None:
    """`write_bytes` of the text in UTF-8; bytes of a file's name that are none become ``\\udcXX``, which JSON reads as
    the same name."""
    write_bytes(path, text.encode("utf-8", "backslashreplace"))


def write_json(path: Path, value: Any) -> None:
    """`write_text` of the value as readable JSON; NaN and infinity are refused."""
    write_text(path, json.dumps(value, ensure_ascii=False, indent=2, allow_nan=False) + "\n")


def append_line(path: Path, line: str) -> None:
    """Appends one line in a single write, on the disk when this returns.

    Raises:
        OutputError: disk full, no permission.
    """
    with output_errors(path), path.open("ab") as file:
        file.write(line.encode("utf-8", "backslashreplace") + b"\n")
        file.flush()
        os.fsync(file.fileno())


def write_folder(path: Path, fill: Callable[[Path], None]) -> None:
    """Makes the folder `path` whole: `fill` writes its files into a folder beside it, a manifest with their sizes and
    SHA-256 is written last, everything is flushed, and one rename puts it in place. An older folder is replaced.

    Raises:
        OutputError: disk full, no permission; what stood at `path` still stands.
    """
    with _beside(path) as temporary:
        temporary.mkdir()
        fill(temporary)
        files = sorted(temporary.iterdir())
        for file in files:
            with file.open("r+b") as handle:  # Windows flushes only what may be written
                os.fsync(handle.fileno())
        entries = {file.name: {"bytes": file.stat().st_size, "sha256": sha256(file)} for file in files}
        write_json(temporary / MANIFEST, {"format": _FORMAT, "files": entries})
        _put_in_place(temporary, path)


@contextlib.contextmanager
def _beside(path: Path) -> Iterator[Path]:
    """A free name for what is to take the place of `path`; whatever still has it at the end is removed."""
    make_folder(path.parent)
    temporary = scratch_name(path)
    with output_errors(path):
        try:
            yield temporary
        finally:
            delete(temporary)
        sync_folder(path.parent)


def _put_in_place(new: Path, path: Path) -> None:
    """Renames the folder `new` to `path`; an older folder there ends up as `new`, or is gone."""
    try:
        new.replace(path)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        if not _exchange(new, path):  # for an instant there is neither
            aside = scratch_name(path)
            path.replace(aside)
            new.replace(path)
            shutil.rmtree(aside, ignore_errors=True)


def _exchange(a: Path, b: Path) -> bool:
    """Swaps two folders in a single step; false where the system (Linux 3.15 can) or the file system cannot."""
    if not sys.platform.startswith("linux"):
        return False
    rename = getattr(ctypes.CDLL(None), "renameat2", None)
    here, swap = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    return rename is not None and rename(here, os.fsencode(a), here, os.fsencode(b), swap) == 0


def check_folder(path: Path) -> None:
    """Compares a folder with its manifest.

    Raises:
        CheckpointError: no folder, no manifest, a file missing, cut short or changed, a file that is no plain file.
    """
    for name, (size, digest) in _entries(path).items():
        _check(path, name, size, digest, sha256)


def is_kept(path: Path, names: Collection[str]) -> bool:
    """Whether the folder `path` of the cache has these files, as `write_folder` once put them there.

    All of every file counts: a bit that has changed in weights shows in nothing but other translations. What the disk
    forgets in a file that nobody touched is not noticed; who reads a file of the cache checks its bounds, too.

    Warns:
        PellucidWarning: something is there, but not that.
    """
    if not os.path.lexists(path):
        return False
    try:
        if path.is_symlink():
            raise CheckpointError("it is a symbolic link")
        entries = _entries(path)
        if entries.keys() != set(names):
            raise CheckpointError(f"its files are others: {', '.join(entries)}")
        for name, (size, digest) in entries.items():
            _check(path, name, size, digest, remembered_sha256)
    except (CheckpointError, OSError) as error:
        tell_of_damage(path, error)
        return False
    return True


def checked_sha256(path: Path, name: str, anew: bool = False) -> str:
    """The SHA-256 of a file of a folder, compared with the manifest; `anew`, or else as `remembered_sha256` has it.

    Raises:
        CheckpointError: as `check_folder`, or the manifest does not list it.
    """
    entries = _entries(path)
    if name not in entries:
        raise CheckpointError("the file is missing", where=str(path / name), fix=REPAIR)
    size, digest = entries[name]
    _check(path, name, size, digest, sha256 if anew else remembered_sha256)
    return digest


@right_to_read()
def _entries(path: Path) -> dict[str, tuple[int, str]]:
    """The size and the SHA-256 of each file, as the manifest has them."""
    if (path / MANIFEST).is_symlink():
        raise CheckpointError("the manifest is no plain file", where=str(path / MANIFEST))
    manifest = read_json(path / MANIFEST, REPAIR)
    check_format(manifest.get("format") if isinstance(manifest, dict) else None, _FORMAT, str(path / MANIFEST))
    try:
        if manifest["format"] != _FORMAT:
            raise ValueError(f"its format is {manifest['format']!r}, this version reads {_FORMAT}")
        return {str(name): (int(entry["bytes"]), str(entry["sha256"])) for name, entry in manifest["files"].items()}
    except (KeyError, TypeError, ValueError, OverflowError, AttributeError) as error:
        raise CheckpointError("the manifest is damaged", where=str(path / MANIFEST), why=str(error)) from error


@right_to_read()
def _check(folder: Path, name: str, size: int, digest: str, digest_of: Callable[[Path], str]) -> None:
    file, fault, why = folder / name, "", ""
    if Path(name).name != name or file.is_symlink() or not file.is_file():
        fault = "is missing or is no plain file"
    elif file.stat().st_size != size:
        fault, why = f"has {file.stat().st_size:,} bytes where {size:,} were written", "it was cut short or replaced"
    elif digest_of(file) != digest:
        fault, why = "is damaged", "its SHA-256 is not the one in manifest.json"
    if fault:
        raise CheckpointError(f"the file {fault}", where=str(file), why=why, fix=REPAIR)


def read_json(path: Path, fix: str = "copy it again") -> Any:
    """The JSON value in `path`, which we wrote; where there is none, the error says how to `fix` that.

    Raises:
        CheckpointError: missing, no permission, no plain file (which may never end), or no JSON.
    """
    try:
        if not path.is_file() and path.exists():
            raise ValueError("it is no plain file")
        return json.loads(path.read_bytes())
    except FileNotFoundError as error:
        raise CheckpointError("a file is missing", where=str(path), fix=fix) from error
    except PermissionError as error:
        raise no_right(error) from error
    except (OSError, ValueError, RecursionError) as error:
        raise CheckpointError("a file cannot be read as JSON", where=str(path), why=str(error), fix=fix) from error


def sha256(path: Path) -> str:
    """The SHA-256 of a file, read in pieces."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def remembered_sha256(path: Path) -> str:
    """`sha256`; a large file's is taken from the cache for as long as the file stays untouched: the same inode, size
    and times of change to the nanosecond, none from the last seconds, where a clock may tick too coarsely to tell."""
    before = path.stat()
    if before.st_size < _LARGE:
        return sha256(path)
    state = [str(path.resolve()), before.st_dev, before.st_ino, before.st_size, before.st_mtime_ns, before.st_ctime_ns]
    note = cache_folder("digests") / hashlib.sha256(json.dumps(state).encode()).hexdigest()
    with contextlib.suppress(OSError, ValueError):
        digest = note.read_text(encoding="ascii").strip()
        if len(digest) == 64:
            return digest
    digest = sha256(path)
    is_old = time.time_ns() - max(before.st_mtime_ns, before.st_ctime_ns) > 2 * 10**9
    if is_old and path.stat().st_ctime_ns == before.st_ctime_ns:
        with contextlib.suppress(OutputError):  # it is only a short cut
            write_text(note, digest + "\n")
    return digest


def remove_leftovers(folder: Path, unused: float = 0.0, of: Path | None = None) -> None:
    """Removes what a killed writer left unfinished in `folder`, if nothing was written to it for `unused` seconds: all
    of it, or what was to become `of`."""
    for path in [path for path in (folder.iterdir() if folder.is_dir() else ()) if is_scratch(path, of)]:
        with contextlib.suppress(FileNotFoundError):  # its writer has finished meanwhile
            if time.time() - path.lstat().st_mtime >= unused:
                delete(path)


def sync_folder(path: Path) -> None:
    """The names in it; Windows has no such thing."""
    if sys.platform == "win32":
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
