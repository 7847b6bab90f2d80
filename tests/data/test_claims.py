"""Claims: one process at a time, released by any death; pieces of work are each done once, whoever dies."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from pellucid.data import claims
from pellucid.data.claims import awaited, claimed, holder, share_out
from pellucid.errors import OutputError, PellucidWarning

HOLD = """
import sys, time
from pathlib import Path
from pellucid.data.claims import claimed
with claimed(Path(sys.argv[1])) as is_ours:
    print(is_ours, flush=True)
    time.sleep(60)
"""


@contextlib.contextmanager
def another(path: Path) -> Any:
    """Another process, which holds the claim."""
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout
    assert process.stdout.readline() == "True\n"
    yield process
    process.kill()
    process.communicate()


def test_a_claim_is_one_processs_and_goes_with_the_block(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "claim"
    with claimed(path) as first:
        with claimed(path) as second:
            assert (first, second) == (True, False)
        with claimed(path) as third:
            assert not third  # that the second let go of nothing
    with claimed(path) as fourth:
        assert fourth


def test_another_process_is_told_apart_and_named(tmp_path: Path) -> None:
    path = tmp_path / "claim"
    with another(path) as process:
        with claimed(path) as is_ours:
            assert not is_ours
        assert holder(path).endswith(f", process {process.pid}")
    assert holder(tmp_path / "nobody") == ""


def test_who_has_it_is_all_that_is_told(tmp_path: Path) -> None:
    (tmp_path / "claim").write_text("who had it before, of a longer name" * 9)
    with claimed(tmp_path / "claim"):
        assert holder(tmp_path / "claim") == f"{os.uname().nodename}, process {os.getpid()}"


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_death_releases_it(tmp_path: Path, how: int) -> None:
    with another(tmp_path / "claim") as process:
        process.send_signal(how)
        process.wait()
        with claimed(tmp_path / "claim") as is_ours:
            assert is_ours


def test_what_is_waited_for_comes_when_its_holder_dies(tmp_path: Path) -> None:
    told: list[str] = []
    with another(tmp_path / "claim") as process:
        threading.Timer(1.2, process.kill).start()
        began = time.monotonic()
        with awaited(tmp_path / "claim", told.append):
            assert time.monotonic() - began > 1
    assert set(told) == {f"{os.uname().nodename}, process {process.pid}"}
    assert len(told) > 1
    told.clear()
    with awaited(tmp_path / "claim", told.append):
        assert not told


def test_a_child_that_was_forked_holds_nothing(tmp_path: Path) -> None:
    begun, begins = os.pipe()
    with claimed(tmp_path / "claim"):
        child = os.fork()
        if child == 0:
            os.write(begins, b"x")
            time.sleep(60)
            os._exit(0)
        os.read(begun, 1)
    try:
        with claimed(tmp_path / "claim") as is_ours:
            assert is_ours
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP])
def test_without_locks_everybody_works_and_is_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                                      number: int) -> None:
    def refuse(*given: Any) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", refuse)
    with contextlib.ExitStack() as stack:
        for _ in range(2):
            with pytest.warns(PellucidWarning, match="no locks"):
                is_ours = stack.enter_context(claimed(tmp_path / "claim"))
            assert is_ours


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path / "file" / "claim", tmp_path):
        with pytest.raises(OutputError, match=str(tmp_path)), claimed(path):
            pass

    def break_down(*given: Any) -> None:
        raise OSError(errno.EIO, "broken")

    monkeypatch.setattr(fcntl, "flock", break_down)
    with pytest.raises(OutputError, match="broken"), claimed(tmp_path / "claim"):
        pass
    assert not claims._held


def test_each_piece_is_done_once_and_what_is_done_is_left_alone(tmp_path: Path) -> None:
    done, orders = {"3", "7"}, []
    pieces = [str(number) for number in range(40)]
    for _ in range(2):
        did: list[str] = []
        assert share_out(pieces, tmp_path, lambda piece, did=did: piece in done or piece in did, did.append) == []
        assert sorted(did, key=int) == [piece for piece in pieces if piece not in done]
        orders.append(did)
    assert orders[0] != orders[1]
    assert share_out([], tmp_path, lambda piece: False, done.add) == []


def test_a_piece_that_is_done_while_it_is_claimed_is_not_done_again(tmp_path: Path) -> None:
    looks: list[str] = []

    def is_done(piece: str) -> bool:
        looks.append(piece)
        return len(looks) > 1

    def do(piece: str) -> None:
        raise AssertionError

    assert share_out(["a"], tmp_path, is_done, do) == []
    assert looks == ["a", "a"]


def test_what_fails_is_tried_once(tmp_path: Path) -> None:
    tried: list[str] = []
    with another(tmp_path / "held"):
        assert share_out(["bad", "held"], tmp_path, lambda piece: False, tried.append) == ["held"]
    assert tried == ["bad"]


def test_what_the_living_do_is_told_and_what_the_dead_left_is_done(tmp_path: Path) -> None:
    done: list[str] = []
    with another(tmp_path / "b") as process:
        assert share_out(["b"], tmp_path, done.__contains__, done.append) == ["b"]

        def do(piece: str) -> None:
            done.append(piece)
            process.kill()
            process.wait()

        assert share_out(["a", "b"], tmp_path, done.__contains__, do) == []
    assert done == ["a", "b"]
