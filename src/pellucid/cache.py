"""Where things are kept that can be made again: folders of this user's, which nobody else may write to.

What lies there is believed: kernels are loaded from it and run. A folder that another user owns or may write to is not
used, nor a link that another one made; a private folder takes its place for as long as this process runs. Windows keeps
a user's home from others by itself: nothing is asked of owners and modes there.

What is made without being asked for is bounded: $PELLUCID_CACHE_GIB, 20 if left out; what was used longest ago goes.
"""

import atexit
import contextlib
import functools
import os
import re
import shutil
import stat
import sys
import tempfile
import time
import warnings
from dataclasses import dataclass
from pathlib import Path

from pellucid.errors import PellucidWarning, UserError

KINDS = {"ids": "token ids of data", "engines": "packed weights", "digests": "SHA-256 of large files",
         "hub": "data sets of the Hub", "kernels": "compiled kernels"}
_PLACES = {"ids": "*", "engines": "*/*", "digests": "*", "hub": "*", "kernels": "*"}  # where each thing of a kind lies
_BOUNDED = ("ids", "engines", "digests")
_LIMIT = 20.0  # GiB
_IN_USE = 3600.0  # seconds since its last use, within which nothing goes by itself
_OTHERS = stat.S_IWGRP | stat.S_IWOTH


def cache_folder(*names: str) -> Path:
    """The folder of these names, one in the other, in $PELLUCID_CACHE or ~/.cache/pellucid; made if there is none.

    It and those that are made are open to this user alone (0700), so what lies below can only be this user's. Where no
    such folder is to be had (see `objection`; or nobody knows of a home, or it is read-only), a temporary one is given,
    which goes when this process ends, and a PellucidWarning says why, once.
    """
    try:
        return _private(_root(), names)
    except (OSError, RuntimeError) as error:  # pathlib's, of a user without a home or of links in a circle
        _tell(f"what the cache would keep is made anew in each process: {error}")
    try:
        return _private(_temporary(os.getpid()), names)
    except OSError:  # not even that
        return Path(os.devnull).joinpath("pellucid", *names)  # nothing can be written there, nor be read


def lasts(folder: Path) -> bool:
    """Whether a later process will find what is put into a folder that `cache_folder` gave."""
    root = root_folder()
    return root is not None and folder.is_relative_to(root)


@dataclass(frozen=True)
class Kept:
    """One thing in the cache: of which kind, where, its bytes, and when it was last used, in seconds since 1970."""

    kind: str
    path: Path
    bytes: int
    used: float


def root_folder() -> Path | None:
    """Where the cache is, or would be; None where nobody knows."""
    try:
        return _root()
    except (OSError, RuntimeError):
        return None


def contents() -> list[Kept]:
    """All that is kept now. Nothing is made, and no link is followed."""
    root, found = root_folder(), list[Kept]()
    for kind, pattern in _PLACES.items():
        for path in sorted((root / kind).glob(pattern)) if root is not None else ():
            with contextlib.suppress(OSError):  # it has gone meanwhile
                states = [one.lstat() for one in (path, *path.rglob("*"))] if not path.is_symlink() else []
                if states:
                    size = sum(state.st_size for state in states if stat.S_ISREG(state.st_mode))
                    found.append(Kept(kind, path, size, max(state.st_mtime for state in states)))
    return found


def limit_bytes() -> int:
    """How much may be kept of what is made without being asked for."""
    given = os.environ.get("PELLUCID_CACHE_GIB", "")
    try:
        gib = float(given or _LIMIT)
        return int(gib * 2**30)
    except (ValueError, OverflowError):  # no number, not a number, infinite
        _tell(f"PELLUCID_CACHE_GIB is {given!r}, which is no number: {_LIMIT:g} is used")
        return int(_LIMIT * 2**30)


def bound() -> None:
    """Removes what was used longest ago, until no more is kept than may be; nothing that was used within the hour."""
    kept = sorted((one for one in contents() if one.kind in _BOUNDED), key=lambda one: one.used)
    over = sum(one.bytes for one in kept) - limit_bytes()
    for one in kept:
        if over <= 0 or time.time() - one.used < _IN_USE:
            break
        remove(one.path)
        over -= one.bytes


def scratch_name(path: Path) -> Path:
    """A name beside `path`, which nothing has, for what is not whole yet, or not any more."""
    path = path.absolute()  # "." has no name
    return path.with_name(f".tmp-{os.urandom(16).hex()}-{path.name}")


def is_scratch(path: Path, of: Path | None = None) -> bool:
    """Whether a path has such a name, made for `of` or, without it, for any."""
    found = re.fullmatch(r"\.tmp-[0-9a-f]{32}-(.+)", path.name, re.DOTALL)
    return found is not None and (of is None or found[1] == of.name)


def remove(path: Path) -> None:
    """Takes it away in one step, so that who looks meanwhile finds all of it or nothing."""
    with contextlib.suppress(OSError):
        aside = scratch_name(path)
        path.replace(aside)
        delete(aside)


def delete(path: Path) -> None:
    """A file, or a folder as far as that can be."""
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def note_use(path: Path) -> None:
    """Remembers that what lies there was used now."""
    with contextlib.suppress(OSError):
        os.utime(path)


def objection(path: Path) -> str | None:
    """Why somebody else may decide what lies at `path`, which exists; None where only this user (and root) can.

    Raises:
        OSError: it cannot be looked at.
    """
    state = path.lstat()
    if stat.S_ISLNK(state.st_mode):
        return f"{path} is a symbolic link"
    if not _is_ours(state):
        return f"{path} belongs to another user"
    if sys.platform != "win32" and state.st_mode & _OTHERS:
        return f"others may write to {path} (chmod -R go-w {path} forbids it)"
    return None


def is_own(path: Path) -> bool:
    """Whether a file of this user's lies at `path`, and no link: what another one put into a folder while it was open
    to all stays there when it is closed."""
    return os.path.lexists(path) and stat.S_ISREG(path.lstat().st_mode) and _is_ours(path.lstat())


def tell_of_damage(path: Path, error: Exception) -> None:
    """Warns that what is kept in `path` is not used, and why."""
    reason = error.why or error.what if isinstance(error, UserError) else error
    warnings.warn(f"what is kept in {path} is damaged or forged, and made anew: {reason}", PellucidWarning,
                  stacklevel=3)


def _is_ours(state: os.stat_result) -> bool:
    return sys.platform == "win32" or state.st_uid == os.geteuid()


def _root() -> Path:
    """The folder of all caches, its links followed.

    Raises:
        PermissionError: another user made one of the links, or may put another folder in its place.
        RuntimeError: nobody knows where it is.
    """
    given = os.environ.get("PELLUCID_CACHE")
    root = _absolute(given or str(Path.home() / ".cache" / "pellucid"))
    for link in filter(Path.is_symlink, (root, *root.parents)):
        if not _is_ours(link.lstat()) and link.lstat().st_uid != 0:
            raise PermissionError(f"the link {link} belongs to another user")
    root = root.resolve()
    for above in filter(Path.exists, root.parents if sys.platform != "win32" else ()):
        mode = above.stat().st_mode
        if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
            raise PermissionError(f"anybody may replace what lies in {above}")
    return root


@functools.cache
def _absolute(given: str) -> Path:
    """Where a path leads when this process first asks: the cache stays there, wherever it goes later."""
    return Path(given).absolute()


def _private(root: Path, names: tuple[str, ...]) -> Path:
    """The folder of these names in `root`.

    Raises:
        OSError: there cannot be one, it cannot be written, or there is an `objection`.
    """
    for place in (*reversed(root.parents), root):
        if not place.exists():
            place.mkdir(0o700, exist_ok=True)  # by another process meanwhile
    inner = [root.joinpath(*names[:count + 1]) for count in range(len(names))]
    for place in (root, *inner):
        place.mkdir(0o700, exist_ok=True)
        against = objection(place)
        if against:
            raise PermissionError(against)
    for place in inner:
        if stat.S_IMODE(place.stat().st_mode) & 0o077:  # as others have made it, or an earlier version
            place.chmod(0o700)
    if not os.access(inner[-1] if inner else root, os.W_OK | os.X_OK):
        raise PermissionError(f"{root} cannot be written")
    return inner[-1] if inner else root


@functools.cache
def _tell(what: str) -> None:
    warnings.warn(what, PellucidWarning, stacklevel=3)


@functools.cache
def _temporary(process: int) -> Path:
    """A folder of this process's own, for as long as it runs."""
    place = Path(tempfile.mkdtemp(prefix="pellucid-")).resolve()
    atexit.register(_remove, place, process)
    return place


def _remove(place: Path, process: int) -> None:
    if os.getpid() == process:  # not a child that was forked
        shutil.rmtree(place, ignore_errors=True)
