"""The kernels in machine code: as the package brought them, or compiled once on this machine; where neither can be,
torch's own functions serve.

Imports no torch, so that decoding can do without (see engine/frozen.py).
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import functools
import hashlib
import os
import shlex
import shutil
import subprocess
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from ctypes import c_double, c_float, c_int64, c_uint32, c_void_p
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pellucid.cache import cache_folder, is_own
from pellucid.errors import PellucidWarning, UserError
from pellucid.files import sha256, write_bytes, write_text
from pellucid.kernels.levels import ATEN, HOLD, LEVELS, Level, cores, levels_here, machine

if TYPE_CHECKING:
    import torch

_AN_HOUR = 3600.0  # seconds for which a compiler that failed is not asked again
_PATIENCE = 120.0  # seconds for which another process's compiler is waited for
_FOLDER = Path(__file__).parent
SHIPPED = _FOLDER / "shipped"  # what a wheel brings: a file for each level
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
    "turn": [c_void_p, c_void_p, c_void_p, c_int64],
    "exponentiate": [c_void_p] * 5 + [c_int64, c_int64],
    "r_drop": [c_void_p] * 5 + [c_float, c_int64, c_int64],
    "execute": [c_void_p, c_int64, c_void_p],
    "rank": [c_void_p, c_void_p, c_void_p, c_int64, c_int64, c_int64, c_void_p, c_int64],
    "search": [c_void_p],
}
NAMES = {f"{name}_{suffix}": arguments for name, arguments in _SIGNATURES.items() for suffix in ("bf16", "float")} | {
    "clip_float": [c_void_p, c_void_p, c_int64, c_float, c_void_p],
    "adam_float": [c_void_p] * 6 + [c_int64] + [c_double] * 5 + [c_int64],
    "use_threads": [c_int64]}

# What is written as one product and sum is rounded once; no other sum is reordered but where the source allows it, so
# that the bits are those of the source; infinities and NaN keep their meaning.
_FLAGS = ("-std=c++17", "-O3", "-fopenmp-simd", "-ffp-contract=fast", "-fno-math-errno", "-fno-trapping-math",
          "-fno-signed-zeros", "-fno-exceptions", "-fno-rtti", "-fPIC", "-pthread")


class Library:
    """The compiled kernels in this process.

    Args:
        path: the file.
        name: its SHA-256.
        level: the kind of processor that it is for.

    Attributes:
        functions: by their names in C++, as in `NAMES`.

    Raises:
        OSError: it is no library that fits this processor and system.
    """

    def __init__(self, path: Path, name: str, level: Level) -> None:
        self.path, self.name, self.level = path, name, level
        library = ctypes.CDLL(str(path))
        self.functions: dict[str, Callable[..., Any]] = {}
        for function_name, arguments in NAMES.items():
            function = library[function_name]
            function.argtypes, function.restype = arguments, None
            self.functions[function_name] = function
        library.most_threads.restype = c_int64
        self.most_threads = int(library.most_threads())  # the processors this process may use, or $OMP_NUM_THREADS

    def call(self, name: str, *arguments: Any) -> None:
        """Calls a function by its name."""
        self.functions[name](*arguments)

    def use_threads(self, count: int) -> None:
        """How many threads the functions take when the calling thread calls them."""
        self.functions["use_threads"](count)


def use_kernels(device: torch.device, wanted: bool = True) -> str:
    """Has torch's modules compute with the kernels for work on this device: those in machine code on a CPU, those of
    gpu.py on a GPU.

    Returns:
        "compiled", or "plain" and why: what the run notes in environment.json.
    """
    from pellucid.kernels import calls, gpu

    global _chosen
    if device.type == "cuda":
        calls.load({})
        _chosen = gpu.use(wanted, device)
        return _chosen
    library = _library_for(device, wanted)
    calls.load({} if isinstance(library, str) else library.functions)
    _chosen = library if isinstance(library, str) else "compiled"
    return _chosen


def offer(device: torch.device, wanted: bool = True) -> str:
    """What `use_kernels` would return; nothing is used."""
    from pellucid.kernels import gpu

    if device.type == "cuda":
        return gpu.offer(wanted, device)
    library = _library_for(device, wanted)
    return library if isinstance(library, str) else "compiled"


def _library_for(device: torch.device, wanted: bool) -> Library | str:
    """The kernels for work on a device that is no GPU, or "plain" and why there are none."""
    if not wanted:
        return "plain: as configured"
    return find_library() if device.type == "cpu" else f"plain: the device is {device.type}"


def chosen() -> str | None:
    """What `use_kernels` returned last in this process, if anybody has called it."""
    return _chosen


_chosen: str | None = None


def find_library() -> Library | str:
    """The kernels for the best level that this processor has, compiled first where neither the package nor an earlier
    process has done it (ten seconds); or "plain" and why there are none."""
    levels, held = levels_here(), os.environ.get(HOLD)
    if not levels:
        known = ", ".join(level.name for level in LEVELS if level.machine == machine())
        held = f"{HOLD} is {held}" if held else f"{ATEN} is {os.environ.get(ATEN)}" if os.environ.get(ATEN) else ""
        return f"plain: {held or 'the processor is older'} (known: {known})"
    return _find(levels, tuple(find_compiler()), cache_folder("kernels"))


@functools.cache
def _find(levels: tuple[Level, ...], compiler: tuple[str, ...], cache: Path) -> Library | str:
    """The first of the levels that is there or can be compiled: a compiler may be too old for the newest."""
    failures = []
    for level in levels:
        try:
            shipped = SHIPPED / f"{level.name}.so"
            if shipped.exists() and _digest_beside(SHIPPED / "sources") == sources_sha256():
                return Library(shipped, sha256(shipped), level)
            if not compiler:
                return "plain: no C++ compiler"
            return _compiled(level, compiler, cache)
        except (OSError, subprocess.SubprocessError, UserError) as error:
            failures.append(f"{level.name}: {_words(error)}")
    warnings.warn(f"the kernels could not be compiled, and torch's own functions serve, slower: {failures[-1]}",
                  PellucidWarning, stacklevel=2)
    return f"plain: {failures[-1]}"


def find_compiler() -> list[str]:
    """The command: $CXX, which may be several words, or what there is; empty if there is none."""
    named = shlex.split(os.environ.get("CXX", ""))
    found = [path for name in ("g++", "c++", "clang++") if (path := shutil.which(name))]
    return named or found[:1]


def _words(error: Exception) -> str:
    """What a failure says of itself: of a compiler its first error."""
    said = getattr(error, "stderr", None) or str(error).encode()
    lines = said.decode(errors="replace").strip().splitlines() or [type(error).__name__]
    return next((line for line in lines if "error" in line), lines[-1])[:300]


def sources_sha256() -> str:
    """Of all that the kernels are compiled from."""
    return hashlib.sha256(b"\0".join(path.read_bytes() for path in (*_SOURCES, *_HEADERS))).hexdigest()


def compile_kernels(level: Level, compiler: Sequence[str], path: Path) -> None:
    """Writes the kernels for a level, in machine code, to `path`: a process for each source, side by side.

    Raises:
        subprocess.SubprocessError: the compiler failed, or took longer than ten minutes for a source, or to join them.
        OSError: it is not there.
    """
    from concurrent.futures import ThreadPoolExecutor  # which nobody needs who finds them compiled

    def run(*words: str | Path) -> None:
        subprocess.run([*compiler, *_FLAGS, *level.flags, *words], capture_output=True, check=True, timeout=600,
                       stdin=subprocess.DEVNULL)

    with tempfile.TemporaryDirectory(prefix=f"{path.stem}-") as folder, ThreadPoolExecutor(cores()) as pool:
        objects = [Path(folder) / f"{source.stem}.o" for source in _SOURCES]
        list(pool.map(lambda source, into: run("-c", source, "-o", into), _SOURCES, objects))
        run("-shared", *objects, "-o", path)


def _compiled(level: Level, compiler: tuple[str, ...], cache: Path) -> Library:
    """The file in the cache, named by all that it depends on. What a crash or another hand has changed since it was
    written, or another user has put there, is not loaded, but compiled again."""
    version = subprocess.run([*compiler, "--version"], capture_output=True, check=True, timeout=60).stdout
    parts = [sources_sha256(), level.name, *_FLAGS, *level.flags, *compiler]
    key = hashlib.sha256("\0".join(parts).encode() + version).hexdigest()[:32]
    path = cache / f"{key}.so"
    if (digest := _whole(path)) is None:
        with _alone(cache):
            digest = _whole(path) or _compile_into(path, level, compiler)  # by another process meanwhile
    return Library(path, digest, level)


def _whole(path: Path) -> str | None:
    """The digest of a file as it was written; None of any other."""
    digest = sha256(path) if is_own(path) else None
    return digest if digest == _digest_beside(path) else None


def _compile_into(path: Path, level: Level, compiler: tuple[str, ...]) -> str:
    failed = path.with_suffix(".failed")
    if failed.exists() and time.time() - failed.stat().st_mtime < _AN_HOUR:
        raise UserError(failed.read_text(errors="replace"))
    with tempfile.TemporaryDirectory() as folder:
        fresh = Path(folder) / "kernels.so"
        try:
            compile_kernels(level, compiler, fresh)
        except subprocess.CalledProcessError as error:  # and would do so in each process
            write_text(failed, _words(error))
            raise
        digest = sha256(fresh)
        write_bytes(path, fresh.read_bytes())
    write_text(path.with_suffix(".sha256"), digest)
    return digest


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Of processes that begin together, such as ranks, one compiles, and the others find it. Where locks are not to be
    had, or one waits for too long, each makes the same file for itself."""
    until = time.monotonic() + _PATIENCE
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):
            stack.callback(os.close, handle := os.open(folder, os.O_RDONLY | os.O_CLOEXEC))
            while time.monotonic() < until:
                with contextlib.suppress(BlockingIOError):
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                time.sleep(0.05)
        yield


def _digest_beside(path: Path) -> str | None:
    beside = path.with_suffix(".sha256")
    return beside.read_text(errors="replace").strip() if beside.exists() else None
