"""Who does what, where several processes share a folder: each claims a piece of work, and death releases it.

A claim is a lock (flock) on a file of its own, which stays behind. The system takes the lock back however its process
ends, so what a killed one left is claimed by the next that comes. A claim saves work and nothing else: where the file
system has no locks, or where they hold within one machine only, a piece may be done twice. So whoever uses it writes
beside and renames (files.py), and does a piece alike wherever it is done.
"""

import contextlib
import errno
import fcntl
import os
import random
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from pellucid.errors import PellucidWarning
from pellucid.files import make_folder, output_errors

_NO_LOCKS = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EINVAL}
_PATIENCE = 0.5  # seconds between two looks at a claim that is waited for
_held: set[int] = set()


@contextlib.contextmanager
def claimed(path: Path) -> Iterator[bool]:
    """Whether the claim is this process's, until the block or the process ends. False: a living one has it.

    Raises:
        OutputError: the file cannot be made.

    Warns:
        PellucidWarning: the file system has no locks; every process is told that the claim is its own.
    """
    make_folder(path.parent)
    with output_errors(path):
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)  # NFS locks what may be written
    _held.add(handle)
    try:
        is_ours = lock(handle, path)
        if is_ours:
            with contextlib.suppress(OSError):  # the disk is full: only the name is missing
                os.ftruncate(handle, 0)
                os.write(handle, f"{os.uname().nodename}, process {os.getpid()}\n".encode())
        yield is_ours
    finally:
        _held.discard(handle)
        os.close(handle)


@contextlib.contextmanager
def awaited(path: Path, say: Callable[[str], None]) -> Iterator[None]:
    """The same claim, waited for. `say` is called with who has it (see `holder`), again and again while that takes
    time. Raises and warns as `claimed`."""
    while True:
        with claimed(path) as is_ours:
            if is_ours:
                yield
                return
        say(holder(path))
        time.sleep(_PATIENCE)


def holder(path: Path) -> str:
    """Who had the claim last, as "HOST, process 123"; empty where nobody knows."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")[:200].strip()
    except OSError:
        return ""


def share_out(pieces: Sequence[str], claims: Path, is_done: Callable[[str], bool],
              do: Callable[[str], None]) -> list[str]:
    """Does each piece that nobody has done, nor is doing, until there is none. It goes through them in an order drawn
    for this process alone, so that two seldom want the same one.

    Args:
        pieces: their names, relative paths.
        claims: the folder where they are claimed, the same for all processes.
        is_done: cheap; asked before and after a piece is claimed.
        do: called once for a piece at most; it may leave the piece undone.

    Returns:
        Those that living processes are still doing.

    Raises:
        OutputError: as `claimed`; and what `is_done` and `do` raise.
    """
    left = random.Random().sample(pieces, len(pieces))
    while True:
        busy, any_done = list[str](), False
        for piece in left:
            if is_done(piece):
                continue
            with claimed(claims / piece) as is_ours:
                if not is_ours:
                    busy.append(piece)
                elif not is_done(piece):  # by another, meanwhile
                    do(piece)
                    any_done = True
        if not busy or not any_done:  # else one of those may have died
            return busy
        left = busy


def lock(handle: int, path: Path, how: int = fcntl.LOCK_EX) -> bool:
    """Whether this process has the lock of an open file now, alone or, by LOCK_SH, beside others; false: another one
    has it.

    Raises:
        OutputError: it cannot be locked.

    Warns:
        PellucidWarning: the file system has no locks; every process is told that it has it.
    """
    try:
        fcntl.flock(handle, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            with output_errors(path):
                raise
        warnings.warn(f"the file system has no locks ({error.strerror}): nothing keeps two processes in {path.parent} "
                      "from the same work", PellucidWarning, stacklevel=5)
    return True


def _release() -> None:
    """In a child that was forked: a claim belongs to the process that made it, however long the child lives."""
    for handle in _held:
        os.close(handle)
    _held.clear()


os.register_at_fork(after_in_child=_release)
