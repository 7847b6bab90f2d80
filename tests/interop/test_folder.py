"""A folder for others has its name when it is whole, and not before."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from pellucid.cache import scratch_name
from pellucid.errors import OutputError
from pellucid.interop.folder import new_folder


def test_all_of_it_is_on_the_disk_before_it_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A crash leaves no file that is cut off behind."""
    flushed, rename, fsync = dict[int, int](), os.rename, os.fsync

    def flush(handle: int) -> None:
        fsync(handle)
        flushed[os.fstat(handle).st_ino] = os.fstat(handle).st_size

    def check(old: Any, new: Any) -> None:
        for path in [Path(old), *Path(old).rglob("*")]:
            assert flushed[path.stat().st_ino] == path.stat().st_size, path
        flushed.clear()
        rename(old, new)

    monkeypatch.setattr(os, "fsync", flush)
    monkeypatch.setattr(os, "rename", check)
    with new_folder(tmp_path / "out") as place:
        (place / "deep").mkdir()
        for name in ("a", "deep/b"):
            (place / name).write_bytes(name.encode())
    assert tmp_path.stat().st_ino in flushed
    assert (tmp_path / "out" / "deep" / "b").read_bytes() == b"deep/b"


def test_what_was_killed_long_ago_goes_and_what_may_be_at_work_stays(tmp_path: Path) -> None:
    old, young, other = (scratch_name(tmp_path / name) for name in ("out", "out", "other"))
    for path in (old, young, other):
        path.mkdir()
        (path / "weights").write_bytes(b"half")
        os.utime(path, (0, 0) if path != young else None)
    with new_folder(tmp_path / "out"):
        pass
    assert {*tmp_path.iterdir()} == {young, other, tmp_path / "out"}


def test_a_disk_that_is_full_at_last_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    def write() -> None:
        with new_folder(tmp_path / "out") as place:
            (place / "a").write_bytes(b"a")
            monkeypatch.setattr(os, "fsync", full)

    with pytest.raises(OutputError, match="the disk is full"):
        write()
    assert list(tmp_path.iterdir()) == []
