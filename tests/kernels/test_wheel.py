"""A wheel with compiled kernels: what is in it, and that it does without a compiler what a source install does.

A stand-in for the compiler answers for all levels but the one that a test runs, which takes the real one.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shlex
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from pellucid.files import sha256
from pellucid.kernels.compiled import NAMES, compile_kernels, find_compiler, sources_sha256
from pellucid.kernels.levels import LEVELS, levels_here, machine

pytest.importorskip("hatchling", reason="hatchling makes the wheel")

ROOT = Path(__file__).resolve().parents[2]
CROSS = "aarch64-linux-gnu-g++"
# Arguments: what it says it compiles for, the level for which it is the real compiler, and that one's command.
STAND_IN = r"""
import pathlib, subprocess, sys
triple, level, *words = sys.argv[1:]
if words[-1] == "-dumpmachine":
    print(triple)
elif level in (pathlib.Path(words[-1]).stem, pathlib.Path(words[-1]).parent.name.rpartition("-")[0]):  # or an object
    sys.exit(subprocess.run(words).returncode)
else:
    needs = b"\0GLIBC_2.2.5\0GLIBC_2.31\0" if words[-1].endswith("avx512.so") else b"\0GLIBC_2.17\0GLIBC_2.9\0"
    pathlib.Path(words[-1]).write_bytes(needs + " ".join(words).encode())
"""
# Trains a tiny model and decodes with it; writes what it did it with, and what came of it.
PROGRAM = """
import contextlib, hashlib, json, sys
from pathlib import Path
import pellucid
from pellucid.cli import main
from pellucid.kernels.compiled import chosen, find_library
out = Path(sys.argv[1])
with contextlib.redirect_stdout(sys.stderr):
    code = main(["train", "copy", "--out", str(out), "--train.epochs", "null", "--train.steps", "8",
                 "--train.validate_every", "8", "--train.workers", "1", "--data.generated.train", "100"])
trained = chosen()
run = pellucid.load(str(out))
found = run.generate(["1 2 3 4 5 6", "7 7 1"], beam_size=4)
weights = [hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(out.rglob("model.safetensors"))]
library = find_library()
print(json.dumps({"package": str(Path(pellucid.__file__).parent), "code": code, "trained": trained,
                  "library": library.name, "level": library.level.name, "weights": weights,
                  "found": [(each.text, each.score) for each in found]}))
"""


def hatch_build() -> ModuleType:
    """The module, which belongs to no package."""
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def make_wheel(folder: Path, compiler: str, asked: str = "1") -> tuple[Path, str]:
    """The wheel, made in an empty folder as `make wheel` makes it, and what was said meanwhile."""
    environment = os.environ | {"CXX": compiler, "HATCH_BUILD_HOOK_ENABLE_CUSTOM": asked}
    done = subprocess.run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)], cwd=ROOT,
                          env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (wheel,) = folder.glob("*.whl")
    return wheel, done.stdout + done.stderr


def stand_in(folder: Path, triple: str, level: str = "none", real: str = "none") -> str:
    """A command for $CXX."""
    program = folder / "stand_in.py"
    program.write_text(STAND_IN)
    return f"{shlex.join([sys.executable, str(program), triple, level])} {real}"


def run_program(package: Path, out: Path, without_compiler: bool) -> Any:
    """What PROGRAM says when the package is in this folder."""
    environment = os.environ | {"PYTHONPATH": str(package)}
    if without_compiler:
        (out / "empty").mkdir(parents=True)
        environment |= {"PATH": str(out / "empty"), "PELLUCID_CACHE": str(out / "cache")}
        environment.pop("CXX", None)
    done = subprocess.run([sys.executable, "-c", PROGRAM, str(out / "run")], env=environment, capture_output=True,
                          text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize(("family", "triple", "glibc"), [
    ("x86_64", "x86_64-redhat-linux", 31), ("aarch64", "aarch64-linux-gnu", 17)])
def test_a_wheel_carries_every_level_of_a_family_and_the_sources(family: str, triple: str, glibc: int,
                                                                tmp_path: Path) -> None:
    path, _ = make_wheel(tmp_path, stand_in(tmp_path, triple))
    assert path.name.endswith(f"-py3-none-manylinux_2_{glibc}_{family}.whl")
    with zipfile.ZipFile(path) as wheel:
        inside = "pellucid/kernels/shipped/"
        shipped = {name.removeprefix(inside) for name in wheel.namelist() if name.startswith(inside)}
        levels = [level for level in LEVELS if level.machine == family]
        assert shipped == {"sources.sha256", *(f"{level.name}.so" for level in levels)}
        assert wheel.read(f"{inside}sources.sha256").decode() == sources_sha256()
        for level in levels:
            assert " ".join(level.flags) in wheel.read(f"{inside}{level.name}.so").decode()
        for source in (ROOT / "src" / "pellucid" / "kernels").glob("*.[ch]*"):
            assert wheel.read(f"pellucid/kernels/{source.name}") == source.read_bytes()
        (metadata,) = [name for name in wheel.namelist() if name.endswith(".dist-info/WHEEL")]
        assert "Root-Is-Purelib: false" in wheel.read(metadata).decode()
    assert not (ROOT / "src" / inside).exists()


@pytest.mark.parametrize(("triple", "asked"), [
    ("x86_64-linux-gnu", "0"), ("x86_64-alpine-linux-musl", "1"), ("arm64-apple-darwin24.0.0", "1"),
    ("riscv64-linux-gnu", "1")])
def test_any_other_wheel_is_for_every_machine(triple: str, asked: str, tmp_path: Path) -> None:
    path, words = make_wheel(tmp_path, stand_in(tmp_path, triple), asked)
    assert path.name.endswith("-py3-none-any.whl")
    assert ("no compiled kernels" in words) == (asked == "1")
    with zipfile.ZipFile(path) as wheel:
        assert not [name for name in wheel.namelist() if "shipped" in name or name.endswith(".so")]


def test_an_editable_install_is_as_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", stand_in(tmp_path, "x86_64-linux-gnu"))
    data: dict[str, Any] = {}
    hook = hatch_build().CarryKernels(str(ROOT), {}, None, None, str(tmp_path), "wheel")
    hook.initialize("editable", data)
    hook.finalize("editable", data, "")
    assert data == {}


def test_a_compiler_that_fails_is_told_and_leaves_no_wheel(tmp_path: Path) -> None:
    program = tmp_path / "fails.py"
    program.write_text("import sys\nif '-dumpmachine' in sys.argv: print('x86_64-linux-gnu')\n"
                       "else: sys.exit('error: no space for the ladder')")
    with pytest.raises(AssertionError, match="no space for the ladder"):
        make_wheel(tmp_path, shlex.join([sys.executable, str(program)]))
    assert not list(tmp_path.glob("*.whl"))


@pytest.mark.usefixtures("compiled_kernels")
def test_without_a_compiler_a_wheel_trains_and_decodes_with_the_same_bits(tmp_path: Path) -> None:
    """As a source install does that compiled on this machine; and a file is the one that anybody makes from the
    sources. Once these are edited it is not used."""
    builder, level = hatch_build(), levels_here()[0]
    compiler = find_compiler()
    if builder.family_of(compiler) is None:
        pytest.skip("compiled kernels are carried for Linux with glibc")
    path, _ = make_wheel(tmp_path, stand_in(tmp_path, f"{machine()}-linux-gnu", level.name, shlex.join(compiler)))
    package = tmp_path / "package"
    with zipfile.ZipFile(path) as wheel:
        wheel.extractall(package)
    carried = package / "pellucid" / "kernels" / "shipped" / f"{level.name}.so"

    compile_kernels(level, [*compiler, *builder.LINK], tmp_path / "fresh.so")
    assert carried.read_bytes() == (tmp_path / "fresh.so").read_bytes()
    assert str(tmp_path).encode() not in carried.read_bytes()
    assert str(ROOT).encode() not in carried.read_bytes()

    ours = run_program(package, tmp_path / "ours", without_compiler=True)
    theirs = run_program(ROOT / "src", tmp_path / "theirs", without_compiler=False)
    assert Path(ours.pop("package")) == package / "pellucid" != Path(theirs.pop("package"))
    assert ours.pop("library") == sha256(carried) != theirs.pop("library")
    assert ours == theirs
    assert ours["code"] == 0
    assert ours["trained"] == "compiled"
    assert ours["level"] == level.name
    assert not list((tmp_path / "ours" / "cache").rglob("*.so"))

    with (package / "pellucid" / "kernels" / "rows.cpp").open("a") as source:
        source.write("// edited\n")
    find = "from pellucid.kernels.compiled import find_library; print(find_library())"
    environment = os.environ | {"PYTHONPATH": str(package), "PATH": str(tmp_path / "ours" / "empty"), "CXX": "",
                                "PELLUCID_CACHE": str(tmp_path / "cache")}
    found = subprocess.run([sys.executable, "-c", find], env=environment, capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "plain: no C++ compiler"


LOADER = """
#include <dlfcn.h>
#include <cstdio>
int main(int count, char **names) {
    void *library = dlopen(names[1], RTLD_NOW | RTLD_LOCAL);
    if (!library) return std::puts(dlerror()), 1;
    for (int i = 2; i < count; i++)
        if (!dlsym(library, names[i])) return std::puts(names[i]), 2;
    return ((long (*)())dlsym(library, "most_threads"))() < 1;
}
"""


@pytest.mark.skipif(not shutil.which(CROSS), reason="there is no compiler for aarch64")
def test_what_is_compiled_for_aarch64_is_right_and_loads(tmp_path: Path) -> None:
    """Its machine and versions as binutils read them; loaded where qemu stands in for the processor."""
    builder = hatch_build()
    assert builder.family_of([CROSS]) == "aarch64"
    (path,) = builder.machine_code([next(level for level in LEVELS if level.name == "neon")], [CROSS], tmp_path)
    told = subprocess.run(["readelf", "-hVd", path], capture_output=True, text=True, check=True).stdout
    assert "AArch64" in told
    assert "DYN (Shared object file)" in told
    assert "libstdc++" not in told
    versions = [int(word.split(".")[1]) for word in told.split() if word.startswith("GLIBC_2.")]
    assert builder.oldest_glibc([path]) == max(versions)
    if not shutil.which("qemu-aarch64"):
        pytest.skip("there is no qemu-aarch64 to load it")
    (tmp_path / "load.cpp").write_text(LOADER)
    subprocess.run([CROSS, tmp_path / "load.cpp", "-o", tmp_path / "load"], check=True)
    libc = subprocess.run([CROSS, "-print-file-name=libc.so.6"], capture_output=True, text=True, check=True).stdout
    subprocess.run(["qemu-aarch64", "-L", Path(libc).parents[1], tmp_path / "load", path, *NAMES], check=True)
