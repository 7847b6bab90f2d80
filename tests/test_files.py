"""Writes that survive: whole or not at all, whatever fails and wherever a crash comes."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pellucid import files
from pellucid.cache import scratch_name
from pellucid.errors import CheckpointError, OutputError, PellucidWarning
from pellucid.files import (
    append_line,
    check_folder,
    is_kept,
    make_folder,
    read_json,
    remove_leftovers,
    write_bytes,
    write_folder,
    write_json,
    write_text,
)


class Crash(BaseException):
    """The machine stops here."""


def crash_at(number: int, monkeypatch: pytest.MonkeyPatch, before: bool) -> list[int]:
    """Lets the `number`-th system call that changes the disk's state crash, before or after it is done."""
    calls = [0]

    def wrap(place: Any, name: str) -> None:
        real = getattr(place, name)

        def counted(*arguments: Any, **keywords: Any) -> Any:
            calls[0] += 1
            if before and calls[0] == number:
                raise Crash
            result = real(*arguments, **keywords)
            if not before and calls[0] == number:
                raise Crash
            return result

        monkeypatch.setattr(place, name, counted)

    for name in ("fsync", "replace", "mkdir", "rmdir"):
        wrap(os, name)
    wrap(shutil, "rmtree")
    wrap(files, "_exchange")
    return calls


def fill_with(content: bytes) -> Callable[[Path], None]:
    def fill(place: Path) -> None:
        (place / "a").write_bytes(content)
        (place / "b").write_bytes(content * 3)

    return fill


def content_of(folder: Path) -> bytes:
    check_folder(folder)
    content = (folder / "a").read_bytes()
    assert (folder / "b").read_bytes() == content * 3
    assert {path.name for path in folder.iterdir()} == {"a", "b", "manifest.json"}
    return content


def names(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


def test_bytes_text_and_json_are_written_and_replaced(tmp_path: Path) -> None:
    path = tmp_path / "new" / "deep" / "file"
    for content in (b"one", b"", b"three" * 1000):
        write_bytes(path, content)
        assert path.read_bytes() == content
    write_text(path, "größer\n")
    assert path.read_bytes() == "größer\n".encode()
    write_json(path, {"a": [1, 2.5, None, "ü"]})
    assert read_json(path) == {"a": [1, 2.5, None, "ü"]}
    assert "ü" in path.read_text(encoding="utf-8")
    append_line(path, "x")
    append_line(path, "y")
    assert path.read_bytes().endswith(b"}\nx\ny\n")
    assert names(path.parent) == ["file"]


def test_a_file_that_this_user_may_not_read_is_not_told_as_damaged(
        tmp_path: Path, closed: Callable[[Path], contextlib.AbstractContextManager[None]]) -> None:
    write_json(tmp_path / "in/x", 1)
    with closed(tmp_path / "in"), pytest.raises(CheckpointError, match="no permission"):
        read_json(tmp_path / "in/x")


def test_what_might_never_end_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "x")
    with pytest.raises(CheckpointError, match="cannot be read as JSON") as told:
        read_json(tmp_path / "x")
    assert told.value.why == "it is no plain file"


def test_what_is_no_number_is_not_written(tmp_path: Path) -> None:
    write_json(tmp_path / "x", 1)
    with pytest.raises(ValueError):
        write_json(tmp_path / "x", float("nan"))
    assert read_json(tmp_path / "x") == 1


@pytest.mark.parametrize("before", [True, False])
def test_a_crash_leaves_the_old_file_or_the_new_one(before: bool, tmp_path: Path) -> None:
    path, number, seen = tmp_path / "file", 0, set()
    while True:
        number += 1
        write_bytes(path, b"old")
        with pytest.MonkeyPatch.context() as patch:
            calls = crash_at(number, patch, before)
            with contextlib.suppress(Crash):
                write_bytes(path, b"new")
        seen.add(path.read_bytes())
        assert seen <= {b"old", b"new"}
        if calls[0] < number:
            break
    assert number > 2
    assert seen == {b"old", b"new"}


@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("is_new", [True, False])
def test_a_crash_leaves_the_old_folder_or_the_new_one(before: bool, is_new: bool, tmp_path: Path) -> None:
    path, number, seen = tmp_path / "folder", 0, set()
    while True:
        number += 1
        shutil.rmtree(path, ignore_errors=True)
        if not is_new:
            write_folder(path, fill_with(b"old"))
        with pytest.MonkeyPatch.context() as patch:
            calls = crash_at(number, patch, before)
            with contextlib.suppress(Crash):
                write_folder(path, fill_with(b"new"))
        seen.add(content_of(path) if path.exists() else b"old" if is_new else b"lost")
        assert seen <= {b"old", b"new"}, number
        if calls[0] < number:
            break
    assert number > 5
    assert seen == {b"old", b"new"}
    remove_leftovers(tmp_path)
    assert names(tmp_path) == ["folder"]


def test_whatever_is_renamed_into_place_is_on_the_disk_by_then(tmp_path: Path,
                                                               monkeypatch: pytest.MonkeyPatch) -> None:
    """Its content, its name and the names above it: a crash leaves no file that is cut off behind."""
    flushed, replace, fsync = dict[int, int](), os.replace, os.fsync

    def flush(handle: int) -> None:
        fsync(handle)
        state = os.fstat(handle)
        flushed[state.st_ino] = state.st_size

    def check(old: Any, new: Any, **keywords: Any) -> None:
        for path in [Path(old), *Path(old).glob("*")]:
            assert flushed[path.stat().st_ino] == path.stat().st_size, path
        replace(old, new, **keywords)

    monkeypatch.setattr(os, "fsync", flush)
    monkeypatch.setattr(os, "replace", check)
    for write in (lambda place: write_bytes(place / "file", b"new"),
                  lambda place: write_folder(place / "folder", fill_with(b"new"))):
        place = tmp_path / f"{len(list(tmp_path.iterdir()))}" / "deep"
        write(place)
        assert {path.stat().st_ino for path in (place, place.parent, tmp_path)} <= flushed.keys()
        flushed.clear()


def test_where_folders_cannot_change_places_the_old_one_steps_aside(tmp_path: Path,
                                                                   monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_exchange", lambda a, b: False)
    for content in (b"one", b"two", b"three"):
        write_folder(tmp_path / "folder", fill_with(content))
        assert content_of(tmp_path / "folder") == content
    assert names(tmp_path) == ["folder"]


def test_two_writers_of_one_folder_do_not_disturb_each_other(tmp_path: Path) -> None:
    path = tmp_path / "folder"

    def fill(place: Path) -> None:  # meanwhile, another one finishes
        write_folder(path, fill_with(b"other"))
        fill_with(b"mine")(place)

    write_folder(path, fill)
    assert content_of(path) == b"mine"
    assert names(tmp_path) == ["folder"]


@pytest.mark.parametrize("error", [RuntimeError("x"), KeyboardInterrupt(), Crash(), OSError(errno.EIO, "x")])
def test_what_goes_wrong_while_filling_leaves_nothing_behind(error: BaseException, tmp_path: Path) -> None:
    def fill(place: Path) -> None:
        (place / "a").write_bytes(b"half")
        raise error

    with pytest.raises(OutputError if isinstance(error, OSError) else type(error)):
        write_folder(tmp_path / "folder", fill)
    assert not list(tmp_path.iterdir())
    write_folder(tmp_path / "folder", fill_with(b"old"))
    with pytest.raises(OutputError if isinstance(error, OSError) else type(error)):
        write_folder(tmp_path / "folder", fill)
    assert content_of(tmp_path / "folder") == b"old"
    assert names(tmp_path) == ["folder"]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_said_with_what_is_free(number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_bytes(tmp_path / "file", b"old")
    write_folder(tmp_path / "folder", fill_with(b"old"))

    def full(handle: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", full)
    for write in (lambda: write_bytes(tmp_path / "file", b"new"),
                  lambda: write_folder(tmp_path / "folder", fill_with(b"new"))):
        with pytest.raises(OutputError, match="the disk is full") as error:
            write()
        assert error.value.exit_code == 74
        free = int(error.value.why.split()[0].replace(",", ""))
        assert abs(free - shutil.disk_usage(tmp_path).free) < 2**30
    assert (tmp_path / "file").read_bytes() == b"old"
    assert content_of(tmp_path / "folder") == b"old"


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    for write in (lambda path: write_bytes(path, b""), lambda path: append_line(path, ""), make_folder,
                  lambda path: write_folder(path, fill_with(b""))):
        with pytest.raises(OutputError, match="cannot write") as error:
            write(tmp_path / "file" / "below")
        assert str(tmp_path / "file") in error.value.where


def test_only_leftovers_are_removed(tmp_path: Path) -> None:
    left = scratch_name(tmp_path / "folder")
    left.mkdir()
    (left / "x").write_bytes(b"")
    scratch_name(tmp_path / "file").write_bytes(b"")
    others = [".tmp-", ".tmp-notes.txt", f".tmp-{'0' * 32}", f".tmp-{'g' * 32}-file", "kept.tmp"]
    for name in others:
        (tmp_path / name).write_bytes(b"")
    remove_leftovers(tmp_path)
    remove_leftovers(tmp_path / "no such folder")
    assert sorted(names(tmp_path)) == sorted(others)


def damage(folder: Path, name: str, outside: Path) -> None:
    file = folder / "a"
    {"missing": file.unlink,
     "shorter": lambda: file.write_bytes(b"ol"),
     "other bytes": lambda: file.write_bytes(b"odl"),
     "symlink": lambda: (file.unlink(), file.symlink_to(outside)),
     "folder": lambda: (file.unlink(), file.mkdir()),
     "no manifest": (folder / "manifest.json").unlink,
     "manifest cut": lambda: (folder / "manifest.json").write_bytes((folder / "manifest.json").read_bytes()[:-9]),
     }[name]()


@pytest.mark.parametrize("name", ["missing", "shorter", "other bytes", "symlink", "folder", "no manifest",
                                  "manifest cut"])
def test_a_damaged_folder_is_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / "outside").write_bytes(b"old")
    write_folder(tmp_path / "folder", fill_with(b"old"))
    check_folder(tmp_path / "folder")
    damage(tmp_path / "folder", name, tmp_path / "outside")
    with pytest.raises(CheckpointError) as error:
        check_folder(tmp_path / "folder")
    assert str(tmp_path / "folder") in error.value.where


@pytest.mark.parametrize("name", ["..", ".", "", "../outside", "/etc/hostname", "a/../a", "x\0y"])
def test_a_manifest_names_nothing_but_files_of_its_folder(name: str, tmp_path: Path) -> None:
    (tmp_path / "outside").write_bytes(b"old")
    write_folder(tmp_path / "folder", fill_with(b"old"))
    manifest = read_json(tmp_path / "folder" / "manifest.json")
    manifest["files"][name] = manifest["files"]["a"]
    (tmp_path / "folder" / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(CheckpointError):
        check_folder(tmp_path / "folder")


def test_the_digest_of_a_large_file_is_remembered_until_it_is_touched(tmp_path: Path,
                                                                      monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PELLUCID_CACHE", str(tmp_path / "cache"))
    path, read, sha256 = tmp_path / "large", [], files.sha256
    monkeypatch.setattr(files, "sha256", lambda path: read.append(path) or sha256(path))

    def digest(times: int = 1) -> None:
        for _ in range(times):
            assert files.remembered_sha256(path) == hashlib.sha256(path.read_bytes()).hexdigest()

    path.write_bytes(b"abc")
    digest(2)
    assert len(read) == 2  # small
    monkeypatch.setattr(files, "_LARGE", 1)
    digest(2)
    assert len(read) == 4  # too new for its time to be trusted
    monkeypatch.setattr(files.time, "time_ns", lambda: path.stat().st_ctime_ns + 3 * 10**9)
    digest(3)
    assert len(read) == 5
    times = path.stat()
    path.write_bytes(b"abd")
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))  # as a copy that keeps times would do
    digest()
    assert len(read) == 6
    for note in (tmp_path / "cache" / "digests").iterdir():
        note.write_text("damaged")
    digest()
    assert len(read) == 7


@pytest.mark.parametrize("changed", [
    "missing", "shorter", "other bytes", "symlink", "folder", "no manifest", "manifest cut"])
def test_what_is_kept_is_there_whole_or_a_word_is_said(changed: str, tmp_path: Path,
                                                       recwarn: pytest.WarningsRecorder) -> None:
    folder = tmp_path / "folder"
    assert not is_kept(folder, ["a", "b"])
    write_folder(folder, fill_with(b"old"))
    assert is_kept(folder, ["a", "b"])
    told = [one for one in recwarn.list if issubclass(one.category, PellucidWarning)]
    assert not told  # what is not there is not damaged
    with pytest.warns(PellucidWarning, match="its files are others: a, b"):
        assert not is_kept(folder, ["a", "b", "c"])
    damage(folder, changed, tmp_path / "outside")
    with pytest.warns(PellucidWarning, match="damaged or forged, and made anew"):
        assert not is_kept(folder, ["a", "b"])


@pytest.mark.skipif(sys.platform == "win32", reason="links need a privilege there")
def test_a_link_to_what_is_kept_is_not_what_is_kept(tmp_path: Path) -> None:
    write_folder(tmp_path / "folder", fill_with(b"old"))
    (tmp_path / "link").symlink_to(tmp_path / "folder")
    with pytest.warns(PellucidWarning, match="symbolic link"):
        assert not is_kept(tmp_path / "link", ["a", "b"])


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes that have names")
def test_nobody_waits_for_a_manifest_that_is_a_pipe(tmp_path: Path) -> None:
    write_folder(tmp_path / "folder", fill_with(b"old"))
    (tmp_path / "folder" / "manifest.json").unlink()
    os.mkfifo(tmp_path / "folder" / "manifest.json")
    with pytest.raises(CheckpointError, match="no plain file"):
        check_folder(tmp_path / "folder")


def test_a_bit_that_changed_in_a_large_file_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Though its digest is remembered, and its size and its time of change stay the same."""
    monkeypatch.setenv("PELLUCID_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(files, "_LARGE", 1)
    monkeypatch.setattr(files.time, "time_ns", lambda real=time.time_ns: real() + 3 * 10**9)
    write_folder(tmp_path / "folder", fill_with(b"old"))
    taken, sha256 = [], files.sha256
    monkeypatch.setattr(files, "sha256", lambda path: taken.append(path) or sha256(path))
    assert all(is_kept(tmp_path / "folder", ["a", "b"]) for _ in range(3))
    assert len(taken) == 2
    file = tmp_path / "folder" / "a"
    times = file.stat()
    file.write_bytes(b"ole")
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
    with pytest.warns(PellucidWarning, match="SHA-256"):
        assert not is_kept(tmp_path / "folder", ["a", "b"])


@pytest.mark.parametrize("platform", ["win32", "darwin"])
def test_nothing_of_linux_is_asked_for_elsewhere(platform: str, tmp_path: Path,
                                                 monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows flushes no folders, and neither has a C library of this name."""
    monkeypatch.setattr(files.sys, "platform", platform)
    monkeypatch.setattr(files.ctypes, "CDLL", lambda name: pytest.fail("asked for a C library"))
    if platform == "win32":
        monkeypatch.setattr(os, "open", lambda *arguments: pytest.fail("opened a folder"))
    for content in (b"one", b"two"):
        write_folder(tmp_path / "folder", fill_with(content))
        assert content_of(tmp_path / "folder") == content


def test_names_that_are_no_utf8_are_written_and_json_reads_them_back(tmp_path: Path) -> None:
    name = os.fsdecode(b"caf\xe9")
    write_json(tmp_path / "a.json", {"run": name, "猫": 1})
    write_text(tmp_path / "a.md", f"{name} 猫")
    append_line(tmp_path / "a.jsonl", json.dumps({"run": name}, ensure_ascii=False))
    assert read_json(tmp_path / "a.json") == {"run": name, "猫": 1}
    assert (tmp_path / "a.md").read_text("utf-8") == r"caf\udce9 猫"
    assert json.loads((tmp_path / "a.jsonl").read_text("utf-8")) == {"run": name}
