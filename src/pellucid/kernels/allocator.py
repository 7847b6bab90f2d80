"""Whose allocator finds memory: the C library's, or one that finds small pieces sooner.

oneDNN describes each product anew, in pieces of about 2 KB that glibc searches for. tcmalloc keeps such pieces at hand,
and a small model's training takes up to an eighth less time (docs/performance.md). The results are the same to the bit.

A process has its allocator from its beginning, so one that is to train starts itself anew where there is a better one.
"""

import contextlib
import ctypes
import os
import sys
from ctypes.util import find_library
from pathlib import Path
from typing import Any

PRELOAD = "LD_PRELOAD"  # whoever has set it, and be it to nothing, decides
_TCMALLOC = ("tcmalloc_minimal", "tcmalloc")  # gperftools': the first has no profilers
_MARKS = {"tc_version": "tcmalloc", "mallctl": "jemalloc", "mi_version": "mimalloc", "gnu_get_libc_version": "glibc"}
_GPU = Path("/dev/nvidiactl")  # beside whose driver nobody has tried it


def in_use() -> str:
    """Whose allocator this process has: ``tcmalloc``, ``jemalloc``, ``mimalloc``, ``glibc``; else ``the system's``."""
    return next((name for function, name in _MARKS.items() if _here(function)), "the system's")


def give_back() -> None:
    """Gives what was freed back to the system, so that what is resident is what is held."""
    if release := _here("MallocExtension_ReleaseFreeMemory"):
        release()
    elif trim := _here("malloc_trim"):
        trim(0)


def _here(function: str) -> Any:
    """A function that any library of this process has; None where there is none."""
    return getattr(ctypes.CDLL(None), function, None) if os.name == "posix" else None


def better() -> str | None:
    """The library that training would have in place of glibc's allocator; None where that stays, or is not in use."""
    if sys.platform != "linux" or in_use() != "glibc" or PRELOAD in os.environ or _GPU.exists():
        return None
    return next(filter(None, map(find_library, _TCMALLOC)), None)


def start_anew() -> None:
    """Starts this program from its beginning with the better allocator; returns where there is none.

    The process stays the same for those who wait for it: its number, its open files, its folder.
    """
    if library := better():
        with contextlib.suppress(OSError):  # too little memory, say: training will tell
            os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], {**os.environ, PRELOAD: library})
