"""Files that are written piece by piece: in place when they are whole, gone when they fail, swept up when nobody writes
to them any more."""

from __future__ import annotations

import errno
import os
import time
from pathlib import Path

import pytest

from pellucid.cache import scratch_name
from pellucid.errors import OutputError
from pellucid.files import remove_leftovers, writing


def test_a_file_that_grows_takes_its_place_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "new" / "file"
    for before, pieces in ((None, [b"one", b" two"]), (b"one two", []), (b"", [b"three"])):
        with writing(path) as file:
            for piece in pieces:
                file.write(piece)
                file.flush()
                assert (path.read_bytes() if path.exists() else None) == before
        assert path.read_bytes() == b"".join(pieces)
    assert [one.name for one in path.parent.iterdir()] == ["file"]


@pytest.mark.parametrize("old", [None, b"old"])
@pytest.mark.parametrize("error", [RuntimeError("x"), KeyboardInterrupt(), SystemExit(143), OSError(errno.EIO, "x")])
def test_a_file_that_fails_goes_and_the_old_one_stands(error: BaseException, old: bytes | None,
                                                       tmp_path: Path) -> None:
    def write_half() -> None:
        with writing(tmp_path / "file") as file:
            file.write(b"half")
            raise error

    if old:
        (tmp_path / "file").write_bytes(old)
    with pytest.raises(OutputError if isinstance(error, OSError) else type(error)):
        write_half()
    assert [path.read_bytes() for path in tmp_path.iterdir()] == ([old] if old else [])


def test_leftovers_that_are_still_written_to_stay(tmp_path: Path) -> None:
    old, new, other = scratch_name(tmp_path / "a"), scratch_name(tmp_path / "b"), tmp_path / "file"
    for path, age in ((old, 100), (new, 5), (other, 100)):
        path.write_bytes(b"")
        os.utime(path, (time.time() - age,) * 2)
    remove_leftovers(tmp_path, unused=60)
    assert set(tmp_path.iterdir()) == {new, other}
