"""Every shipped study parses, resolves, says what it asks and costs, and shows itself in a dry run."""

from __future__ import annotations

from pathlib import Path

import pytest

from pellucid.ablate import calibrate
from pellucid.ablate.agenda import calibrate as calibrate_cells
from pellucid.ablate.agenda import plan
from pellucid.ablate.cells import cells_of
from pellucid.ablate.study import read_study
from pellucid.cli.arguments import split_overrides
from pellucid.config import RunConfig
from pellucid.config.effects import without_effect
from pellucid.config.mapping import differences, from_mapping
from pellucid.config.reader import merge
from pellucid.recipes import read_recipe
from pellucid.studies import study_names

NAMES = study_names()
SMALL = ["--data.generated.train", "60", "--data.generated.validation", "10", "--data.generated.test", "10",
         "--train.kernels", "plain", "--train.batch_tokens", "200"]


def test_the_studies_of_the_design_are_there() -> None:
    assert {"paper-table-3", "components", "training-techniques", "positions", "norms-and-residuals", "feed-forward",
            "attention-kinds", "length-generalisation"} <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_study_resolves_and_its_commands_give_its_configurations(name: str, tmp_path: Path) -> None:
    study = read_study(name, {})
    assert [key for key in ("title", "question", "cost", "data") if key in study.about] == list(study.about)
    assert {"title", "question", "cost"} <= set(study.about)
    assert len(study.seeds) >= 3
    cells = cells_of(study)
    assert len(cells) > 2
    for planned in plan(study, cells, tmp_path):
        own, overrides = split_overrides(planned.commands["train"])
        _is_the_same(from_mapping(merge(read_recipe(own[2]).mapping, overrides)), planned.config)


def _is_the_same(commanded: RunConfig, planned: RunConfig) -> None:
    """But for keys that change nothing, which a command does not give."""
    assert {key for key, _, _ in differences(commanded, planned)} <= without_effect(planned).keys()


@pytest.mark.parametrize("name", NAMES)
def test_every_cell_of_a_study_trains(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibrate, "SECONDS", 0.0)
    monkeypatch.chdir(tmp_path)
    lines = "".join(f"jump {'twice' if i % 2 else 'left'} {i}\tI_JUMP I_{i}\n" for i in range(60))
    for split in ("train", "test"):
        path = tmp_path / "data/scan/length" / f"{split}.tsv"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(lines)
    captions = {"en": "a man {i} sees the dog .\n", "de": "ein mann {i} sieht den hund .\n"}
    for split in ("train", "validation", "test2016"):
        for language, line in captions.items():
            path = tmp_path / "data/multi30k" / f"{split}.{language}"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("".join(line.format(i=i) for i in range(60)))
    _, overrides = split_overrides([*SMALL, "--tokenizer.vocab_size", "80"])
    study = read_study(name, overrides)
    cells = cells_of(study)
    measured = calibrate_cells(cells, 1, lambda said: None)
    assert list(measured) == [cell.label for cell in cells]
    assert all(one.parameters > 1000 and one.tokens > 0 for one in measured.values())


def test_components_run_on_other_data(tmp_path: Path) -> None:
    files = [word for split in ("train", "validation", "test")
             for side, language in (("source", "en"), ("target", "de")) for word in
             (f"--data.{split}.{side}", f"data/multi30k/{split}.{language}")]
    _, overrides = split_overrides([*files, "--tokenizer.kind", "sentencepiece", "--tokenizer.vocab_size", "4000",
                                    "--tokenizer.shared", "true"])
    study = read_study("components", overrides)
    for planned in plan(study, cells_of(study), tmp_path):
        own, again = split_overrides(planned.commands["train"])
        config = from_mapping(merge(read_recipe(own[2]).mapping, again))
        _is_the_same(config, planned.config)
        assert config.data.train is not None
        assert config.tokenizer.kind == "sentencepiece"


@pytest.mark.parametrize("name", NAMES)
def test_the_cost_names_the_runs_that_there_are(name: str) -> None:
    study = read_study(name, {})
    runs = len(cells_of(study)) * len(study.seeds)
    assert study.about["cost"].startswith(f"{runs} runs of {study.budget.steps:,} updates; about ")
