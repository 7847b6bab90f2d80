"""What another process does meanwhile is what this one would have done, mistakes too; and it leaves nobody behind."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from pathlib import Path

import pytest

from pellucid.errors import DataError, UserError
from pellucid.inspection import meanwhile as module
from pellucid.inspection.meanwhile import meanwhile
from pellucid.train.workers import can_fork, on_threads

forks = pytest.mark.skipif(not can_fork(), reason="processes are not forked here")


def who() -> list[str]:
    return [str(os.getpid()), "春"]


@forks
def test_another_process_does_it_at_once(tmp_path: Path) -> None:
    def work() -> list[str]:
        (tmp_path / "begun").touch()
        return who()

    with on_threads(2), meanwhile(work) as done:
        while not (tmp_path / "begun").exists():
            time.sleep(0.01)
        found = done()
    assert found[1:] == who()[1:]
    assert found[0] != who()[0]
    assert multiprocessing.active_children() == []


def test_where_there_is_one_thread_this_one_does_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with on_threads(1), meanwhile(who) as done:
        assert done() == who()
    monkeypatch.setattr(module, "can_fork", lambda: False)
    with on_threads(2), meanwhile(who) as done:
        assert done() == who()


@forks
def test_what_it_raises_is_raised_here() -> None:
    def mistaken() -> list[str]:
        raise DataError("torn", where="here", why="because", fix="mend it")

    def broken() -> list[str]:
        return [str(1 // 0)]

    def killed() -> list[str]:
        os.kill(os.getpid(), signal.SIGKILL)
        return []

    with on_threads(2), meanwhile(mistaken) as done, pytest.raises(DataError) as error:
        done()
    assert str(error.value) == "torn\n  where: here\n  why:   because\n  do:    mend it"
    with on_threads(2), meanwhile(broken) as done, pytest.raises(UserError, match="division") as failed:
        done()
    assert "broken" in failed.value.__notes__[0]
    with on_threads(2), meanwhile(killed) as done, pytest.raises(UserError, match="is gone"):
        done()


@forks
def test_it_ends_with_what_it_is_a_part_of(tmp_path: Path) -> None:
    def endless() -> list[str]:
        (tmp_path / "begun").touch()
        time.sleep(1000)
        return []

    with on_threads(2), meanwhile(endless):
        while not (tmp_path / "begun").exists():
            time.sleep(0.01)
    assert multiprocessing.active_children() == []
