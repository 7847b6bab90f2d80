"""The cache is this user's alone, or it is not used; there is always a folder, and always a word."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from pellucid import cache
from pellucid.cache import bound, cache_folder, contents, lasts, limit_bytes, note_use, objection
from pellucid.errors import PellucidWarning

posix = pytest.mark.skipif(sys.platform == "win32", reason="owners and modes are not asked there")


@pytest.fixture(autouse=True)
def anew() -> Iterator[None]:
    """Nothing has been told in this process."""
    cache._tell.cache_clear()
    yield
    cache._tell.cache_clear()


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PELLUCID_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def assert_temporary(why: str, *names: str) -> Path:
    """A private folder is given in place of the cache, and that is told once."""
    with pytest.warns(PellucidWarning, match=why):
        folder = cache_folder(*names)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert cache_folder(*names) == folder
    assert folder.parts[-len(names):] == names
    assert folder.is_relative_to(cache._temporary(os.getpid()))
    assert not lasts(folder)
    assert (folder.stat().st_mode & 0o777, folder.stat().st_uid) == (0o700, os.geteuid())
    (folder / "file").write_text("x")
    (folder / "file").unlink()
    return folder


def test_folders_are_made_for_this_user_alone(root: Path) -> None:
    before = os.umask(0)
    try:
        assert cache_folder("engines", "a") == root / "engines" / "a"
    finally:
        os.umask(before)
    assert cache_folder("engines", "a") == root / "engines" / "a"  # what is there already
    assert lasts(root / "engines" / "a")
    if sys.platform != "win32":
        assert [path.stat().st_mode & 0o777 for path in (root, root / "engines", root / "engines" / "a")] == [0o700] * 3


def test_the_cache_stays_where_it_is_when_the_process_goes_elsewhere(tmp_path: Path,
                                                                     monkeypatch: pytest.MonkeyPatch) -> None:
    name = f"cache-{os.urandom(4).hex()}"
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.setenv("PELLUCID_CACHE", name)
    monkeypatch.chdir(tmp_path)
    assert cache_folder("ids") == tmp_path / name / "ids"
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert cache_folder("ids") == tmp_path / name / "ids"


@posix
def test_a_folder_that_others_may_read_is_closed(root: Path) -> None:
    """Folders below it may have been made for all to write to, by an earlier version."""
    (root / "kernels").mkdir(parents=True, mode=0o755)
    assert cache_folder("kernels") == root / "kernels"
    assert (root / "kernels").stat().st_mode & 0o777 == 0o700


@posix
@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777, 0o1777])
@pytest.mark.parametrize("place", [".", "kernels"])
def test_a_folder_that_others_may_write_to_is_refused(mode: int, place: str, root: Path) -> None:
    (root / "kernels").mkdir(parents=True, mode=0o700)
    (root / place).chmod(mode)
    assert_temporary("others may write to", "kernels")
    (root / place).chmod(0o700)
    assert cache_folder("kernels") == root / "kernels"


@posix
@pytest.mark.parametrize("place", [".", "kernels", "kernels/deeper"])
def test_a_folder_of_another_user_is_refused(place: str, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / "kernels" / "deeper").mkdir(parents=True)
    foreign, ours = (root / place).lstat().st_ino, cache._is_ours
    monkeypatch.setattr(cache, "_is_ours", lambda state: state.st_ino != foreign and ours(state))
    assert_temporary("belongs to another user", "kernels", "deeper")


@posix
@pytest.mark.skipif(sys.platform == "win32" or os.geteuid() != 0, reason="only root can give a folder away")
def test_a_folder_that_was_given_away_is_refused(root: Path) -> None:
    (root / "kernels").mkdir(parents=True)
    os.chown(root / "kernels", 12345, 12345)
    assert_temporary("belongs to another user", "kernels")


@posix
def test_a_link_inside_is_refused(root: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    root.mkdir()
    (root / "kernels").symlink_to(tmp_path / "elsewhere")
    assert_temporary("is a symbolic link", "kernels")
    assert not list((tmp_path / "elsewhere").iterdir())


@posix
def test_a_link_on_the_way_is_followed_if_it_is_ours(root: Path, tmp_path: Path,
                                                     monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "large disk").mkdir()
    root.symlink_to(tmp_path / "large disk")
    assert cache_folder("kernels") == tmp_path / "large disk" / "kernels"
    foreign, ours = root.lstat().st_ino, cache._is_ours
    if os.geteuid() == 0:  # whose links are followed
        os.chown(root, 12345, 12345, follow_symlinks=False)
    monkeypatch.setattr(cache, "_is_ours", lambda state: state.st_ino != foreign and ours(state))
    assert_temporary("the link .* belongs to another user", "kernels")


@posix
def test_where_anybody_may_replace_it_the_cache_is_refused(root: Path, tmp_path: Path) -> None:
    mode = tmp_path.stat().st_mode
    tmp_path.chmod(0o777)
    assert_temporary("anybody may replace", "kernels")
    tmp_path.chmod(0o1777)  # as /tmp: only of their own
    assert cache_folder("kernels") == root / "kernels"
    tmp_path.chmod(mode)


@pytest.mark.parametrize("error", [RuntimeError("no home"), OSError("no such user")])
def test_without_a_home_there_is_a_folder(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def home() -> Path:
        raise error

    monkeypatch.delenv("PELLUCID_CACHE", raising=False)
    monkeypatch.setattr(Path, "home", home)
    assert_temporary(str(error), "kernels")


@posix
@pytest.mark.skipif(sys.platform == "win32" or os.geteuid() != 0, reason="only root can become another user")
def test_a_user_without_a_name_and_without_a_home_has_a_folder_while_the_process_runs() -> None:
    program = ("import os, sys, warnings\n"
               "from pellucid.cache import cache_folder\n"
               "os.environ.pop('HOME', None), os.environ.pop('PELLUCID_CACHE', None), os.setuid(54321)\n"
               "warnings.simplefilter('ignore')\n"
               "folder = cache_folder('kernels')\n"
               "(folder / 'x').write_text('y')\n"
               "print(folder)\n"
               "if os.fork() == 0: sys.exit()\n"
               "os.wait()\n"
               "assert (folder / 'x').exists()\n")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert not done.stderr
    assert not Path(done.stdout.strip()).parent.exists()


def test_what_is_no_folder_or_read_only_is_not_used(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root.write_text("in the way")
    assert_temporary("exists", "kernels")
    root.unlink()
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.warns(PellucidWarning, match="cannot be written"):
        folder = cache_folder("engines")
    with pytest.raises(NotADirectoryError):  # nor can the temporary one be written: nothing is kept
        folder.mkdir(parents=True)


@posix
def test_what_is_against_a_path_is_said(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("x")
    file.chmod(0o644)
    assert objection(file) is None
    file.chmod(0o664)
    assert "others may write" in str(objection(file))
    link = tmp_path / "link"
    link.symlink_to(file)
    assert "symbolic link" in str(objection(link))
    with pytest.raises(FileNotFoundError):
        objection(tmp_path / "none")


def test_where_owners_and_modes_mean_nothing_they_are_not_asked(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root.mkdir()
    root.chmod(0o777)
    monkeypatch.setattr(cache.sys, "platform", "win32")
    monkeypatch.delattr(os, "geteuid", raising=False)
    assert cache_folder("kernels") == root / "kernels"


def keep(root: Path, kind: str, name: str, size: int, used: float) -> Path:
    """Something in the cache, last used so many seconds ago."""
    path = root / kind / name
    path.mkdir(parents=True)
    (path / "content").write_bytes(bytes(size))
    for one in (path / "content", path):
        os.utime(one, (time.time() - used, time.time() - used))
    return path


def test_the_cache_is_bounded_by_last_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "cache"
    monkeypatch.setenv("PELLUCID_CACHE", str(root))
    monkeypatch.setenv("PELLUCID_CACHE_GIB", str(2500 / 2**30))
    oldest, old, fresh = (keep(root, "ids", name, 1000, used) for name, used in (("a", 9e5), ("b", 8e5), ("c", 10)))
    engine, data = keep(root, "engines", "run/d", 1000, 7e5), keep(root, "hub", "e", 10_000, 9e6)
    assert {one.path: one.bytes for one in contents()} == {oldest: 1000, old: 1000, fresh: 1000, engine: 1000,
                                                           data: 10_000}
    note_use(old)
    bound()
    assert [path.exists() for path in (oldest, old, fresh, engine, data)] == [False, True, True, False, True]
    monkeypatch.setenv("PELLUCID_CACHE_GIB", "0")
    bound()
    assert old.exists()  # what was used within the hour stays
    assert fresh.exists()


@pytest.mark.parametrize("given", ["x", "nan", "inf"])
def test_a_bound_that_is_no_number(given: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PELLUCID_CACHE_GIB", given)
    with pytest.warns(PellucidWarning, match=f"PELLUCID_CACHE_GIB is '{given}'"):
        assert limit_bytes() == 20 * 2**30


def test_links_in_the_cache_are_not_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PELLUCID_CACHE", str(tmp_path / "cache"))
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "text").write_text("mine")
    (tmp_path / "cache" / "ids").mkdir(parents=True)
    (tmp_path / "cache" / "ids" / "link").symlink_to(tmp_path / "mine")
    assert contents() == []
    monkeypatch.setenv("PELLUCID_CACHE", str(tmp_path / "none"))
    assert contents() == []
    assert not (tmp_path / "none").exists()
