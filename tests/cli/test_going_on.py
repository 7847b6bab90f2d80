"""`pellucid train RUN` goes on with a run, says that it is finished, or extends it."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

from pellucid.train import loop


def test_a_finished_run_says_so_and_how_to_extend_it(cli: Any, copy: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in copy.rglob("*")}
    done = cli("train", copy)
    assert done.code == 0
    assert f"{copy} is finished: all 24 updates were made" in done.out
    assert {path: path.stat().st_mtime_ns for path in copy.rglob("*")} == before
    assert json.loads(cli("train", copy, "--json").out)["ended"] == "steps"
    command = shlex.split(done.out.splitlines()[2])
    assert command[:2] == ["pellucid", "train"]
    extended = cli(*command[1:])  # what it says works
    assert extended.code == 0, extended.err
    assert "48 updates in place of 24, as if they had been asked for at first" in extended.err
    assert json.loads((copy / "last.json").read_text())["step"] == 48
    assert yaml.safe_load((copy / "config.yaml").read_text())["train"]["steps"] == 48


def test_only_what_is_not_finished_can_be_resumed(cli: Any, tiny: Path, copy: Path, tmp_path: Path) -> None:
    assert f"run folder {copy}\n" in cli("train", tiny, "--out", copy).err
    fresh = tmp_path / "fresh"
    assert f"run folder {fresh}: run the same command again to resume\n" in cli("train", tiny, "--out", fresh).err


@pytest.mark.parametrize("content", ["", "[", "[]"])
def test_a_damaged_word_of_the_end_is_written_anew(cli: Any, copy: Path, content: str) -> None:
    before = (copy / "ended.json").read_text()
    (copy / "ended.json").write_text(content)
    done = cli("train", copy)
    assert done.code == 0, done.err
    assert (copy / "ended.json").read_text() == before


def test_a_default_that_has_changed_and_changes_nothing_is_no_other_configuration(cli: Any, copy: Path,
                                                                                  tiny: Path) -> None:
    """As character_coverage of words, which was 0.9995 before it was null; what decoding takes when it is asked to
    stays the run's."""
    config = copy / "config.yaml"
    before = config.read_text().replace("character_coverage: null", "character_coverage: 0.9995")
    assert "0.9995" in before
    config.write_text(before)
    done = cli("train", tiny, "--out", copy)
    assert done.code == 0, done.err
    assert config.read_text() == before
    config.write_text(before.replace("temperature: 1.0", "temperature: 0.5"))
    cli("train", tiny, "--out", copy).says(2, "belongs to another configuration", "decode.temperature")


def test_an_interrupted_run_goes_on(cli: Any, run: Path, tiny: Path, tmp_path: Path,
                                    monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "is_out_of_patience", lambda session: session.learner.progress.step == 8)
    monkeypatch.setattr("pellucid.train.train.finish", lambda session, out: 1 / 0)
    assert cli("train", tiny, "--out", tmp_path / "r").code == 1
    monkeypatch.undo()
    assert not (tmp_path / "r/ended.json").exists()
    resumed = cli("train", tmp_path / "r")
    assert resumed.code == 0, resumed.err
    assert "from step 8 to step 24" in resumed.err
    name = "checkpoints/step-00000024/model.safetensors"
    assert (tmp_path / "r" / name).read_bytes() == (run / name).read_bytes()


def test_a_schedule_that_has_ended_asks_for_a_choice(cli: Any, tiny: Path, tmp_path: Path) -> None:
    words = ("train", tiny, "--out", tmp_path / "r", "--train.schedule", "cosine")
    assert cli(*words).code == 0
    cli(*words, "--train.steps", 32).says(2, "cannot come out as if they had been asked for at first", "--extend",
                                          "train.schedule cosine ends where the run does", "another --out")
    finished = cli("train", tmp_path / "r").out
    assert "--extend" in finished
    extended = cli("train", tmp_path / "r", "--train.steps", 32, "--extend")
    assert extended.code == 0, extended.err
    assert "extended from 24 to 32 updates" in extended.err


def test_why_it_has_ended_is_said(cli: Any, tiny: Path, tmp_path: Path) -> None:
    words = ("train", tiny, "--out", tmp_path / "r", "--train.patience", 1, "--train.learning_rate", 9.0,
             "--train.validate_every", 2)
    done = cli(*words, "--json")
    assert done.code == 0, done.err
    summary = json.loads(done.out)
    told = f"stopped early at step {summary['step']}: validation loss has not fallen for 1 validation (best at step "
    assert summary["step"] > 4  # the warm-up
    assert told in done.err
    assert summary["why"].startswith(told)
    assert f"The run has ended: {told}" in (tmp_path / "r/README.md").read_text()
    assert "--train.patience 2" in cli("train", tmp_path / "r").out


def test_a_run_folder_is_a_configuration_for_another_run(cli: Any, run: Path, tmp_path: Path) -> None:
    shown = cli("train", run, "--out", tmp_path / "r", "--seed", 7, "--dry-run")
    assert shown.code == 0, shown.err
    assert re.search(r"^seed: 7$", shown.out, re.MULTILINE)
    assert f"would be written to {tmp_path / 'r'}" in shown.out


@pytest.mark.parametrize(("words", "told"), [
    (["--train.warmup_steps", 40], "the run ends within its warm-up: 24 updates, and train.warmup_steps is 40"),
    (["--train.validate_every", 25], "the only validation is the one at the end"),
    (["--train.patience", 3], "train.patience 3 cannot end the run early"), ([], "")])
def test_a_run_that_is_too_short_for_something_says_so(words: list[Any], told: str, cli: Any, tiny: Path,
                                                       tmp_path: Path) -> None:
    done = cli("train", tiny, "--out", tmp_path / "r", *words)
    assert done.code == 0
    assert ("note: " in done.err) == bool(told)
    assert told in done.err
