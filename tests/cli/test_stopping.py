"""A training that is stopped saves, says how to go on, and ends with the bytes of one that was not."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pellucid.cli import program
from pellucid.kernels import allocator
from pellucid.train import loop
from pellucid.train.update import Update

STOPS = [(signal.SIGINT, 130), (signal.SIGTERM, 143)]
PARTS = ["model.safetensors", "optimizer.safetensors"]
TIMES = ("seconds", "tokens_per_second")


@pytest.fixture
def signal_after(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, int], None]:
    """Sends this process a signal right after the update of a step."""

    def arrange(step: int, number: int) -> None:
        real = loop.update

        def update(learner: loop.Learner, stop_requested: Callable[[], bool]) -> tuple[Update, float]:
            result = real(learner, stop_requested)
            if learner.progress.step == step:
                signal.raise_signal(number)
            return result

        monkeypatch.setattr(loop, "update", update)

    return arrange


def metrics(folder: Path) -> list[dict[str, Any]]:
    """metrics.jsonl without its times."""
    events = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [{key: value for key, value in event.items() if key not in TIMES} for event in events]


@pytest.mark.parametrize(("number", "code"), STOPS)
@pytest.mark.parametrize("step", [1, 8, 11, 23])
def test_stopped_and_resumed_is_as_if_never_stopped(cli: Any, run: Path, tiny: Path, tmp_path: Path, number: int,
                                                    code: int, step: int, signal_after: Callable[[int, int], None],
                                                    monkeypatch: pytest.MonkeyPatch) -> None:
    out, before = tmp_path / "a run", signal.getsignal(number)
    signal_after(step, number)
    stopped = cli("train", tiny, "--out", out)
    assert stopped.code == code, stopped.err
    assert signal.Signals(number).name in stopped.err
    assert f"saved at step {step}" in stopped.err
    assert f"pellucid train {tiny} --out '{out}'" in stopped.err
    assert "Traceback" not in stopped.err
    assert json.loads((out / "last.json").read_text())["step"] == step
    assert signal.getsignal(number) == before
    monkeypatch.undo()
    resumed = cli("train", tiny, "--out", out)
    assert resumed.code == 0, resumed.err
    assert f"from step {step} to step 24" in resumed.err
    for part in PARTS:
        name = f"checkpoints/step-00000024/{part}"
        assert (out / name).read_bytes() == (run / name).read_bytes()
    assert (out / "best.json").read_bytes() == (run / "best.json").read_bytes()
    assert metrics(out) == metrics(run)


def test_stopped_at_the_last_step_is_done_after_all(cli: Any, tiny: Path, tmp_path: Path,
                                                    signal_after: Callable[[int, int], None]) -> None:
    signal_after(24, signal.SIGTERM)
    assert cli("train", tiny, "--out", tmp_path / "r").code in (0, 143)
    assert cli("train", tiny, "--out", tmp_path / "r").code == 0


@pytest.mark.usefixtures("no_own_parts")
def test_what_goes_on_knows_parts_of_ones_own(cli: Any, tiny: Path, tmp_path: Path,
                                              signal_after: Callable[[int, int], None]) -> None:
    (tmp_path / "own.py").write_text("")
    signal_after(1, signal.SIGTERM)
    stopped = cli("train", tiny, "--import", tmp_path / "own.py", "--out", tmp_path / "r")
    assert f"pellucid train {tiny} --out {tmp_path / 'r'} --import {tmp_path / 'own.py'}\n" in stopped.err


@pytest.mark.parametrize(("number", "code"), STOPS)
def test_a_process_that_gets_a_signal(tiny: Path, tmp_path: Path, new_cache: Callable[[Path], str], number: int,
                                      code: int) -> None:
    words = [sys.executable, "-m", "pellucid", "train", str(tiny), "--out", str(tmp_path / "r"),
             "--train.steps", "100000", "--train.validate_every", "20"]
    environment = {**os.environ, "PELLUCID_CACHE": new_cache(tmp_path / "cache")}
    with subprocess.Popen(words, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stderr is not None
        seen = ""
        for line in process.stderr:
            seen += line
            if line.startswith("step 20"):
                process.send_signal(number)
                break
        seen += process.stderr.read()
    assert process.returncode == code, seen
    assert "Traceback" not in seen
    assert "to go on:\n  pellucid train" in seen
    last = json.loads((tmp_path / "r" / "last.json").read_text())
    assert last["step"] >= 20
    assert (tmp_path / "r" / "checkpoints" / last["checkpoint"] / "manifest.json").exists()


def test_a_killed_writer_leaves_nothing(cli: Any, copy: Path, tiny: Path) -> None:
    left = copy / "checkpoints" / f".tmp-{'0' * 32}-step-00000032"
    left.mkdir()
    (left / "model.safetensors").write_bytes(b"half")
    (copy / f".tmp-{'1' * 32}-best.json").write_text("{")
    assert cli("train", tiny, "--out", copy).code == 0
    assert not list(copy.rglob(".tmp-*"))


def test_numbers_that_are_not_finite(cli: Any, tiny: Path, tmp_path: Path) -> None:
    stopped = cli("train", tiny, "--out", tmp_path / "r", "--train.learning_rate", "10", "--train.clip_norm", "null",
                  "--model.encoder_layers", 12, "--model.feed_forward", "swiglu",
                  "--model.residual", "none", "--model.norm", "none", "--train.schedule", "constant")
    assert stopped.code == 5, stopped.err
    assert "not finite at step" in stopped.err
    assert "Traceback" not in stopped.err


def test_an_interruption_that_would_be_lost_while_torch_is_imported_stops(tmp_path: Path) -> None:
    """As what torch's C++ imports loses it: the package here stands for torch, and goes on."""
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "version.py").write_text("")
    (tmp_path / "torch" / "__init__.py").write_text("""
import signal, sys
try:
    signal.raise_signal(signal.SIGINT)
except KeyboardInterrupt:
    sys.exit("it was lost")
""")
    paths = os.pathsep.join([str(tmp_path), *sys.path])
    program = ("import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # which may be ignored here
               "from pellucid import cli; raise SystemExit(cli.program())")
    done = subprocess.run([sys.executable, "-c", program, "train", "copy", "--out", str(tmp_path / "r")],
                          env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (130, "pellucid: stopped\n")
    assert not (tmp_path / "r").exists()


def test_an_interruption_before_the_process_starts_anew_is_no_traceback(monkeypatch: pytest.MonkeyPatch,
                                                                        capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(allocator, "start_anew", interrupted)
    monkeypatch.setattr("signal.signal", lambda number, handler: None)  # that of this process stays
    monkeypatch.setattr("atexit.register", lambda function: None)
    monkeypatch.setenv("GOMP_SPINCOUNT", "1")
    monkeypatch.setattr(sys, "argv", ["pellucid", "train", "copy"])
    assert program() == 130
    assert capsys.readouterr().err == "pellucid: stopped\n"
