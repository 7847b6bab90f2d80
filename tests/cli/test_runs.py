"""`pellucid runs` tells of runs as they are; `runs clean` frees what nobody needs, says so first, and nothing else."""

from __future__ import annotations

import fcntl
import io
import json
import os
import shutil
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

import pellucid
from pellucid.cli import main
from pellucid.language import columns
from pellucid.runs import care, slim
from pellucid.runs.care import free, waste_in
from pellucid.train import loop

OLD = 1_700_000_000


def listed(cli: Any, folder: Path) -> dict[str, dict[str, Any]]:
    done = cli("runs", folder, "--json")
    assert done.code == 0, done.err
    return {Path(one["run"]).name: one for one in json.loads(done.out)["runs"]}


def content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.fixture
def started(copy: Path, tmp_path: Path) -> Path:
    """What a start left that was killed before anything was trained."""
    folder = tmp_path / "started"
    folder.mkdir()
    for name in ("config.yaml", ".lock", "data.json", "environment.json"):
        shutil.copy(copy / name, folder / name)
    for name in ("tokenizer", "data"):
        shutil.copytree(copy / name, folder / name)
    return folder


def test_what_is_told_of_a_run(cli: Any, run: Path, classifier: Path) -> None:
    best = json.loads((run / "best.json").read_text())
    one = listed(cli, run.parent)["copy"]
    assert (one["run"], one["task"], one["state"], one["step"], one["steps"]) == (str(run), "seq2seq", "finished", 24,
                                                                                24)
    assert (one["monitor"], one["score"]) == (best["monitor"], best["score"])
    assert one["bytes"] == sum(path.stat().st_size for path in run.rglob("*") if path.is_file())
    assert one["date"][:2] == "20"
    shown = cli("runs", classifier)
    assert shown.code == 0
    for text in (str(classifier), "classification", "finished", "20", "loss", "cache", "1 run,"):
        assert text in shown.out


def test_columns_stand_below_one_another_behind_chinese_names_too(cli: Any, copy: Path) -> None:
    shutil.copytree(copy, copy.parent / "西游记与红楼梦")
    lines = cli("runs", copy.parent).out.splitlines()[:3]
    assert len({columns(line[: line.index(word)]) for line, word in zip(lines, ("task", "seq2seq", "seq2seq"),
                                                                        strict=True)}) == 1


def test_states(cli: Any, copy: Path, started: Path, tmp_path: Path) -> None:
    for name in ("interrupted", "newer", "damaged", "held", "older", "uncarded"):
        shutil.copytree(copy, tmp_path / name)
    for name in ("ended.json", "README.md"):  # an older version wrote the card alone
        (tmp_path / "interrupted" / name).unlink()
    (tmp_path / "older" / "ended.json").unlink()
    (tmp_path / "uncarded" / "README.md").unlink()
    environment = json.loads((copy / "environment.json").read_text())
    (tmp_path / "newer" / "environment.json").write_text(json.dumps({**environment, "format": 9}))
    (tmp_path / "damaged" / "config.yaml").write_text("{")
    assert cli("export", copy, "--to", "run", "--out", tmp_path / "slim").code == 0
    (tmp_path / "no-run").mkdir()
    (tmp_path / "no-run" / "config.yaml").write_text("model: {}")
    with (tmp_path / "held" / ".lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        found = listed(cli, tmp_path)
        assert {name: one["state"] for name, one in found.items()} == {
            "run": "finished", "started": "not begun", "interrupted": "interrupted", "newer": "unreadable",
            "damaged": "unreadable", "held": "running", "slim": "slim copy", "older": "finished",
            "uncarded": "finished"}
        assert "newer version" in found["newer"]["why"]
        cli("train", tmp_path / "held" / "config.yaml", "--out", tmp_path / "held").says(2, "another process")
    assert listed(cli, tmp_path)["held"]["state"] == "finished"


def test_a_run_that_is_extended_and_stopped_is_interrupted(cli: Any, copy: Path) -> None:
    (copy / "ended.json").unlink(missing_ok=True)
    (copy / "last.json").write_text('{"checkpoint": "step-00000025", "step": 25}')
    assert listed(cli, copy)["run"]["state"] == "interrupted"


def test_folders_without_runs(cli: Any, tmp_path: Path) -> None:
    assert "no runs in" in cli("runs", tmp_path).out
    cli("runs", tmp_path / "none").says(2, "no such folder", str(tmp_path / "none"))
    cli("runs", "clean", tmp_path / "none").says(2, "no such folder")


@pytest.mark.parametrize("content", ["null", "[]", '{"checkpoint": 4, "step": "x", "monitor": [1], "score": "?"}', "{"])
def test_pointers_that_say_nothing(cli: Any, copy: Path, content: str) -> None:
    for name in ("best.json", "last.json"):
        (copy / name).write_text(content)
    assert listed(cli, copy)["run"]["task"] == "seq2seq"
    assert cli("runs", copy).code == 0
    before = sorted(copy.rglob("*"))
    assert "stays as it is" in cli("runs", "clean", copy, "--yes").out
    assert sorted(copy.rglob("*")) == before


def test_cleaning_leaves_what_is_needed(cli: Any, copy: Path, tiny: Path, tmp_path: Path) -> None:
    stray = copy / "checkpoints" / "step-00000002"
    for name in (stray.name, "step-00000004"):
        shutil.copytree(copy / "checkpoints" / "step-00000016", stray.with_name(name))
    whole = shutil.copytree(copy, tmp_path / "whole" / "run")
    outputs = pellucid.load(copy).generate(["1 2 3", "5 5"])
    dry = cli("runs", "clean", copy, "--dry-run")
    assert dry.code == 0
    assert content(copy) == content(whole)
    said = json.loads(cli("runs", "clean", copy, "--dry-run", "--json").out)
    done = cli("runs", "clean", copy, "--yes")
    assert done.code == 0, done.err
    assert dry.out.splitlines() == done.out.splitlines()[:-1]
    sizes = [sum(map(len, content(folder).values())) for folder in (whole, copy)]
    assert said["bytes"] == pytest.approx(sizes[0] - sizes[1], abs=300)  # a manifest is a little shorter
    assert not stray.exists()
    assert "there is nothing to free" in cli("runs", "clean", copy, "--yes").out
    assert pellucid.load(copy).generate(["1 2 3", "5 5"]) == outputs
    for folder in (copy, whole):  # again, and it goes on as one that was never cleaned
        assert cli("train", tiny, "--out", folder).code == 0
        assert cli("evaluate", folder).code == 0
    best = [json.loads((folder / "best.json").read_text()) for folder in (copy, whole)]
    assert best[0] == best[1]
    weights = [folder / "checkpoints" / best[0]["checkpoint"] / "model.safetensors" for folder in (copy, whole)]
    assert weights[0].read_bytes() == weights[1].read_bytes()


def test_cleaning_an_interrupted_run_changes_no_bit_of_its_end(cli: Any, tiny: Path, tmp_path: Path) -> None:
    clean, left = tmp_path / "clean", tmp_path / "left"
    save = loop.save

    def save_and_stop(session: Any) -> None:
        save(session)
        if session.learner.progress.step == 16:
            signal.raise_signal(signal.SIGINT)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "save", save_and_stop)
        assert cli("train", tiny, "--out", clean, "--train.average_last", 3).code == 130
    shutil.copytree(clean, left)
    assert "moments of the optimizer" in cli("runs", "clean", clean, "--yes").out
    for folder in (clean, left):
        assert cli("train", tiny, "--out", folder, "--train.average_last", 3).code == 0
    for name in ("step-00000024", "average"):
        assert ((clean / "checkpoints" / name / "model.safetensors").read_bytes()
                == (left / "checkpoints" / name / "model.safetensors").read_bytes())


def test_of_runs_without_weights_in_use_and_of_slim_copies_the_truth_is_told(cli: Any, copy: Path, tmp_path: Path,
                                                                             ) -> None:
    assert cli("export", copy, "--to", "run", "--out", tmp_path / "slim").code == 0
    assert "stays as it is" not in cli("runs", "clean", tmp_path / "slim", "--dry-run").out
    (copy / "best.json").unlink()
    assert "none of its weights are in use yet" in cli("runs", "clean", copy, "--dry-run").out


def test_leftovers_and_failed_starts_go(cli: Any, started: Path, copy: Path, tmp_path: Path) -> None:
    left = [copy / f".tmp-{'a' * 32}-best.json", copy / "checkpoints" / f".tmp-{'b' * 32}-step-00000032",
            tmp_path / f".tmp-{'c' * 32}-slim"]
    left[0].write_text("half")
    for folder in left[1:]:
        folder.mkdir()
        (folder / "model.safetensors").write_text("half")
    growing = copy / "checkpoints" / f".tmp-{'e' * 32}-step-00000040"
    growing.mkdir()
    (growing / "manifest.json").write_text("just now")  # its folder has not changed since it was named
    for path in (*left, left[1] / "model.safetensors", left[2] / "model.safetensors", copy / ".tmp-mine", growing):
        path.touch()
        os.utime(path, (OLD, OLD))
    fresh = copy / f".tmp-{'d' * 32}-last.json"
    fresh.write_text("being written")
    assert cli("runs", "clean", tmp_path, "--yes").code == 0
    assert not started.exists()
    assert not any(path.exists() for path in left)
    assert fresh.exists()
    assert (growing / "manifest.json").exists()
    assert (copy / ".tmp-mine").exists()


def test_folders_that_hold_something_else_are_no_failed_starts(cli: Any, started: Path, tmp_path: Path) -> None:
    for name, made in (("notes", "notes.txt"), ("evaluated", "evaluation"), ("data", "data/generated.json")):
        folder = shutil.copytree(started, tmp_path / "more" / name)
        (folder / made).unlink() if (folder / made).exists() else (folder / made).touch()
    shutil.copytree(started, tmp_path / "more" / "lock-free", ignore=shutil.ignore_patterns(".lock"))
    before = sorted((tmp_path / "more").rglob("*"))
    assert "there is nothing to free" in cli("runs", "clean", tmp_path / "more", "--yes").out
    assert sorted((tmp_path / "more").rglob("*")) == before


def test_a_run_that_is_being_trained_is_passed_over(cli: Any, started: Path) -> None:
    with (started / ".lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert f"{started} is being trained" in cli("runs", "clean", started, "--yes").out
    assert (started / "config.yaml").exists()


def test_what_is_told_to_be_freed_is_what_went(cli: Any, started: Path, tmp_path: Path,
                                               monkeypatch: pytest.MonkeyPatch) -> None:
    """A training begins between the look and the broom."""
    folder = tmp_path / "few"
    shutil.copytree(started, folder / "started")
    left = folder / f".tmp-{'a' * 32}-slim"
    left.write_text("half")
    os.utime(left, (OLD, OLD))
    waste, _ = waste_in(folder)
    with (folder / "started" / ".lock").open("a") as lock:
        def looked_at(folder: Path) -> tuple[list[care.Waste], list[str]]:
            fcntl.flock(lock, fcntl.LOCK_EX)
            return waste, []

        monkeypatch.setattr(care, "waste_in", looked_at)
        said = cli("runs", "clean", folder, "--yes").out.splitlines()
        assert (said[-2].endswith("can be freed"), said[-1]) == (True, "freed 4 bytes")
        assert not left.exists()
        (one,) = (one for one in waste if one.path == folder / "started")
        assert free(one) == 0
    assert one.bytes == slim.size_of(folder / "started") > 0
    assert free(one) == one.bytes
    assert not (folder / "started").exists()


def test_a_file_that_goes_while_sizes_are_summed_has_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").write_text("four")
    monkeypatch.setattr(slim, "all_files", lambda folder: [folder / "gone", folder / "a"])
    assert slim.size_of(tmp_path) == 4


def test_nobody_to_ask(cli: Any, started: Path) -> None:
    cli("runs", "clean", started).says(2, "nothing was removed", "--yes", "--dry-run")
    cli("runs", "clean", started, "--json").says(2, "--yes")
    assert started.exists()


@pytest.mark.parametrize(("answer", "goes"), [("y\n", True), ("yes\n", True), ("n\n", False), ("", False)])
def test_asking(cli: Any, started: Path, monkeypatch: pytest.MonkeyPatch, answer: str, goes: bool) -> None:
    class Terminal(io.TextIOWrapper):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stdin", Terminal(io.BytesIO(answer.encode())))
    assert main(["runs", "clean", str(started)]) == 0
    assert started.exists() != goes


def test_the_cache(cli: Any, run: Path) -> None:
    cache = json.loads(cli("runs", run, "--json").out)["cache"]
    assert cache["bytes"] == sum(cache["kinds"].values()) > 0
    folder = Path(cache["folder"])
    before = content(folder)
    cli("runs", "clean", "--cache").says(2, "--yes")
    assert cli("runs", "clean", "--cache", "--dry-run").code == 0
    assert content(folder) == before
    assert cli("runs", "clean", "--cache", "--yes").code == 0
    assert content(folder) == {}
    assert cli("evaluate", run).code == 0  # made again


def test_what_has_become_of_a_start_is_looked_at_before_it_goes(cli: Any, copy: Path, tmp_path: Path) -> None:
    """Somebody trains while `runs clean` waits for a yes."""
    start = tmp_path / "runs" / "start"
    start.mkdir(parents=True)
    for name in ("config.yaml", ".lock"):
        shutil.copy(copy / name, start / name)
    (waste,), _ = waste_in(tmp_path / "runs")
    shutil.copytree(copy, start, dirs_exist_ok=True)
    assert free(waste) == 0
    assert pellucid.load(start).generate(["1 2 3"]) == pellucid.load(copy).generate(["1 2 3"])

    stray = start / "checkpoints" / "step-00000002"
    for name in (stray.name, "step-00000004"):
        shutil.copytree(start / "checkpoints" / "step-00000016", stray.with_name(name))
    (waste,) = (one for one in waste_in(tmp_path / "runs")[0] if one.path == stray)
    best = json.loads((start / "best.json").read_text())
    (start / "best.json").write_text(json.dumps(best | {"checkpoint": stray.name}))
    free(waste)
    assert stray.exists()
    (start / "best.json").write_text(json.dumps(best))
    free(waste)
    assert not stray.exists()
