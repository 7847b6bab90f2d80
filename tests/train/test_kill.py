"""SIGKILL at any moment loses nothing that was saved, and the run ends as if it had not been."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from pellucid.config.mapping import to_mapping
from pellucid.errors import CheckpointError
from pellucid.files import check_folder

# A trainer in a process of its own that forks a child for each attempt: torch is imported once, a child is killed.
PROGRAM = """
import io, os, random, signal, sys, threading, time
from pathlib import Path
import torch, yaml
from pellucid.config.mapping import from_mapping
from pellucid.files import write_bytes
from pellucid.train import loop
from pellucid.train import train as train_run
from pellucid.train.journal import Reporter

config, out, moments = from_mapping(yaml.safe_load(Path(sys.argv[1]).read_text())), Path(sys.argv[2]), eval(sys.argv[3])
loop.draw_loss_curve = lambda events, path: write_bytes(path, b"drawn")
torch.set_num_threads(1)
killed = 0
for moment in [*moments, None]:
    child = os.fork()
    if child == 0:
        try:
            train_run.train(config, out, Reporter(io.StringIO()))
            os._exit(0)
        except BaseException as error:
            print(type(error), error, flush=True)
            os._exit(9)
    if moment is not None:
        while not (out / "metrics.jsonl").exists():
            time.sleep(0.001)
        time.sleep(moment)
        os.kill(child, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (0, -signal.SIGKILL), code
    killed += code == -signal.SIGKILL
print("killed", killed)
"""


@pytest.fixture(params=[1, 2], ids=["one worker", "two workers"])
def long_enough(tiny: Any, request: pytest.FixtureRequest) -> Any:
    return tiny(train={"steps": 40, "validate_every": 2, "log_every": 1, "ema_decay": 0.9, "workers": request.param})


def test_killed_at_random_moments_and_resumed_it_ends_the_same(tmp_path: Path, long_enough: Any, train_through: Any,
                                                               snapshot: Any) -> None:
    began = time.monotonic()
    train_through(long_enough, tmp_path / "whole")
    whole = time.monotonic() - began
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(to_mapping(long_enough)))
    draw = random.Random(time.time_ns())
    moments = [draw.uniform(0, whole / 2) for _ in range(8)]
    done = subprocess.run([sys.executable, "-c", PROGRAM, tmp_path / "config.yaml", tmp_path / "run", str(moments)],
                          capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, (moments, done.stdout, done.stderr)
    assert int(done.stdout.split("killed ")[1]) >= 1, "it was never killed"
    assert snapshot(tmp_path / "run") == snapshot(tmp_path / "whole"), moments
    assert not list((tmp_path / "run").rglob(".tmp-*"))


SAVER = """
import sys
from pathlib import Path
from pellucid.files import write_folder
path = Path(sys.argv[1])
for number in range(10**6):
    def fill(place):
        for name in "abc":
            (place / name).write_bytes(bytes([number % 256]) * 50_000)
    write_folder(path, fill)
    if number == 0:
        print("ready", flush=True)
"""


def test_a_folder_that_is_replaced_all_the_time_is_whole_whenever_its_writer_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "folder"
    for _ in range(6):
        with subprocess.Popen([sys.executable, "-c", SAVER, path], stdout=subprocess.PIPE) as writer:
            assert writer.stdout is not None
            writer.stdout.readline()
            time.sleep(random.uniform(0, 0.05))
            os.kill(writer.pid, signal.SIGKILL)
        try:
            check_folder(path)
        except CheckpointError as error:
            pytest.fail(str(error))
        assert len({(path / name).read_bytes() for name in "abc"}) == 1
