"""How workers end: none outlives the main process, and one that is killed ends a run that loses nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from pellucid.config.mapping import to_mapping
from pellucid.errors import UserError
from pellucid.train import loop
from pellucid.train import train as train_run
from pellucid.train.update import Learner, Update, update
from pellucid.train.workers import can_fork

pytestmark = pytest.mark.skipif(not can_fork(), reason="processes are not forked here")


def test_a_worker_that_is_killed_ends_the_run_with_its_signal_and_nothing_is_lost(
        tmp_path: Path, tiny: Any, stop_at: Any, train_through: Any, snapshot: Any,
        monkeypatch: pytest.MonkeyPatch) -> None:
    config = tiny(train={"workers": 3})
    train_through(config, tmp_path / "whole")
    children = []

    def murderous(learner: Learner, stop_requested: Callable[[], bool]) -> tuple[Update, float]:
        children[:] = learner.workers.processes
        if learner.progress.step == 4:
            os.kill(children[0], signal.SIGKILL)
        return update(learner, stop_requested)

    with monkeypatch.context() as patch:
        patch.setattr(loop, "update", murderous)
        with pytest.raises(UserError, match="worker 1 of 3 is gone") as error:
            train_run.train(config, tmp_path / "run", stop_at())
    assert error.value.exit_code == 128 + signal.SIGKILL
    assert "SIGKILL" in error.value.why
    assert not any(map(is_alive, children))
    assert not list(tmp_path.glob("run/checkpoints/step-00000005"))
    train_through(config, tmp_path / "run")
    assert snapshot(tmp_path / "run") == snapshot(tmp_path / "whole")


def is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    state = Path(f"/proc/{process}/stat")
    return not state.exists() or state.read_text().rsplit(")", 1)[1].split()[0] != "Z"


def gone(processes: list[int]) -> bool:
    """Whether all of them end, waited for as long as a busy machine may take."""
    until = time.monotonic() + 60
    while any(map(is_alive, processes)) and time.monotonic() < until:
        time.sleep(0.01)
    return not any(map(is_alive, processes))


PROGRAM = """
import io, sys
from pathlib import Path
import yaml
from pellucid.config.mapping import from_mapping
from pellucid.files import write_bytes
from pellucid.train import loop
from pellucid.train import train as train_run
from pellucid.train import update as train_update
from pellucid.train.journal import Reporter

loop.draw_loss_curve = lambda events, path: write_bytes(path, b"drawn")
real = loop.update
def told(learner, stop_requested):
    if learner.progress.step == 3:
        print(*learner.workers.processes, flush=True)
    return real(learner, stop_requested)
loop.update = told
config, out = from_mapping(yaml.safe_load(Path(sys.argv[1]).read_text())), Path(sys.argv[2])
try:
    train_run.train(config, out, Reporter(io.StringIO()))
except train_run.Interrupted as stop:
    sys.exit(128 + stop.number)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_no_worker_outlives_the_main_process(number: signal.Signals, tmp_path: Path, tiny: Any, stop_at: Any) -> None:
    """SIGKILL for it alone; the others for the whole group, as a terminal sends them: it saves, its workers wait."""
    config, out = tiny(train={"workers": 3, "steps": 100_000, "validate_every": 100_000}), tmp_path / "run"
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(to_mapping(config)))
    with subprocess.Popen([sys.executable, "-c", PROGRAM, tmp_path / "config.yaml", out], stdout=subprocess.PIPE,
                          text=True, start_new_session=True) as main:
        assert main.stdout is not None
        workers = list(map(int, main.stdout.readline().split()))
        assert len(workers) == 2
        assert all(map(is_alive, workers))
        if number == signal.SIGKILL:
            main.kill()
        else:
            os.killpg(main.pid, number)
        assert main.wait() == (-number if number == signal.SIGKILL else 128 + number)
        with train_run.only_writer(out):  # at once: no worker holds the folder
            pass
        assert gone(workers)
    if number != signal.SIGKILL:
        assert len(list((out / "checkpoints").iterdir())) == 1
