"""The verb itself, with real training: a small study that ends, another that diverges; the dry run; budgets."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from pellucid.ablate import calibrate
from pellucid.ablate.agenda import with_budget
from pellucid.ablate.cells import cells_of
from pellucid.ablate.study import Study
from pellucid.cli import main
from pellucid.kernels.levels import cores
from pellucid.studies import study_names

Make = Callable[..., Study]


def test_a_study_from_the_command_line(study: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                       capsys: pytest.CaptureFixture[str]) -> None:
    """One cell learns something, the other breaks as the trainer says."""
    monkeypatch.chdir(tmp_path)
    wild = {"train.learning_rate": 10.0, "train.warmup_steps": 0, "train.clip_norm": None, "model.norm": "none",
            "train.schedule": "constant"}
    study({"factors": {"part": {"sound": {}, "wild": wild}}, "seeds": [1], "budget": {"steps": 40}})
    assert main(["ablate", "toy.yaml", "--json"]) == 0
    shown = capsys.readouterr()
    sound, broken = json.loads(shown.out)["cells"]
    assert 0 < sound["scores"]["validation.loss"]["mean"] < 3
    assert 0 <= sound["scores"]["test.exact"]["mean"] <= 100
    assert sound["scores"]["validation.loss"]["low"] is None  # one seed has no interval
    assert sound["parameters"] > 1000
    assert sound["tokens"] > 1000
    assert 0 < broken["diverged"]["1"]["step"] <= 40
    assert "not finite" in broken["diverged"]["1"]["what"]
    assert "2 of 2 runs done" in shown.err
    assert "toy: 2 cells × 1 seed, 2 of 2 runs to do, 1 at once; run the same command again to resume\n" in shown.err
    assert main(["ablate", "toy.yaml"]) == 0
    assert "0 of 2 runs to do\n" in capsys.readouterr().err  # and nothing to resume
    text = (tmp_path / "studies/toy/report.md").read_text()
    assert "One seed" in text
    assert "wild (1 of 1)" in text


def test_a_dry_run_shows_the_grid_and_keeps_nothing(study: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                                    capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(calibrate, "SECONDS", 0.05)
    study()
    assert main(["ablate", "toy.yaml", "--dry-run", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["runs"] == 12
    narrow, wide = (report["cells"][i]["parameters"] for i in (0, 1))
    assert wide - narrow == 2 * (2 * 16 * 24 + 24)  # a feed-forward layer in each stack, 24 wider
    assert report["seconds"] > 0
    assert report["smallest_effects_from"] == "what such scores vary by in the shipped studies"
    loss, exact = report["smallest_effects"]
    assert 0 < loss["up"] < loss["baseline"]
    assert 0 < exact["up"] < 50
    assert main(["ablate", "toy.yaml", "--dry-run"]) == 0
    said = capsys.readouterr()
    assert "4 cells × 3 seeds = 12 runs" in said.out
    assert max(map(len, said.out.splitlines())) <= 80
    assert "smallest effects found four times in five" in said.out
    assert "  test.exact: −" in said.out
    assert [path.name for path in tmp_path.iterdir()] == ["toy.yaml"]
    assert main(["ablate", "toy.yaml", "--dry-run", "--jobs", "1000"]) == 0
    said = capsys.readouterr()
    assert f"--jobs {cores()}: runs that share a core" in said.err
    assert f"= 12 runs, {cores()} at once" in said.out
    monkeypatch.setenv("COLUMNS", "40")
    assert main(["ablate", "toy.yaml", "--dry-run"]) == 0
    said = capsys.readouterr()
    assert max(map(len, said.out.splitlines())) <= 40
    assert f"\n      {wide:,} parameters  20 updates\n" in said.out


def test_a_budget_of_tokens_or_minutes_becomes_steps_once(study: Make, tmp_path: Path,
                                                          monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibrate, "SECONDS", 0.05)
    said: list[str] = []
    made = study({"budget": {"tokens": 2000}, "common": {
        "data.generated": {"train": 80, "validation": 10, "test": 10, "symbols": 6, "min_length": 4, "max_length": 4},
        "model": {"d_model": 16, "n_heads": 2, "max_length": 32}, "decode.max_length": 8,
        "train": {"batch_sentences": 20, "kernels": "plain", "warmup_steps": 2}}})
    cells = with_budget(made, cells_of(made), 1, tmp_path, said.append)
    assert {cell.config.train.steps for cell in cells} == {10}  # 20 sentences of 5 + 5 tokens, the end marks counted
    timed = study({"budget": {"minutes": 0.01}})
    first = with_budget(timed, cells_of(timed), 1, tmp_path, said.append)
    assert [line.rsplit(", ", 1)[-1] for line in said[4::4]] == [f"round {i} of 5" for i in range(1, 6)]
    assert [line.split(":")[0] for line in said[8:12]] == [f"measuring cell {i} of 4" for i in range(1, 5)]
    assert said[4].split(": ")[1].split(", r")[0] == said[11].split(": ")[1].split(", r")[0]  # there and back
    assert with_budget(timed, cells_of(timed), 1, tmp_path, said.append) == first
    more = dataclasses.replace(timed, seeds=(0, *timed.seeds))
    assert [cell.config.train.steps for cell in with_budget(more, cells_of(more), 1, tmp_path, said.append)] == [
        cell.config.train.steps for cell in first]
    assert len(said) == 4 + 5 * 4
    assert all(cell.config.train.steps >= 1 for cell in first)


def test_without_a_study_those_that_ship_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ablate"]) == 0
    text = capsys.readouterr().out
    assert all(f"\n{name}\n" in f"\n{text}" for name in study_names())
    assert main(["ablate", "--json"]) == 0
    assert all({"name", "title", "question", "cost"} <= each.keys() for each in json.loads(capsys.readouterr().out))


@pytest.mark.parametrize(("words", "says"), [
    (["ablate", "component"], "did you mean components?"), (["ablate", "toy.yaml", "--jobs", "0"], "cores"),
    (["ablate", "toy.yaml", "--model.d_modl", "3"], "did you mean model.d_model?")])
def test_a_mistake_is_one_screen(study: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str],
                                 says: str, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    study()
    assert main(words) == 2
    assert says in capsys.readouterr().err


def test_a_folder_that_holds_something_else_is_left_alone(study: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                                          capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    study()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "results.csv").write_text("mine")
    assert main(["ablate", "toy.yaml", "--out", "mine"]) == 2
    assert "no study's, and is not empty" in capsys.readouterr().err
    assert [(path.name, path.read_text()) for path in (tmp_path / "mine").iterdir()] == [("results.csv", "mine")]
