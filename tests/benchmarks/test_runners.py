"""A system that ends before it is done is named, with how it ended and what it said last; the others go on."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from benchmarks.processes import Runner, System, interleave, is_chosen, named, start

SYSTEM = """
import os, signal, sys
setting = sys.argv[2]
if setting == "silent":
    os.kill(os.getpid(), signal.SIGKILL)
if setting == "refuses":
    sys.exit("no such kernel")
print('{"warm": true}', flush=True)
for number, _ in enumerate(sys.stdin):
    if setting == "dies" and number == 1:
        print("first\\nsecond\\nno memory is left\\n", file=sys.stderr, flush=True)
        print('{"seconds": ', end="", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    print('{"seconds": 2}', flush=True)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """It has a module `a_system`."""
    (tmp_path / "a_system.py").write_text(SYSTEM, encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return tmp_path


def started(setting: str, folder: Path) -> Runner:
    return start("a_system", "peer", setting, [], folder, None)


def rate(runner: Runner) -> float:
    return 1000 / float(runner.runs[-1]["seconds"])


@pytest.mark.parametrize(("setting", "said"), [
    ("silent", r"^peer \(silent\) was ended by signal 9 \(Killed\)$"),
    ("refuses", r"^peer \(refuses\) ended with 1\n    no such kernel$")])
def test_one_that_does_not_start_says_why(setting: str, said: str, folder: Path) -> None:
    with pytest.raises(RuntimeError, match=said):
        started(setting, folder)


def test_one_that_ends_is_left_out_and_the_others_go_on(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runners = [started(setting, folder) for setting in ("dies", "stays", "stays too")]
    assert interleave(runners, 3, rate) == runners[1:]
    assert [len(runner.runs) for runner in runners] == [1, 3, 3]
    assert all(runner.process.returncode is not None for runner in runners)
    told = capsys.readouterr().err
    assert "repetition 1 of 3: peer (dies) 500, peer (stays) 500, peer (stays too) 500\n" in told
    assert ("left out: peer (dies) was ended by signal 9 (Killed)\n    first\n    second\n    no memory is left\n"
            in told)
    assert "repetition 3 of 3: peer (stays) 500, peer (stays too) 500\n" in told


def test_one_that_was_ended_in_between_is_named_too(folder: Path) -> None:
    runner = started("stays", folder)
    runner.process.terminate()
    runner.process.wait()
    with pytest.raises(RuntimeError, match=r"^peer \(stays\) was ended by signal 15 \(Terminated\)$"):
        runner.run()
    assert interleave([runner], 2, rate) == []


SYSTEMS = [("ours", "default"), ("peer", "int8 2x1"), ("peer", "int8 2x1 mkl"), ("peer", "fp32, own batches")]


@pytest.mark.parametrize(("name", "found"), [
    ("peer: int8 2x1", SYSTEMS[1:2]), ("peer (int8 2x1 mkl)", SYSTEMS[2:3]), ("peer, fp32, own batches", SYSTEMS[3:]),
    ("peer: int8", SYSTEMS[1:3]), ("peer", SYSTEMS[1:]), ("**ours**", SYSTEMS[:1]), ("ours: fp32", [("ours", "fp32")])])
def test_a_system_goes_by_its_name_and_several_by_how_theirs_begin(name: str, found: list[System]) -> None:
    assert named(SYSTEMS, [("ours", "fp32")])(name) == found


@pytest.mark.parametrize("name", ["", ":", "pee", "peer: int", "theirs", "int8 2x1"])
def test_a_name_that_none_has_is_refused_with_those_that_there_are(name: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match=r'"peer: int8 2x1 mkl", .*"ours: fp32"$'):
        named(SYSTEMS, [("ours", "fp32")])(name)


def test_all_are_chosen_where_none_is_named() -> None:
    find = named(SYSTEMS)
    assert all(is_chosen(system, []) for system in SYSTEMS)
    assert [system for system in SYSTEMS if is_chosen(system, [find("ours"), find("peer: int8 2x1")])] == SYSTEMS[:2]
