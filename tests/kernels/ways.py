"""The ways in which the kernels are compiled and run: levels, compilers, sanitizers and emulated processors.

    PELLUCID_WAY=avx2-clang python -m pytest -p tests.kernels.ways tests/kernels/test_kernels.py

runs any tests with the kernels of that way, in a process of their own (see remote.py).
"""

from __future__ import annotations

import ctypes
import fcntl
import functools
import hashlib
import os
import shlex
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from hypothesis import settings
from tests.kernels.remote import Remote

from pellucid.cache import cache_folder
from pellucid.files import write_bytes
from pellucid.kernels import compiled
from pellucid.kernels.levels import LEVELS, instructions, machine

HERE = Path(__file__).parent
DRIVERS = cache_folder("tests")  # which outlast the tests
# Half-optimised: the code is ten times larger with a sanitizer in it, and nobody ships it.
ADDRESSES = """sh -c 'exec g++ "$@" -O1 -g1 -fsanitize=address,undefined -fno-sanitize-recover=undefined' g++"""
THREADS = """sh -c 'exec g++ "$@" -O1 -g1 -fsanitize=thread' g++"""
TYPES = {ctypes.c_void_p: "void *", ctypes.c_int64: "int64_t", ctypes.c_uint32: "uint32_t", ctypes.c_float: "float",
         ctypes.c_double: "double"}


@dataclass(frozen=True)
class Way:
    """A way.

    Attributes:
        level: by its name.
        compiler: its command.
        runner: the command that runs what is compiled, if this processor does not.
        driver: what it is told, see driver.cpp: emulators and the sanitizer of threads know no threads in a fork.
        searches: whether whole searches are run, too: in the slowest emulator not, where the same kernels run natively.
    """

    level: str
    compiler: str
    runner: str = ""
    driver: str = "1 4 32"
    searches: bool = True

    def obstacle(self, to_run: bool = True) -> str | None:
        """What is lacking here to compile it, and to run it as well."""
        level = LEVEL[self.level]
        for command in (self.compiler, self.runner if to_run else ""):
            if command and not shutil.which(shlex.split(command)[0]):
                return f"no {shlex.split(command)[0]}"
        if self.compiler != ARM and level.machine != machine():
            return f"the processor is no {level.machine}"
        if to_run and not self.runner and not level.needs <= instructions():
            return f"the processor has no {self.level}"
        return None

    def build(self) -> Path:
        """Compiles the kernels and the driver, unless that has been done before; the driver."""
        version = subprocess.run([*shlex.split(self.compiler), "--version"], capture_output=True, check=True).stdout
        sources = [compiled.sources_sha256(), (HERE / "driver.cpp").read_text(), DECLARED, repr(compiled._FLAGS)]
        key = hashlib.sha256("\0".join([*sources, *LEVEL[self.level].flags, self.compiler]).encode() + version)
        folder = DRIVERS / key.hexdigest()[:32]
        folder.mkdir(mode=0o700, exist_ok=True)
        with (folder / "lock").open("w") as lock, tempfile.TemporaryDirectory() as room:
            fcntl.flock(lock, fcntl.LOCK_EX)  # another test may be at it
            if not (folder / "driver").exists():
                self._compile(Path(room))
                for name in ("kernels.so", "driver"):  # the driver last
                    write_bytes(folder / name, (Path(room) / name).read_bytes())
                (folder / "driver").chmod(0o700)
        return folder / "driver"

    def _compile(self, room: Path) -> None:
        (room / "functions.h").write_text(DECLARED)
        compiler = shlex.split(self.compiler)
        compiled.compile_kernels(LEVEL[self.level], compiler, room / "kernels.so")
        subprocess.run([*compiler, "-std=c++17", "-O1", "-pthread", "-I", room, HERE / "driver.cpp", "-L", room,
                        "-l:kernels.so", "-Wl,-rpath,$ORIGIN", "-o", room / "driver"], check=True)

    def start(self) -> Remote:
        """The kernels, running."""
        command = [*shlex.split(self.runner), str(self.build()), *self.driver.split()]
        return Remote(command, LEVEL[self.level])


LEVEL = {level.name: level for level in LEVELS}
DECLARED = "".join(f"FUNCTION({name}, {', '.join(TYPES[each] for each in types)})\n"
                   for name, types in compiled.NAMES.items())
CLANG = "clang++-19"
ARM = "aarch64-linux-gnu-g++"
QEMU = "qemu-aarch64 -L /usr/aarch64-linux-gnu -cpu"
WAYS = {name: Way(name, "g++") for name in ("avx512-vnni", "avx512", "avx2-vnni")} | {
    "avx512-bf16 clang": Way("avx512-bf16", CLANG),
    "avx2 clang": Way("avx2", CLANG),
    "addresses": Way("avx512-bf16", ADDRESSES, driver="2 4 128"),
    "threads": Way("avx2", THREADS, driver="2 5 0"),
    "avx2 haswell": Way("avx2", "g++", "qemu-x86_64 -cpu Haswell", "1 2 0", searches=False),
    "neon": Way("neon", ARM, f"{QEMU} cortex-a53", "1 2 0"),
    "neon-dotprod": Way("neon-dotprod", ARM, f"{QEMU} cortex-a76", "1 2 0"),
    "neon-bf16": Way("neon-bf16", ARM, f"{QEMU} max", "1 2 0")}


# ---- as a plugin of pytest ------------------------------------------------------------------------------------------


@functools.cache
def _chosen() -> Remote:
    return WAYS[os.environ["PELLUCID_WAY"]].start()


def pytest_configure() -> None:
    settings.register_profile("ways", max_examples=15, deadline=None)
    settings.load_profile("ways")
    compiled.find_library = _chosen


def pytest_unconfigure() -> None:
    status = _chosen().close()
    assert status == 0, f"the driver ended with {status}"  # memory that nobody freed
