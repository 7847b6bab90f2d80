"""Training begins anew with a better allocator where one is installed, as the same process, to the same bits."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pytest

from pellucid import cli
from pellucid.files import sha256
from pellucid.kernels import allocator
from pellucid.kernels.allocator import PRELOAD, better, in_use, start_anew

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="of Linux")


@pytest.fixture(autouse=True)
def _bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that has glibc's allocator, and a system that has tcmalloc beside it."""
    monkeypatch.delenv(PRELOAD, raising=False)
    monkeypatch.setattr(allocator, "in_use", lambda: "glibc")
    monkeypatch.setattr(allocator, "_GPU", Path("/nowhere"))
    monkeypatch.setattr(allocator, "find_library", {"tcmalloc": "libtcmalloc.so.4"}.get)


def test_the_one_without_profilers_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    assert better() == "libtcmalloc.so.4"
    monkeypatch.setattr(allocator, "find_library", lambda name: f"lib{name}.so.4")
    assert better() == "libtcmalloc_minimal.so.4"


@pytest.mark.parametrize("reason", ["none", "in use", "preloaded", "told not to", "gpu", "macOS"])
def test_none_is_better(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, reason: str) -> None:
    if reason == "none":
        monkeypatch.setattr(allocator, "find_library", lambda name: None)
    if reason == "in use":
        monkeypatch.setattr(allocator, "in_use", lambda: "jemalloc")
    if reason in ("preloaded", "told not to"):
        monkeypatch.setenv(PRELOAD, {"preloaded": "libasan.so", "told not to": ""}[reason])
    if reason == "gpu":
        monkeypatch.setattr(allocator, "_GPU", tmp_path)
    if reason == "macOS":
        monkeypatch.setattr(sys, "platform", "darwin")
    assert better() is None
    monkeypatch.setattr(os, "execve", _never)
    start_anew()


def test_the_same_words_to_the_same_python(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[Any] = []
    monkeypatch.setattr(os, "execve", lambda *call: begun.append(call))
    monkeypatch.setattr(sys, "orig_argv", ["python", "-X", "utf8", "-m", "pellucid", "train", "a b"])
    start_anew()
    ((file, words, environment),) = begun
    assert (file, words) == (sys.executable, [sys.executable, "-X", "utf8", "-m", "pellucid", "train", "a b"])
    assert environment == {**os.environ, PRELOAD: "libtcmalloc.so.4"}


def test_what_cannot_begin_anew_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> NoReturn:
        raise OSError(7, "Argument list too long")

    monkeypatch.setattr(os, "execve", fail)
    start_anew()


@pytest.mark.parametrize(("words", "begins"), [
    (["train", "copy"], True), (["demo"], True), (["plan", "copy"], True), (["train", "--help"], False),
    (["translate", "runs/demo"], False), ([], False)])
def test_verbs_that_train_begin_anew(monkeypatch: pytest.MonkeyPatch, words: list[str], begins: bool) -> None:
    begun: list[bool] = []
    monkeypatch.setattr(allocator, "start_anew", lambda: begun.append(True))
    monkeypatch.setattr(cli, "main", lambda words: 0)
    monkeypatch.setattr("atexit.register", lambda work: work)
    monkeypatch.setattr(sys, "argv", ["pellucid", *words])
    monkeypatch.setenv("OMP_WAIT_POLICY", "passive")  # is as this process has it
    assert cli.program() == 0
    assert bool(begun) == begins


def _never(*_: object) -> NoReturn:
    raise AssertionError("started anew")


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    if better() is None:
        assert not os.environ.get("PELLUCID_REQUIRE_ALLOCATOR"), f"PELLUCID_REQUIRE_ALLOCATOR is set, and {in_use()}"
        pytest.skip("glibc's allocator stays here: no tcmalloc, something preloaded, or a GPU")  # .ci/run requires one


Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start(tmp_path: Path) -> Start:
    (tmp_path / "copy.yaml").write_text("""\
task: seq2seq
data: {generated: {task: copy, train: 300, validation: 24, test: 24, symbols: 8, min_length: 2, max_length: 5}}
tokenizer: {kind: word}
model: {d_model: 16, n_heads: 2, d_ff: 32, encoder_layers: 1, decoder_layers: 1, dropout: 0.1, max_length: 24}
train: {steps: 20, batch_sentences: 16, learning_rate: 0.01, warmup_steps: 4, validate_every: 10}
decode: {beam_size: 2, max_length: 12}
""")

    def start(out: str, *more: str, **preload: str) -> subprocess.Popen[str]:
        return subprocess.Popen([sys.executable, "-m", "pellucid", "train", "copy.yaml", "--out", out, *more],
                                cwd=tmp_path, env={**os.environ, **preload}, text=True, stderr=subprocess.PIPE)

    return start


@pytest.mark.usefixtures("installed")
def test_the_same_weights_with_either(tmp_path: Path, start: Start) -> None:
    ends = {name: start(name, **preload) for name, preload in (("glibc", {PRELOAD: ""}), ("tcmalloc", {}))}
    for name, process in ends.items():
        told = process.communicate()[1]
        assert process.returncode == 0, told
        assert json.loads((tmp_path / name / "environment.json").read_text())["allocator"] == name
    weights = {name: [sha256(file) for file in sorted((tmp_path / name).rglob("model.safetensors"))] for name in ends}
    assert weights["glibc"] == weights["tcmalloc"] != []


@pytest.mark.usefixtures("installed")
def test_a_signal_to_the_process_that_was_started_reaches_the_training(tmp_path: Path, start: Start) -> None:
    process = start("run", "--train.steps", "100000")
    while not (tmp_path / "run" / "metrics.jsonl").exists():
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    assert "to go on:" in process.communicate()[1]
    assert process.returncode == 128 + signal.SIGTERM
