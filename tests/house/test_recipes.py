"""Every shipped recipe resolves, says what it costs and gives, shows itself in a dry run, and trains at toy scale."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import pellucid
from pellucid.cli import main
from pellucid.config.mapping import from_mapping, to_mapping
from pellucid.data.tokenizers.symbols import symbols_of
from pellucid.model.build import build, build_classifier, build_reader, check
from pellucid.recipes import read_recipe, recipe_names
from pellucid.runs.reading import read

NAMES = recipe_names()
GENERATED = [name for name in NAMES if "generated" in read_recipe(name).mapping["data"]]
TOY = ["--train.steps", "4", "--train.validate_every", "4", "--train.log_every", "2", "--train.batch_sentences", "20",
       "--model.d_model", "16", "--model.d_ff", "16", "--model.n_heads", "2", "--decode.max_length", "12"]
SMALL_DATA = ["--data.generated.train", "80", "--data.generated.validation", "10", "--data.generated.test", "10"]


def smaller(name: str) -> list[str]:
    """Flags that fit a recipe to a few lines of data."""
    recipe = read_recipe(name).mapping
    flags = ["--train.epochs", "null"] if "epochs" in recipe["train"] else []
    if "validation_share" in recipe["data"]:
        flags += ["--data.validation_share", "0.1"]
    if name in GENERATED:
        return [*flags, *SMALL_DATA]
    if recipe["tokenizer"]["kind"] == "sentencepiece":
        symbols = symbols_of(tuple(recipe["tokenizer"].get("symbols", ())))
        return [*flags, "--tokenizer.vocab_size", str(120 + len(symbols))]
    return [*flags, "--tokenizer.min_frequency", "1"]


def test_the_recipes_of_the_design_are_there() -> None:
    assert {"copy", "demo", "multi30k-en-de"} <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_recipe_resolves_and_says_what_it_is(name: str) -> None:
    recipe = read_recipe(name)
    assert list(recipe.about) == [key for key in ("title", "data", "cost", "expect") if recipe.about.get(key)]
    assert {"title", "cost"} <= set(recipe.about)
    assert ("data" in recipe.about) == (name not in GENERATED)
    config = from_mapping(recipe.mapping)
    assert from_mapping(to_mapping(config)) == config
    check(config.model)
    if config.task == "classification":
        build_classifier(config.model, 100, 2)
    elif config.task == "reading":
        build_reader(config.model, 100, separator=3, unknown=1)
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
    assert report["train"]["lines"] > 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", NAMES)
def test_a_recipe_trains_at_toy_scale(name: str, tmp_path: Path, stand_ins: Callable[[Path], None],
                                      monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    recipe = read_recipe(name).mapping
    if str(recipe["data"].get("train")).startswith("hub:"):
        pytest.importorskip("datasets")
    if recipe["tokenizer"]["kind"] == "spacy":
        pytest.importorskip("spacy")
    stand_ins(tmp_path)
    monkeypatch.chdir(tmp_path)
    out = tmp_path / "run"
    assert main(["train", name, "--out", str(out), "--json", *TOY, *smaller(name)]) == 0
    told = capsys.readouterr()
    assert json.loads(told.out)["step"] == 4
    for file in ("config.yaml", "environment.json", "data.json", "metrics.jsonl", "best.json", "last.json", "README.md",
                 "figures/loss.png", "tokenizer/manifest.json"):
        assert (out / file).is_file(), file
    assert told.err.count("sampled") == recipe["train"].get("show_samples", 0)
    run = pellucid.load(out)
    if recipe["task"] == "classification":
        assert run.classify(["1 2 3"])[0].label in run.tokenizers.labels
    elif recipe["task"] == "reading":
        (found,) = read(run, ["1 2 3?"], [["1 2 3"]])
        assert found.text == "1 2 3"[found.start : found.end]
    else:
        assert isinstance(run.generate(["1 2 3"])[0].text, str)
    split = "test" if name in GENERATED or "test" in recipe["data"] else "validation"
    assert main(["evaluate", str(out), "--split", split, "--json"]) == 0
    (scores,) = json.loads(capsys.readouterr().out)["runs"]
    assert scores["n"] == 10 if split == "test" else 2 < scores["n"] < 40
    assert set(scores["interval"]) <= set(scores)


def test_the_talks_recipe_takes_other_pairs(tmp_path: Path, stand_ins: Callable[[Path], None],
                                            monkeypatch: pytest.MonkeyPatch,
                                            capsys: pytest.CaptureFixture[str]) -> None:
    """Its fields are of a table; two text files take its place whole."""
    pytest.importorskip("spacy")
    stand_ins(tmp_path)
    monkeypatch.chdir(tmp_path)
    files = [word for name, file in (("train", "train"), ("validation", "validation"), ("test", "test2016"))
             for side, language in (("source", "en"), ("target", "de"))
             for word in (f"--data.{name}.{side}", f"data/multi30k/{file}.{language}")]
    assert main(["train", "iwslt17-en-de", "--out", "run", "--json", *TOY, *smaller("iwslt17-en-de"), *files]) == 0
    assert json.loads(capsys.readouterr().out)["step"] == 4


def test_the_encyclopedia_recipe_saves_within_its_epochs_and_spends_little_on_it() -> None:
    """A day of training is no stake; what validation reads has no backward pass, so a token takes a third."""
    config, articles, tokens = from_mapping(read_recipe("wikipedia-zh-title").mapping), 1_470_000, 186
    every = config.train.validate_every
    assert every is not None
    assert every * config.train.batch_tokens < articles * tokens / 10
    assert config.data.validation_share * articles * tokens / 3 < 0.02 * every * config.train.batch_tokens


def test_the_encyclopedia_recipe_has_the_size_that_its_sources_name() -> None:
    config = from_mapping(read_recipe("wikipedia-zh-title").mapping)
    size = config.tokenizer.vocab_size
    model = build(config.model, size, size, shared=config.tokenizer.shared)
    assert 14e6 < sum(p.numel() for p in model.parameters()) < 21e6
