"""Configurations that cannot be used are refused before data is read; the message says what to write instead."""

from __future__ import annotations

import dataclasses
import gzip
import random
import string
from collections.abc import Callable
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

import pytest
import yaml

from pellucid.cli.arguments import dotted_keys, read_config, split_overrides
from pellucid.config import RunConfig, TrainConfig
from pellucid.errors import ConfigError

NO_DATA = {"data": {"train": "/nowhere/train.tsv"}}  # reading it would be exit 3


@pytest.fixture
def refused(cli: Any, tmp_path: Path) -> Callable[..., Any]:
    """Trains from a mapping that is written to a YAML file; nothing must have been written besides."""

    def train(mapping: Any, *words: object) -> Any:
        path = tmp_path / "my.yaml"
        path.write_text(mapping if isinstance(mapping, str) else yaml.safe_dump(mapping))
        outcome = cli("train", path, "--out", tmp_path / "r", *words)
        assert not (tmp_path / "r").exists(), outcome.err
        return outcome

    return train


def typos(count: int) -> list[tuple[str, str]]:
    """(key, misspelt): one letter of its last part changed, dropped, doubled or swapped with the next, so that no other
    key is as near."""
    chance = random.Random(7)
    known = sorted(dotted_keys(RunConfig))
    keys = sorted(key for key in known if len(key.rsplit(".", 1)[-1]) > 3 and "." in key)
    found = []
    while len(found) < count:
        key = chance.choice(keys)
        section, _, last = key.rpartition(".")
        i = chance.randrange(len(last) - 1)
        head, letter, following, tail = last[:i], last[i], last[i + 1], last[i + 2:]
        other = chance.choice(string.ascii_lowercase)
        middle = chance.choice([other + following, following, letter * 2 + following, following + letter])
        changed = head + middle + tail
        wrong = f"{section}.{changed}"
        nearest = sorted(((SequenceMatcher(None, one, wrong).ratio(), one) for one in known), reverse=True)[:2]
        is_plain = nearest[0][1] == key and nearest[0][0] > nearest[1][0]  # no other key is as near
        if wrong not in known and changed != last and is_plain:
            found.append((key, wrong))
    return found


@pytest.mark.parametrize(("key", "misspelt"), typos(50))
def test_one_wrong_letter_names_the_key(refused: Callable[..., Any], key: str, misspelt: str) -> None:
    mapping: dict[str, Any] = {name: dict(section) for name, section in NO_DATA.items()}
    *sections, last = misspelt.split(".")
    place = mapping
    for name in sections:
        place = place.setdefault(name, {}) if not isinstance(place.get(name), str) else place.setdefault(name + "_", {})
    if key.startswith("data.train."):  # there the section itself is what the file gives
        mapping["data"]["train"] = place = {}
    place[last] = 1
    refused(mapping).says(2, f"unknown key {misspelt}", f"did you mean {key}?")
    refused(NO_DATA, f"--{misspelt}", "1").says(2, f"unknown key {misspelt}", f"did you mean {key}?")


@pytest.mark.parametrize(("mapping", "meant"), [({"modle": {}}, "model"), ({"sead": 1}, "seed"),
                                                ({"trian": {}}, "train"),
                                                ({"tokeniser": {"kind": "word"}}, "tokenizer")])
def test_misspelt_sections(refused: Callable[..., Any], mapping: dict[str, Any], meant: str) -> None:
    refused({**NO_DATA, **mapping}).says(2, "unknown key", f"did you mean {meant}?")


def test_misspelt_section_in_a_flag(refused: Callable[..., Any]) -> None:
    refused(NO_DATA, "--modle.d_model", "8").says(2, "did you mean model.d_model?")
    refused(NO_DATA, "--model.learning_rate", "8").says(2, "did you mean train.learning_rate?")
    refused(NO_DATA, "--train.lr", "8").says(2, "the keys here are initialize_from, steps, ", "learning_rate")


def test_a_key_that_resembles_none_lists_them(refused: Callable[..., Any]) -> None:
    refused({**NO_DATA, "zzzzzz": 1}).says(2, "unknown key zzzzzz", "task, seed, data, tokenizer, model, train, decode")


@pytest.mark.parametrize(("key", "value", "wanted"), [
    ("train.steps", "many", "a whole number"), ("train.steps", 1.5, "a whole number"), ("train.steps", True, "number"),
    ("train.steps", None, "a whole number"), ("train.learning_rate", "fast", "a number"),
    ("model.dropout", [0.1], "a number"),
    ("model.tie_embeddings", 1, "true or false"), ("model.position", 3, "text"), ("train.betas", 0.9, "a list"),
    ("train.betas", [0.9], "a list of 2"), ("model", 5, "a mapping"), ("train", ["steps"], "a mapping"),
    ("seed", "x", "a whole number"), ("train.learning_rate", float("inf"), "finite"),
    ("data.source_field", 1.5, "text or"), ("tokenizer.user_defined_symbols", "x", "a list")])
def test_wrong_types(refused: Callable[..., Any], key: str, value: Any, wanted: str) -> None:
    mapping: dict[str, Any] = {name: dict(section) for name, section in NO_DATA.items()}
    section, _, last = key.rpartition(".")
    (mapping.setdefault(section, {}) if section else mapping)[last] = value
    outcome = refused(mapping)
    outcome.says(2, key, "where:")
    assert wanted.split()[-1] in outcome.err


@pytest.mark.parametrize(("key", "value"), [("train.steps", "abc"), ("train.steps", "1.5"), ("train.steps", ""),
                                            ("model.tie_embeddings", "maybe"), ("train.learning_rate", "quick"),
                                            ("train.betas", "0.9"), ("seed", "1.0"), ("train.steps", "[1"),
                                            ("train.steps", "--json")])
def test_wrong_types_in_flags(refused: Callable[..., Any], key: str, value: str) -> None:
    refused(NO_DATA, f"--{key}", value).says(2, key)


@pytest.mark.parametrize(("key", "value"), [
    ("train.steps", 0), ("train.steps", -3), ("model.dropout", 1.0), ("model.dropout", -0.1), ("model.d_model", 0),
    ("train.learning_rate", 0), ("train.learning_rate", 11), ("decode.beam_size", 0), ("decode.top_p", 0),
    ("decode.top_p", 1.5), ("decode.temperature", 0), ("train.label_smoothing", 1), ("tokenizer.vocab_size", 4),
    ("data.validation_share", 0.9), ("train.betas", [0.9, 1.0]), ("train.accumulate", 0), ("seed", -1),
    ("model.max_length", 1), ("train.clip_norm", 0), ("decode.n_best", 1001)])
def test_out_of_range(refused: Callable[..., Any], key: str, value: Any) -> None:
    refused(NO_DATA, f"--{key}", str(value)).says(2, key, "where:", "do:")


@pytest.mark.parametrize(("key", "value", "names"), [
    ("model.position", "rotarry", ["rotary", "sinusoidal", "alibi", "none"]), ("model.norm", "layer", ["layernorm"]),
    ("model.residual", "Pre", ["pre", "post"]), ("model.feed_forward", "rellu", ["relu", "swiglu"]),
    ("model.attention", "sparse", ["full", "window", "linear"]), ("tokenizer.kind", "bpe", ["sentencepiece", "word"]),
    ("model.pooling", "men", ["mean", "max", "first"]), ("train.optimizer", "sgd", ["adamw", "adam"]),
    ("train.schedule", "cosin", ["cosine", "linear"]), ("task", "translation", ["seq2seq", "classification"]),
    ("train.monitor", "accuracy", ["loss", "bleu", "exact"]), ("train.precision", "fp64", ["bf16"])])
def test_an_unknown_option_lists_the_names(refused: Callable[..., Any], key: str, value: str, names: list[str]) -> None:
    refused(NO_DATA, f"--{key}", value).says(2, key, value, *names)
    assert refused(NO_DATA, f"--{key}", value, "--dry-run").code == 2


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16"])
def test_a_file_in_another_encoding_is_told_by_line_and_byte(cli: Any, tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "my.yaml"
    path.write_text("seed: 1\nabout: {title: café}\n", encoding=encoding)
    line, byte, known = (2, "0xe9 at offset 26", "WINDOWS-1252") if encoding == "latin-1" else (
        1, "0xff at offset 0", "UTF-16")
    for verb in ("train", "ablate"):
        cli(verb, path).says(2, "the file is not valid UTF-8", f"{path}:{line}", f"byte {byte} of the file",
                             f"-f {known} ")


def test_a_configuration_that_is_packed_is_to_be_unpacked(cli: Any, tmp_path: Path) -> None:
    (tmp_path / "my.yaml").write_bytes(gzip.compress(b"seed: 1\n"))
    cli("train", tmp_path / "my.yaml").says(2, "it looks like gzip: unpack it")


def test_a_name_that_is_no_utf8_is_refused_before_its_run_could_not_be_read(refused: Callable[..., Any]) -> None:
    for words in (("--data.train", "a\udcff.tsv"), ("--data.train.source", "a\udcff", "--data.train.target", "b")):
        refused(NO_DATA, *words).says(2, f"{words[0][2:]} is not valid UTF-8", "the byte 0xff", "another name")
    refused(NO_DATA, "--tokenizer.source_language", "e\udcff").says(2, "source_language is", "write it in UTF-8")


def test_width_that_the_heads_cannot_share(refused: Callable[..., Any]) -> None:
    refused(NO_DATA, "--model.d_model", "30", "--model.n_heads", "4").says(2, "30", "4", "divisible", "choose n_heads")


@pytest.mark.parametrize("words", [
    ["--model.position", "alibi", "--model.attention", "linear"],
    ["--model.position", "t5", "--model.attention", "linear"],
    ["--model.position", "rotary", "--model.d_model", "12", "--model.n_heads", "4"],
    ["--model.attention", "linear", "--model.attention_dropout", "0.1"],
    ["--model.position", "learned", "--model.max_length", "16", "--decode.max_length", "32"],
    ["--decode.min_length", "9", "--decode.max_length", "9"],
    ["--train.learning_rate", "null", "--train.warmup_steps", "0"]])
def test_impossible_pairs(refused: Callable[..., Any], words: list[str]) -> None:
    refused(NO_DATA, *words).says(2, "where:")


@pytest.mark.parametrize(("text", "told"), [
    ("a: [1", "no YAML"), ("- a\n- b\n", "must be a mapping"), ("", "must be a mapping"), ("5", "must be a mapping"),
    ("seed: 1\nseed: 2\n", "stands twice"), ("train: {steps: 5}\ntrain: {steps: 6}\n", "stands twice"),
    ("seed: !!python/object/apply:os.getcwd []\n", "no YAML"), ("x: *a\n", "no YAML"), ("seed: @\n", "no YAML"),
    ("about: 5\n", "about"), ("1: 2\n", "unknown key 1")])
def test_files_that_are_no_configuration(refused: Callable[..., Any], text: str, told: str) -> None:
    refused(text).says(2, told, "where:")


def test_yaml_errors_have_a_line(refused: Callable[..., Any], tmp_path: Path) -> None:
    refused("task: seq2seq\nmodel: {d_model: 8\n").says(2, f"{tmp_path / 'my.yaml'}:3")


def test_a_configuration_that_cannot_be_read(cli: Any, tmp_path: Path) -> None:
    (tmp_path / "bytes.yaml").write_bytes(b"seed: \xff\xfe\n")
    cli("train", tmp_path / "bytes.yaml").says(2, "bytes.yaml")
    cli("train", tmp_path).says(2, str(tmp_path))


def test_nothing_to_train_on(refused: Callable[..., Any]) -> None:
    refused({"seed": 1}, "--dry-run").says(2, "nothing to train on", "--data.train")


@pytest.mark.parametrize("words", [["--data.train.source", "a"], ["--data.train.target", "b"]])
def test_half_a_pair_of_files(refused: Callable[..., Any], words: list[str]) -> None:
    refused({"seed": 1}, *words).says(2, "source and target")


def train_of(*words: str) -> TrainConfig:
    """Of the recipe `copy`, which has epochs and batch_sentences, with these flags."""
    return read_config("copy", split_overrides(words)[1]).train


def test_what_is_given_counts_whatever_stands_in_for_it_in_the_file() -> None:
    recipe = train_of()
    assert (recipe.epochs, recipe.batch_sentences) == (20, 30)
    assert train_of("--train.steps", "600") == dataclasses.replace(recipe, steps=600, epochs=None)
    assert train_of("--train.batch_tokens=50") == dataclasses.replace(recipe, batch_tokens=50, batch_sentences=None)
    assert train_of("--train.steps=9", "--train.epochs=null").steps == 9
    assert train_of("--train.epochs", "3") == dataclasses.replace(recipe, epochs=3)


@pytest.mark.parametrize(("key", "stand_in"), [("steps", "epochs"), ("batch_tokens", "batch_sentences")])
def test_a_key_and_what_stands_in_for_it_are_not_given_at_once(key: str, stand_in: str) -> None:
    with pytest.raises(ConfigError, match=rf"train\.{key} and train\.{stand_in} are given at once"):
        train_of(f"--train.{key}", "7", f"--train.{stand_in}", "8")
