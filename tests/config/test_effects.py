"""A flag that changes nothing is refused, with what it would need; one that has an effect never is."""

from __future__ import annotations

from typing import Any

import pytest

from pellucid.ablate.cells import cells_of, overrides_of
from pellucid.ablate.study import read_study
from pellucid.cli.arguments import read_config, split_overrides
from pellucid.config.effects import without_effect
from pellucid.config.mapping import from_mapping
from pellucid.config.reader import merge
from pellucid.errors import ConfigError, PellucidWarning
from pellucid.recipes import read_recipe, recipe_names
from pellucid.studies import study_names


@pytest.mark.parametrize(("recipe", "words", "key", "fix"), [
    ("copy", "--model.window 8", "model.window", "--model.attention window"),
    ("copy", "--decode.temperature 0.5", "decode.temperature", "--decode.sample true"),
    ("copy", "--decode.top_p 0.5 --decode.sample false", "decode.top_p", "--decode.sample true"),
    ("demo", "--decode.sample true --decode.beam_size 8", "decode.beam_size", "leave one"),
    ("copy", "--tokenizer.character_coverage 1.0", "tokenizer.character_coverage", "--tokenizer.kind sentencepiece"),
    ("multi30k-en-de", "--tokenizer.min_frequency 2", "tokenizer.min_frequency", "--tokenizer.kind word"),
    ("copy", "--data.train a.tsv --data.generated.train 9", "data.generated.train", "one of them"),
    ("copy", "--retrieval.from random", "retrieval.from", "--retrieval.k 2"),
    ("copy", "--train.r_drop_after 9", "train.r_drop_after", "--train.r_drop 5"),
    ("copy", "--retrieval.from none --retrieval.k 2", "retrieval.k", "--retrieval.from bm25"),
])
def test_a_flag_without_effect_says_what_it_needs(recipe: str, words: str, key: str, fix: str) -> None:
    with pytest.raises(ConfigError, match=f"--{key} has no effect here") as error:
        read_config(recipe, split_overrides(words.split())[1])
    assert fix in error.value.fix


@pytest.mark.parametrize(("recipe", "words", "key"), [
    ("copy", "--tokenizer.path t --tokenizer.vocab_size 50", "tokenizer.vocab_size"),
    ("copy", "--train.initialize_from r --tokenizer.path t", "tokenizer.path"),
    ("copy", "--data.validation_share 0.1", "data.validation_share"),
    ("demo", "--data.generated.max_length 19", "data.generated.max_length"),
    ("trec", "--model.decoder_layers 1", "model.decoder_layers"),
    ("trec", "--decode.beam_size 3", "decode.beam_size"),
    ("trec", "--data.target_language fr", "data.target_language"),
    ("copy", "--model.pooling max", "model.pooling"),
    ("copy", "--data.objective span_corruption --tokenizer.sentinels 9 --data.target_field fr", "data.target_field"),
])
def test_one_that_never_could_have_an_effect_is_told(recipe: str, words: str, key: str) -> None:
    with pytest.warns(PellucidWarning, match=f"--{key} has no effect here: "):
        read_config(recipe, split_overrides(words.split())[1])


@pytest.mark.parametrize(("recipe", "words"), [
    ("copy", "--model.attention window --model.window 8"), ("trec", "--model.window 8"),
    ("copy", "--decode.sample true --decode.temperature 0.5"), ("tang-poems", "--decode.temperature 0.5"),
    ("copy", "--tokenizer.kind sentencepiece --tokenizer.character_coverage 1.0"), ("trec", "--model.pooling mean"),
    ("copy", "--data.train a.tsv --data.validation_share 0.1"), ("demo", "--data.generated.train 9"),
    ("copy", "--train.epochs null"), ("trec", "--decode.batch_tokens 9"),
    ("copy", "--train.r_drop 5 --train.r_drop_after 9"), ("copy", "--data.target_field fr"),
    ("copy", "--retrieval.k 2 --retrieval.from random"), ("copy", "--retrieval.from none")])
def test_a_flag_with_an_effect_is_taken(recipe: str, words: str) -> None:
    read_config(recipe, split_overrides(words.split())[1])


def test_files_may_hold_what_has_no_effect_now() -> None:
    """So that one change to them needs no second one."""
    for name in recipe_names():
        from_mapping(read_recipe(name).mapping)
    assert "model.window" in without_effect(from_mapping({"model": {"window": 3}}))


@pytest.mark.parametrize("name", study_names())
def test_every_run_of_a_shipped_study_has_flags_that_are_taken(name: str) -> None:
    study: Any = read_study(name, {})
    for cell in cells_of(study):
        read_config(study.base, split_overrides(overrides_of(cell.config, study.base_config))[1])


@pytest.mark.parametrize("name", ["no", "on", "null", "~", "1", 1, "1.5", "2020-01-01", "a: b", "[x]", "#", "'q'",
                                  " x ", "", "文", "'文'", "--seed"])
def test_a_column_has_any_name_on_a_command_line(name: str | int) -> None:
    """A study tells its runs of it by a flag; as YAML, many a name is something else."""
    table = {"data": {"train": {"path": "a.tsv"}}}
    config = from_mapping(merge(table, {"data": {"source_field": name}}))
    words = overrides_of(config, from_mapping(table))
    assert split_overrides(words) == ([], {"data": {"source_field": name}})
    if name not in ("null", "~", "1", "", "'q'", "'文'"):
        assert words == ["--data.source_field", str(name)]  # as anybody would write it


def test_what_a_pretrained_start_is_held_to_is_passed_on() -> None:
    """The tokenizer section changes nothing there, but the run is refused where it is not that of its start."""
    base = read_recipe("copy").mapping
    config = from_mapping(merge(base, {"tokenizer": {"kind": "sentencepiece", "vocab_size": 120},
                                       "train": {"initialize_from": "runs/pretrained"}}))
    words = overrides_of(config, from_mapping(base))
    with pytest.warns(PellucidWarning, match=r"tokenizer\.(kind|vocab_size) has no effect here"):
        assert read_config("copy", split_overrides(words)[1]).tokenizer == config.tokenizer
