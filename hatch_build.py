"""Puts the kernels in machine code into a wheel, so that whoever installs it needs no compiler: `make wheel`, or any
build of a wheel under HATCH_BUILD_HOOK_ENABLE_CUSTOM=1. $CXX names the compiler, which may be one for other processors.

Such a wheel is for Linux with glibc and for one family of processors, of which it carries every level; the sources are
in it too. Any other wheel is for every machine, and the kernels are compiled when they are first used.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

sys.path.insert(0, str(Path(__file__).parent / "src"))

from pellucid.kernels.compiled import SHIPPED, compile_kernels, find_compiler, sources_sha256
from pellucid.kernels.levels import LEVELS, Level

# The C++ library becomes part of the file, unseen from outside: that of the user's system, or of an environment that
# stands before it, may be older than this compiler's, and no tag of a wheel tells an installer. Of the C library, which
# the tag does tell of, the user's own serves.
LINK = ("-static-libstdc++", "-Wl,--exclude-libs,ALL,--gc-sections")


class CarryKernels(BuildHookInterface[Any]):
    """What hatchling calls before and after it makes a wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compiles the kernels and names them among the files of the wheel, if this is one that people install."""
        self._folder = TemporaryDirectory()
        if version == "editable":
            return
        compiler = find_compiler()
        family = family_of(compiler) if compiler else None
        if family is None:
            self.app.display_warning(f"the wheel carries no compiled kernels: "
                                     f"{' '.join(compiler) or 'no C++ compiler'} makes none for Linux with glibc")
            return
        folder = Path(self._folder.name)
        (folder / "sources.sha256").write_text(sources_sha256())  # before, lest they are edited meanwhile
        try:
            files = machine_code([level for level in LEVELS if level.machine == family], compiler, folder)
        except subprocess.CalledProcessError as error:
            self.app.abort(f"{error}\n{error.stderr.decode(errors='replace')}")
        build_data["force_include"][str(folder)] = str(SHIPPED.relative_to(Path(self.root) / "src"))
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-manylinux_2_{oldest_glibc(files)}_{family}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Takes away what was compiled."""
        self._folder.cleanup()


def family_of(compiler: Sequence[str]) -> str | None:
    """The processors that it compiles for, as `Level.machine` has them; None where that is not Linux with glibc, or
    there are no kernels for them."""
    said = subprocess.run([*compiler, "-dumpmachine"], capture_output=True, text=True, check=True, timeout=60).stdout
    family, _, system = said.strip().partition("-")
    has_glibc = "linux" in system and not re.search("musl|android|uclibc", system)
    return family if has_glibc and any(level.machine == family for level in LEVELS) else None


def machine_code(levels: Sequence[Level], compiler: Sequence[str], folder: Path) -> list[Path]:
    """Compiles the kernels for each level to a file of its name in the folder, a processor a level.

    Raises:
        subprocess.SubprocessError: a level cannot be compiled.
    """
    files = [folder / f"{level.name}.so" for level in levels]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(lambda level, file: compile_kernels(level, [*compiler, *LINK], file), levels, files))
    return files


def oldest_glibc(files: Sequence[Path]) -> int:
    """The minor version of the oldest glibc 2 that has all that these files ask of it.

    An ELF file names the versions that it needs among its strings, each between zero bytes.
    """
    named = rb"\0GLIBC_2\.(\d+)[.\d]*(?=\0)"
    return max(int(minor) for file in files for minor in re.findall(named, file.read_bytes()))
