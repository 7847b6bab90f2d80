"""Which kernels are loaded, where they come from, and what becomes of a file that is not whole. Tests of kernels skip
where there are none; so there must be some wherever they can be made."""

from __future__ import annotations

import contextlib
import fcntl
import os
import platform
import shutil
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from tests.conftest import load_kernels

from pellucid import cache
from pellucid.cache import cache_folder
from pellucid.errors import PellucidWarning
from pellucid.kernels import calls, levels
from pellucid.kernels.compiled import NAMES, Library, find_library, use_kernels
from pellucid.kernels.levels import LEVELS, levels_here, multiplies_bf16
from pellucid.nn.layer_norm import LayerNorm
from pellucid.precision import resolve, resolve_packed

COMPILER = """
case "$*" in *--version) echo "an imitation, version 1"; exit;; esac
echo "$*" >> {log}
case "$*" in *{unknown}*) echo "rows.cpp: In function f:" >&2; echo "error: what is {unknown}?" >&2; exit 1;; esac
for place; do :; done
cp {library} "$place"
"""


class Compiler:
    """Imitates one: copies kernels that are there already, and knows all flags but one."""

    def __init__(self, folder: Path, library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.script, self.log, self.library = folder / "a compiler", folder / "log", library
        self.cache = folder / "cache"
        self.knows_all_but("-mnothing")
        monkeypatch.setenv("CXX", f"sh '{self.script}'")  # of several words
        monkeypatch.setenv("PELLUCID_CACHE", str(self.cache))

    def knows_all_but(self, flag: str) -> None:
        self.script.write_text(COMPILER.format(log=self.log, unknown=flag, library=self.library))

    @property
    def runs(self) -> int:
        """How often it made a library."""
        return self.log.read_text().count(" -shared ") if self.log.exists() else 0

    @property
    def file(self) -> Path:
        """What it made, named as the digest beside it."""
        return next((self.cache / "kernels").glob("*.sha256")).with_suffix(".so")


@pytest.fixture
def compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Compiler:
    load_kernels()
    use_kernels(torch.device("cpu"), False)
    library = find_library()
    assert isinstance(library, Library)
    return Compiler(tmp_path, library.path, monkeypatch)


def find_anew() -> Library | str:
    """As in a new process."""
    from pellucid.kernels import compiled

    compiled._find.cache_clear()
    return find_library()


def test_where_there_is_a_compiler_the_kernels_compile() -> None:
    has_compiler = any(map(shutil.which, [os.environ.get("CXX", "g++").split()[0], "g++", "c++"]))
    try:
        compiled = use_kernels(torch.device("cpu")) == "compiled"
        assert compiled == (has_compiler and sys.platform == "linux" and bool(levels_here()))
    finally:
        use_kernels(torch.device("cpu"), False)


def test_the_library_is_the_same_wherever_it_is_asked_for() -> None:
    library = find_library()
    assert find_library() is library or isinstance(library, str)
    if isinstance(library, Library):
        assert set(library.functions) == set(NAMES)
        assert library.most_threads >= 1
        assert library.level == levels_here()[0]
    assert not calls.serve(torch.zeros(1))  # looking for it loads nothing


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="a process cannot be held to processors here")
def test_no_more_threads_than_processors_that_it_may_use(compiler: Compiler, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    before = os.sched_getaffinity(0)
    try:
        for count in range(1, len(before) + 1):
            os.sched_setaffinity(0, sorted(before)[:count])
            library = find_anew()
            assert isinstance(library, Library)
            assert library.most_threads == count
    finally:
        os.sched_setaffinity(0, before)


def test_a_compiler_that_failed_is_not_asked_again_within_the_hour(compiler: Compiler) -> None:
    compiler.knows_all_but("-std=c++17")
    with pytest.warns(PellucidWarning, match=r"what is -std=c\+\+17\?"):
        assert isinstance(find_anew(), str)
    asked = compiler.log.read_text().count(" -c ") if compiler.log.exists() else 0
    compiler.knows_all_but("-mnothing")  # it is not even asked
    with pytest.warns(PellucidWarning, match=r"what is -std=c\+\+17\?"):
        assert isinstance(find_anew(), str)
    assert compiler.runs == 0
    assert (compiler.log.read_text().count(" -c ") if compiler.log.exists() else 0) == asked
    for note in (compiler.cache / "kernels").glob("*.failed"):
        os.utime(note, (time.time() - 3601,) * 2)
    assert isinstance(find_anew(), Library)


def test_a_digest_that_is_no_text_is_none(compiler: Compiler) -> None:
    assert isinstance(find_anew(), Library)
    compiler.file.with_suffix(".sha256").write_bytes(b"\xff" * 64)
    assert isinstance(find_anew(), Library)


def test_what_has_begun_with_kernels_ends_with_them(compiled_kernels: None) -> None:
    x = torch.randn(3, 8, requires_grad=True)
    norm = LayerNorm(8)
    out = norm(x)
    use_kernels(torch.device("cpu"), False)
    (found,) = torch.autograd.grad(out.square().sum(), x)
    (expected,) = torch.autograd.grad(norm(x).square().sum(), x)
    torch.testing.assert_close(found, expected)


def test_what_was_compiled_once_is_taken_the_next_time(compiler: Compiler) -> None:
    first, second = find_anew(), find_anew()
    assert isinstance(first, Library)
    assert isinstance(second, Library)
    assert compiler.runs == 1
    assert first.name == second.name


def test_of_processes_that_begin_together_one_compiles(compiler: Compiler) -> None:
    compiler.script.write_text("case $* in *-shared*) sleep 0.3;; esac\n" + compiler.script.read_text())
    begun = []
    for _ in range(3):
        begun.append(os.fork())
        if not begun[-1]:
            with contextlib.suppress(BaseException):  # which must not go on with these tests in the child
                os._exit(0 if isinstance(find_anew(), Library) else 1)
            os._exit(2)
    assert [os.waitstatus_to_exitcode(os.waitpid(each, 0)[1]) for each in begun] == [0, 0, 0]
    assert compiler.runs == 1


def test_a_process_that_holds_the_others_up_is_not_waited_for_without_end(compiler: Compiler,
                                                                         monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pellucid.kernels.compiled._PATIENCE", 0.2)
    with contextlib.ExitStack() as stack:
        stack.callback(os.close, handle := os.open(cache_folder("kernels"), os.O_RDONLY))
        fcntl.flock(handle, fcntl.LOCK_EX)
        assert isinstance(find_anew(), Library)


@pytest.mark.parametrize("damage", [lambda data: data[: len(data) // 2], lambda data: b"", lambda data: data + b"0",
                                    lambda data: data[:5000] + bytes([data[5000] ^ 1]) + data[5001:]],
                         ids=["cut off", "empty", "longer", "one bit"])
def test_a_file_that_is_not_what_was_written_is_compiled_again(compiler: Compiler,
                                                               damage: Callable[[bytes], bytes]) -> None:
    assert isinstance(find_anew(), Library)
    whole = compiler.file.read_bytes()
    compiler.file.unlink()  # else what this process has in its memory would change
    compiler.file.write_bytes(damage(whole))
    assert isinstance(find_anew(), Library)
    assert compiler.runs == 2
    assert compiler.file.read_bytes() == whole


@pytest.mark.parametrize("is_link", [False, True])
def test_a_file_that_another_user_put_there_is_compiled_again(is_link: bool, compiler: Compiler,
                                                              monkeypatch: pytest.MonkeyPatch) -> None:
    """As long as the folder was open to all; its digest fits."""
    assert isinstance(find_anew(), Library)
    file, ours = compiler.file, cache._is_ours
    if is_link:
        file.replace(file.with_suffix(".elsewhere"))
        file.symlink_to(file.with_suffix(".elsewhere"))
    else:
        foreign = file.stat().st_ino
        monkeypatch.setattr(cache, "_is_ours", lambda state: state.st_ino != foreign and ours(state))
    assert isinstance(find_anew(), Library)
    assert compiler.runs == 2
    assert cache.is_own(file)


def test_what_is_compiled_is_on_the_disk_before_it_has_its_name(compiler: Compiler,
                                                                monkeypatch: pytest.MonkeyPatch) -> None:
    flushed, named, fsync, replace = set[int](), list[str](), os.fsync, os.replace

    def flush(handle: int) -> None:
        fsync(handle)
        flushed.add(os.fstat(handle).st_ino)

    def rename(old: Path, new: Path) -> None:
        assert Path(old).stat().st_ino in flushed
        named.append(Path(new).suffix)
        replace(old, new)

    monkeypatch.setattr(os, "fsync", flush)
    monkeypatch.setattr(os, "replace", rename)
    assert isinstance(find_anew(), Library)
    assert named == [".so", ".sha256"]


def test_a_compiler_too_old_for_the_newest_processors_serves_for_older_ones(compiler: Compiler) -> None:
    best, *older = levels_here()
    if not older:
        pytest.skip("the processor has one level")
    compiler.knows_all_but(best.flags[-1])
    library = find_anew()
    assert isinstance(library, Library)
    assert library.level == next(level for level in older if best.flags[-1] not in level.flags)


def test_a_compiler_that_fails_is_heard(compiler: Compiler) -> None:
    compiler.knows_all_but("-O3")
    with pytest.warns(PellucidWarning, match="could not be compiled.*error: what is -O3?"):
        assert str(find_anew()).endswith("error: what is -O3?")


def test_no_compiler_is_said(compiler: Compiler, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CXX")
    monkeypatch.setenv("PATH", "")
    assert find_anew() == "plain: no C++ compiler"


@pytest.mark.parametrize("level", [level.name for level in LEVELS])
def test_a_level_is_held_to(level: str, monkeypatch: pytest.MonkeyPatch) -> None:
    able = levels_here()
    monkeypatch.setenv("PELLUCID_KERNELS", level)
    held = levels_here()
    assert held == able[len(able) - len(held):]
    if level in [each.name for each in able]:
        assert held[0].name == level


def test_kernels_are_held_to_what_torch_is_held_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ATEN_CPU_CAPABILITY", "avx2")
    assert all("avx512" not in flag for level in levels_here() for flag in level.flags)
    monkeypatch.setenv("ATEN_CPU_CAPABILITY", "default")
    assert not levels_here()
    assert str(find_library()).startswith("plain: ATEN_CPU_CAPABILITY is default (known: ")


def test_a_variable_that_is_empty_holds_kernels_to_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    able = levels_here()
    for name in (levels.HOLD, levels.ATEN):
        monkeypatch.setenv(name, "")
    assert levels_here() == able


def test_an_unknown_level_says_which_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PELLUCID_KERNELS", "avx1024")
    reason = str(find_library())
    assert reason.startswith("plain: PELLUCID_KERNELS is avx1024 (known: ")
    assert all(level.name in reason for level in LEVELS if level.machine == levels.machine())


ICE_LAKE = "avx2 fma f16c bmi1 bmi2 abm popcnt avx512f avx512bw avx512dq avx512vl avx512cd avx512_vnni"
KNIGHTS_LANDING = "avx2 fma f16c bmi1 bmi2 abm popcnt avx512f avx512cd avx512er avx512pf"


@pytest.mark.parametrize(("machine", "flags", "level", "bf16"), [
    ("x86_64", "sse2 avx", None, False),
    ("x86_64", "avx2 fma f16c bmi1 bmi2 abm popcnt", "avx2", False),
    ("x86_64", "avx2 fma f16c bmi1 bmi2 abm popcnt avx_vnni", "avx2-vnni", False),
    ("x86_64", KNIGHTS_LANDING, "avx2", False),
    ("x86_64", ICE_LAKE, "avx512-vnni", False),
    ("x86_64", f"{ICE_LAKE} avx512_bf16 amx_bf16 amx_int8", "avx512-bf16", True),
    ("aarch64", "fp asimd", "neon", False),
    ("aarch64", "fp asimd asimddp", "neon-dotprod", False),
    ("aarch64", "fp asimd asimddp i8mm bf16", "neon-bf16", True),
    ("riscv64", "", None, False)])
def test_the_best_level_of_a_processor_and_whether_bf16_gains_there(
        machine: str, flags: str, level: str | None, bf16: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: machine)
    monkeypatch.setattr(levels, "instructions", lambda: frozenset(flags.split()))
    for name in (levels.HOLD, levels.ATEN):
        monkeypatch.delenv(name, raising=False)
    assert (levels_here()[0].name if levels_here() else None) == level
    assert multiplies_bf16() == bf16
    if not bf16:
        assert resolve("auto", torch.device("cpu")) == "fp32"


@pytest.mark.parametrize(("flags", "intel", "gains"), [
    (f"{ICE_LAKE} avx512_bf16 amx_bf16", True, True), (f"{ICE_LAKE} avx512_bf16", True, False),
    (f"{ICE_LAKE} avx512_bf16", False, True), (ICE_LAKE, False, False)])
def test_training_takes_bf16_where_it_is_multiplied_sooner(flags: str, intel: bool, gains: bool,
                                                           monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(levels, "instructions", lambda: frozenset(flags.split()))
    monkeypatch.setattr(levels, "is_intel", lambda: intel)
    monkeypatch.setattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", lambda: True)
    for name in (levels.HOLD, levels.ATEN):
        monkeypatch.delenv(name, raising=False)
    assert (resolve("auto", torch.device("cpu")) == "bf16") == gains
    assert (resolve_packed("auto", torch.device("cpu")) == "bf16") == ("avx512_bf16" in flags)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_child_forked_after_all_threads_were_used_uses_them_too() -> None:
    load_kernels()
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        rows = torch.randn(4096, 512)
        expected = torch.nn.functional.layer_norm(rows, (512,))
        assert torch.allclose(layer_norm(rows), expected, atol=1e-5)
        torch.mm(rows, rows.T)  # on torch's threads
        child = os.fork()
        if child == 0:  # nothing of pytest's must run here
            torch.mm(rows, rows.T)
            os._exit(0 if torch.allclose(layer_norm(rows), expected, atol=1e-5) else 1)
        assert wait_for(child) == 0
    finally:
        torch.set_num_threads(before)
        use_kernels(torch.device("cpu"), False)


def layer_norm(rows: torch.Tensor) -> torch.Tensor:
    from pellucid.kernels import layer_norm as door

    return door.layer_norm(rows, torch.ones(512), torch.zeros(512), 1e-5)


def wait_for(child: int) -> int:
    """How it ended; one that hangs is killed."""
    for _ in range(600):
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.1)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return -1
