"""Every shipped recipe resolves, says what it costs and gives, shows itself in a dry run, and trains at toy scale."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import pellucid
from pellucid.cli import main
from pellucid.config import from_mapping, to_mapping
from pellucid.data.grammar import splits
from pellucid.model.build import build, build_classifier, check
from pellucid.recipes import read_recipe, recipe_names

NAMES = recipe_names()
GENERATED = [name for name in NAMES if "generated" in read_recipe(name).mapping["data"]]
TOY = ["--train.steps", "4", "--train.validate_every", "4", "--train.log_every", "2", "--train.batch_sentences", "20",
       "--model.d_model", "16", "--model.d_ff", "16", "--model.n_heads", "2"]
SMALL_DATA = ["--data.generated.train", "80", "--data.generated.validation", "10", "--data.generated.test", "10"]


@pytest.fixture
def own_files(tmp_path: Path) -> list[str]:
    """Flags that give a recipe files of ours in the place of the user's."""
    made = splits(train=200, validation=10, test=10, seed=1)
    flags = ["--tokenizer.vocab_size", "120"]
    for name in ("train", "validation", "test"):
        for side, number in (("source", 0), ("target", 1)):
            path = tmp_path / f"{name}.{side}"
            path.write_text("".join(pair[number] + "\n" for pair in getattr(made, name)), encoding="utf-8")
            flags += [f"--data.{name}.{side}", str(path)]
    return flags


def test_the_recipes_of_the_design_are_there() -> None:
    assert {"copy", "demo", "multi30k-en-de"} <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_recipe_resolves_and_says_what_it_is(name: str) -> None:
    recipe = read_recipe(name)
    assert all(recipe.about.get(key) for key in ("title", "cost", "expect"))
    config = from_mapping(recipe.mapping)
    assert from_mapping(to_mapping(config)) == config
    check(config.model)
    if config.task == "classification":
        build_classifier(config.model, 100, 2)
    else:
        build(config.model, 100, 100, shared=config.tokenizer.shared)


@pytest.mark.parametrize("name", NAMES)
def test_a_recipe_names_each_key_once_and_no_place_on_a_machine(name: str) -> None:
    def strings(value: Any) -> list[str]:
        inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else []
        return [value] if isinstance(value, str) else [text for each in inner for text in strings(each)]

    assert not [text for text in strings(read_recipe(name).mapping) if text.startswith(("/", "~"))]


@pytest.mark.parametrize("name", GENERATED)
def test_a_dry_run_shows_the_recipe_and_writes_nothing(
        name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["train", name, "--dry-run", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["config"] == to_mapping(from_mapping(read_recipe(name).mapping))
    assert report["parameters"] > 0
    assert "readable" in report["train"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", NAMES)
def test_a_recipe_trains_at_toy_scale(name: str, tmp_path: Path, own_files: list[str],
                                      capsys: pytest.CaptureFixture[str]) -> None:
    out, recipe = tmp_path / "run", read_recipe(name).mapping
    data = SMALL_DATA if name in GENERATED else own_files
    epochs = ["--train.epochs", "null"] if "epochs" in recipe["train"] else []
    assert main(["train", name, "--out", str(out), "--json", *TOY, *epochs, *data]) == 0
    assert json.loads(capsys.readouterr().out)["step"] == 4
    for file in ("config.yaml", "environment.json", "data.json", "metrics.jsonl", "best.json", "last.json", "README.md",
                 "figures/loss.png", "tokenizer/manifest.json"):
        assert (out / file).is_file(), file
    run = pellucid.load(out)
    if recipe["task"] == "classification":
        assert run.classify(["1 2 3"])[0].label in ("0", "1")
    else:
        assert isinstance(run.generate(["1 2 3"])[0].text, str)
    assert main(["evaluate", str(out), "--json"]) == 0
    (scores,) = json.loads(capsys.readouterr().out)["runs"]
    assert scores["n"] == 10
    assert set(scores["interval"]) <= set(scores)
