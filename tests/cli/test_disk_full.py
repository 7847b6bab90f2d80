"""A disk that is full, and places that cannot be written: exit 74, nothing half-written, nothing saved is lost."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pellucid.files import check_folder


def whole(run: Path) -> list[str]:
    """The names of the checkpoints, all of which are whole; nothing half-written lies beside them."""
    assert not list(run.rglob(".tmp-*"))
    folders = sorted((run / "checkpoints").glob("step-*"))
    for folder in folders:
        check_folder(folder)
    return [folder.name for folder in folders]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 600 KiB of its own."""
    disk = tmp_path / "disk"
    disk.mkdir()
    if shutil.which("mount") is None:
        pytest.skip("mounting a small disk needs mount")
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=600k", "tmpfs", str(disk)], capture_output=True,
                             check=False)
    if mounted.returncode:
        pytest.skip("mounting a small disk needs root")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


def fill(disk: Path, leave: int) -> Path:
    """A file that leaves `leave` bytes free."""
    ballast = disk / "ballast"
    ballast.write_bytes(b"x" * (shutil.disk_usage(disk).free - leave))
    return ballast


def test_a_real_disk_that_fills_up(cli: Any, small_disk: Path, tiny: Path, run: Path) -> None:
    out = small_disk / "run"
    assert cli("train", tiny, "--out", out, "--train.steps", 16).code == 0
    shutil.rmtree(out)
    shutil.copytree(run, out)
    shutil.rmtree(out / "checkpoints" / "step-00000024")  # to be made again
    ballast = fill(small_disk, leave=40_000)  # a checkpoint is 100,000
    full = cli("train", tiny, "--out", out)
    assert (full.code, full.err.count("disk is full")) == (74, 1), full.err
    assert "nothing that was saved is lost" in full.err
    assert "Traceback" not in full.err
    assert whole(out) == ["step-00000016"]
    ballast.unlink()
    assert cli("train", tiny, "--out", out).code == 0
    name = "checkpoints/step-00000024/model.safetensors"
    assert (out / name).read_bytes() == (run / name).read_bytes()


def test_output_on_a_real_disk_that_is_full(cli: Any, small_disk: Path, run: Path) -> None:
    fill(small_disk, leave=0)
    cli("translate", run, "--output", small_disk / "out.txt", stdin="1 2\n" * 50).says(74, "full", "out.txt")


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Lets a number of flushes to the disk pass, and fails the next ones, as a full disk does."""

    def fail(passed: int) -> None:
        real, count = os.fsync, [0]

        def fsync(handle: int) -> None:
            count[0] += 1
            if count[0] > passed:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            real(handle)

        monkeypatch.setattr(os, "fsync", fsync)

    return fail


@pytest.mark.parametrize("passed", [0, 3, 8, 14, 20, 26, 32])
def test_a_disk_that_fills_up_at_any_flush(cli: Any, failing: Callable[[int], None], monkeypatch: pytest.MonkeyPatch,
                                           copy: Path, run: Path, tiny: Path, passed: int) -> None:
    shutil.rmtree(copy / "checkpoints" / "step-00000024")
    failing(passed)
    full = cli("train", tiny, "--out", copy)
    assert full.code == 74, full.err
    assert "disk is full" in full.err
    assert "Traceback" not in full.err
    assert "step-00000016" in whole(copy)
    monkeypatch.undo()
    assert cli("train", tiny, "--out", copy).code == 0
    name = "checkpoints/step-00000024/model.safetensors"
    assert (copy / name).read_bytes() == (run / name).read_bytes()


def test_a_new_run_on_a_full_disk(cli: Any, failing: Callable[[int], None], tiny: Path, tmp_path: Path) -> None:
    failing(0)
    full = cli("train", tiny, "--out", tmp_path / "r")
    assert full.code == 74, full.err
    assert str(tmp_path / "r") in full.err
    assert not list(tmp_path.rglob(".tmp-*"))


def test_weights_that_cannot_be_written(cli: Any, monkeypatch: pytest.MonkeyPatch, copy: Path, tiny: Path) -> None:
    from pellucid.runs import checkpoint

    def refuse(path: object, tensors: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    shutil.rmtree(copy / "checkpoints" / "step-00000024")
    monkeypatch.setattr(checkpoint, "write_tensors", refuse)
    full = cli("train", tiny, "--out", copy)
    assert full.code == 74, full.err
    assert "disk is full" in full.err
    assert whole(copy) == ["step-00000016"]


def test_places_that_cannot_be_written(cli: Any, run: Path, tiny: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    cli("train", tiny, "--out", tmp_path / "file").says(2, "this is no folder", str(tmp_path / "file"), "do:")
    cli("train", tiny, "--out", tmp_path / "file" / "r").says(74, str(tmp_path / "file" / "r"))
    for output in (tmp_path, tmp_path / "none" / "out.txt", tmp_path / "file" / "out.txt"):
        cli("translate", run, "--output", output, stdin="1 2\n").says(74, str(output), "do:")
        cli("score", run, "--source", tiny, "--target", tiny, "--output", output).says(74, str(output))


def test_an_input_is_never_written_over(cli: Any, run: Path, classifier: Path, tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_text("1 2\n")
    (tmp_path / "link").symlink_to(path)
    for output in (path, tmp_path / "link"):
        cli("translate", run, "--input", path, "--output", output).says(2, "--output", str(path))
        cli("classify", classifier, "--input", path, "--output", output).says(2, "--output")
        cli("score", run, "--source", path, "--target", path, "--output", output).says(2, "--output")
    assert path.read_text() == "1 2\n"


def fed_by(path: Path, *words: object) -> subprocess.CompletedProcess[str]:
    """`pellucid WORDS < path`, in a process of its own."""
    with path.open() as file:
        return subprocess.run([sys.executable, "-m", "pellucid", *map(str, words)], stdin=file, capture_output=True,
                              text=True, timeout=300, check=False)


def test_an_input_that_is_standard_input_is_never_written_over(run: Path, classifier: Path, tmp_path: Path) -> None:
    path, other = tmp_path / "text", tmp_path / "other"
    for file in (path, other):
        file.write_text("1 2\n")
    (tmp_path / "link").symlink_to(path)
    for words in (["translate", run, "--output", path], ["translate", run, "--input", "-", "--output", path],
                  ["classify", classifier, "--output", tmp_path / "link"],
                  ["score", run, "--source", other, "--target", "-", "--output", path]):
        done = fed_by(path, *words)
        assert (done.returncode, done.stdout) == (2, ""), done.stderr
        assert "--output is a file that is read" in done.stderr
        assert path.read_text() == "1 2\n"


def test_a_device_may_be_both_read_and_written(run: Path) -> None:
    done = fed_by(Path(os.devnull), "translate", run, "--output", os.devnull)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_an_output_stays_where_the_input_cannot_be_read(cli: Any, run: Path, classifier: Path, tmp_path: Path) -> None:
    output, good, bad = (tmp_path / name for name in ("output", "good", "bad"))
    output.write_text("precious\n")
    good.write_text("1 2\n3\n")
    bad.write_bytes(b"1 2\n\xff\n")
    for source, told in ((tmp_path / "none", "does not exist"), (bad, f"{bad}:2")):
        for words in (["translate", run, "--input", source], ["classify", classifier, "--input", source],
                      ["score", run, "--source", source, "--target", good]):
            cli(*words, "--output", output).says(3, told)
            assert output.read_text() == "precious\n"
            cli(*words, "--output", tmp_path / "new").says(3, told)
            assert not (tmp_path / "new").exists()
    for words in (["translate", run], ["classify", classifier]):
        cli(*words, "--output", output, stdin=b"\xff\n").says(3, "standard input:1")
        assert output.read_text() == "precious\n"


@pytest.mark.parametrize("name", ["none", "bad"])
def test_an_output_stays_where_what_goes_beside_the_input_cannot_be_read(cli: Any, run: Path, tmp_path: Path,
                                                                         name: str) -> None:
    output, good = tmp_path / "output", tmp_path / "good"
    output.write_text("precious\n")
    good.write_text("1 2\n3\n")
    (tmp_path / "bad").write_bytes(b"1 2\n\xff\n")
    for words in (["score", run, "--source", good, "--target", tmp_path / name],
                  ["translate", run, "--input", good, "--prefix", tmp_path / name]):
        cli(*words, "--output", output).says(3, str(tmp_path / name))
        assert output.read_text() == "precious\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_output_on_a_full_disk_names_the_output(cli: Any, run: Path, tmp_path: Path) -> None:
    cli("translate", run, "--output", "/dev/full", stdin="1 2\n").says(74, "the disk is full", "where: /dev/full")
