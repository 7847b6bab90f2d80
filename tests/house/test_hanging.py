"""A test that hangs fails, and tells where it stands, and where the processes stand that were forked from it."""

from __future__ import annotations

import os
import signal
import sys
import time

import pytest
from tests.hanging import noticed


def wait_for_ever() -> None:
    time.sleep(1000)


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is read")
def test_what_hangs_fails_and_nothing_is_left_that_was_forked() -> None:
    begun, begins = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(begins, b"x")
        wait_for_ever()
    os.read(begun, 1)
    with pytest.raises(pytest.fail.Exception, match=rf"forked from it: \[{child}\]") as failed, noticed(0.1):
        os.waitpid(child, 0)
    assert "in wait_for_ever" in str(failed.value)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    assert 500 < signal.getitimer(signal.ITIMER_REAL)[0] < 600  # that of this test goes on


def test_what_does_not_hang_is_left_alone() -> None:
    with noticed(0.2):
        pass
    time.sleep(0.3)
