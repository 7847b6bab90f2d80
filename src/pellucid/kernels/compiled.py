"""Compiles kernels/ for this processor, once, and loads it; where that cannot be, torch's own serve.

Imports no torch, so that decoding can do without (see engine/frozen.py).
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from ctypes import c_float, c_int64, c_uint32, c_void_p
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pellucid.files import cache_folder

if TYPE_CHECKING:
    import torch

_FOLDER = Path(__file__).parent
_SOURCES, _HEADERS = sorted(_FOLDER.glob("*.cpp")), sorted(_FOLDER.glob("*.h"))
_SIGNATURES: dict[str, list[Any]] = {
    "drop": [c_void_p, c_void_p, c_int64, c_uint32, c_float, c_uint32, c_uint32],
    "drop_float_to": [c_void_p, c_void_p, c_int64, c_uint32, c_float, c_uint32, c_uint32],
    "add_dropped": [c_void_p, c_void_p, c_void_p, c_int64, c_uint32, c_float, c_uint32, c_uint32],
    "layer_norm": [c_void_p] * 6 + [c_int64, c_int64, c_float],
    "layer_norm_backward": [c_void_p] * 7 + [c_int64, c_int64],
    "attend": [c_void_p, c_void_p],
    "attend_backward": [c_void_p, c_void_p],
    "soften_rows": [c_void_p, c_void_p],
    "soften_rows_backward": [c_void_p, c_void_p, c_void_p],
    "exponentiate": [c_void_p] * 5 + [c_int64, c_int64],
    "r_drop": [c_void_p] * 5 + [c_float, c_int64, c_int64],
    "execute": [c_void_p, c_int64, c_void_p],
    "rank": [c_void_p, c_void_p, c_void_p, c_int64, c_int64, c_int64, c_void_p, c_int64],
    "search": [c_void_p],
}
NAMES = {f"{name}_{suffix}": arguments for name, arguments in _SIGNATURES.items() for suffix in ("bf16", "float")} | {
    "use_threads": [c_int64]}

# Sums may be reordered, so that they fill vectors; infinities and NaN keep their meaning.
_FLAGS = ["-O3", "-march=native", "-fopenmp", "-fPIC", "-shared", "-fno-exceptions", "-fno-rtti", "-fno-math-errno",
          "-fno-trapping-math", "-fno-signed-zeros", "-fassociative-math"]


class Library:
    """The compiled kernels in this process.

    Args:
        path: the file; its name stands for all that it was made from.
        threads: the OpenMP libraries that torch brings: threads are shared with it, whoever is loaded first.

    Attributes:
        functions: by their names in C++, as in `NAMES`.

    Raises:
        OSError: it is no library that fits this processor and system.
    """

    def __init__(self, path: Path, threads: list[str]) -> None:
        self.name = path.stem
        openmp = [ctypes.CDLL(each, ctypes.RTLD_GLOBAL) for each in threads]
        library = ctypes.CDLL(str(path))
        self.functions: dict[str, Callable[..., Any]] = {}
        for name, arguments in NAMES.items():
            function = library[name]
            function.argtypes, function.restype = arguments, None
            self.functions[name] = function
        self._openmp = [*openmp, library][0]

    def call(self, name: str, *arguments: Any) -> None:
        """Calls a function by its name."""
        self.functions[name](*arguments)

    def use_threads(self, count: int) -> None:
        """How many threads the functions take when the calling thread calls them."""
        self.functions["use_threads"](count)

    @property
    def most_threads(self) -> int:
        """How many they take unless told otherwise: the processors there are, or $OMP_NUM_THREADS."""
        return int(self._openmp.omp_get_max_threads())


def use_kernels(device: torch.device, wanted: bool = True) -> str:
    """Has torch's modules compute with the kernels, for work on the CPU.

    Returns:
        "compiled", or "plain" and why: what the run notes in environment.json.
    """
    from pellucid.kernels import calls

    global _chosen
    library: Library | str = "plain: as configured"
    if wanted:
        library = find_library() if device.type == "cpu" else f"plain: the device is {device.type}"
    calls.load({} if isinstance(library, str) else library.functions)
    _chosen = library if isinstance(library, str) else "compiled"
    return _chosen


def chosen() -> str | None:
    """What `use_kernels` returned last in this process, if anybody has called it."""
    return _chosen


_chosen: str | None = None


def find_library() -> Library | str:
    """The kernels, compiled first if this machine has not yet (three seconds); or "plain" and why there are none."""
    compiler = os.environ.get("CXX") or shutil.which("g++") or shutil.which("c++")
    if not sys.platform.startswith("linux") or compiler is None:
        return "plain: no C++ compiler" if compiler is None else f"plain: not tried on {sys.platform}"
    try:
        threads = _threads()
        return _loaded(_library(compiler, threads), *threads)
    except (OSError, subprocess.SubprocessError) as error:
        return f"plain: {str(error).strip().splitlines()[-1][:200]}"


@functools.cache
def _loaded(path: Path, *threads: str) -> Library:
    return Library(path, list(threads))


def _threads() -> list[str]:
    torch = find_spec("torch")  # where it is, without importing it
    return sorted(map(str, (Path(torch.origin).parent / "lib").glob("libgomp*"))) if torch and torch.origin else []


def _library(compiler: str, threads: list[str]) -> Path:
    """The compiled file in the cache, named by all that it depends on; torch's own threads run it."""
    version = subprocess.run([compiler, "--version"], capture_output=True, check=True, timeout=60).stdout
    code = [path.read_bytes() for path in (*_SOURCES, *_HEADERS)]
    parts = [*code, version, _processor(), *map(str.encode, (*_FLAGS, *threads))]
    key = hashlib.sha256(b"\0".join(parts)).hexdigest()
    path = cache_folder("kernels") / f"{key[:32]}.so"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent) as folder:
            fresh = Path(folder) / "kernels.so"
            subprocess.run([compiler, *_FLAGS, *map(str, _SOURCES), *threads, "-o", str(fresh)],
                           capture_output=True, check=True, timeout=300)
            fresh.replace(path)
    return path


def _processor() -> bytes:
    """The processor's abilities, as the system lists them."""
    lines = Path("/proc/cpuinfo").read_bytes().splitlines()
    return next((line for line in lines if line.startswith((b"flags", b"Features"))), b"")
