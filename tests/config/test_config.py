"""A configuration is data: it comes back from YAML as it was, and what it cannot mean is refused by name."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, get_args, get_type_hints

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pellucid.config import (
    DataConfig,
    DecodeConfig,
    Generated,
    ModelConfig,
    RunConfig,
    Split,
    TokenizerConfig,
    TrainConfig,
    checks,
)
from pellucid.config.mapping import differences, from_mapping, to_mapping
from pellucid.config.reader import merge, nest, read_dataclass
from pellucid.errors import ConfigError

texts = st.text(st.characters(blacklist_categories=("Cs", "Cc")), min_size=1, max_size=12)
positive = st.floats(1e-12, 10, allow_nan=False)
splits = st.one_of(st.none(), st.builds(Split, path=texts), st.builds(Split, source=texts, target=texts))
configs = st.builds(
    RunConfig, seed=st.integers(0, 2**63 - 1),
    data=st.builds(DataConfig, train=splits, test=splits, source_field=st.one_of(st.none(), texts, st.integers(1, 9)),
                   validation_share=st.floats(0, 0.4), too_long=st.sampled_from(["drop", "cut"]),
                   generated=st.one_of(st.none(), st.builds(Generated, task=texts, max_length=st.integers(10, 20)))),
    tokenizer=st.builds(TokenizerConfig, kind=st.sampled_from(["word", "sentencepiece"]), lowercase=st.booleans(),
                        user_defined_symbols=st.lists(texts, max_size=3).map(tuple), path=st.one_of(st.none(), texts)),
    model=st.builds(ModelConfig, d_model=st.integers(1, 9).map(lambda n: 4 * n), dropout=st.floats(0, 0.99),
                    position=texts),
    train=st.builds(TrainConfig, learning_rate=st.one_of(st.none(), positive), epsilon=st.floats(1e-300, 1),
                    betas=st.tuples(st.floats(0, 0.999), st.floats(0, 0.999)), epochs=st.one_of(st.none(), st.just(3)),
                    clip_norm=st.one_of(st.none(), positive), patience=st.one_of(st.none(), st.integers(1, 10**20))),
    decode=st.builds(DecodeConfig, beam_size=st.integers(1, 9), top_p=st.floats(1e-9, 1), sample=st.booleans()),
)


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(config=configs)
def test_it_comes_back_from_a_mapping_and_from_yaml(config: RunConfig) -> None:
    mapping = to_mapping(config)
    assert from_mapping(mapping) == config
    assert from_mapping(yaml.safe_load(yaml.safe_dump(mapping, sort_keys=False, allow_unicode=True))) == config
    assert differences(config, from_mapping(mapping)) == []


def test_an_empty_mapping_is_the_default() -> None:
    assert from_mapping({}) == RunConfig()
    assert from_mapping({"model": {"d_model": 64}}).model == dataclasses.replace(ModelConfig(), d_model=64)


def flat_fields() -> dict[str, Any]:
    """Every numeric key with its type, by hand from the dataclasses."""
    found = {}
    sections = {"data": DataConfig, "data.generated": Generated, "tokenizer": TokenizerConfig, "model": ModelConfig,
                "train": TrainConfig, "decode": DecodeConfig}
    for section, kind in sections.items():
        for name, hint in get_type_hints(kind).items():
            members = [hint, *get_args(hint)]
            if (int in members and str not in members) or float in members:
                found[f"{section}.{name}"] = hint
    return found


def nested(key: str, value: Any) -> dict[str, Any]:
    base = nest("data.generated.task", "copy") if key.startswith("data.generated") else {}
    return merge(base, nest(key, value))


@pytest.mark.parametrize("key", checks.RANGES)
def test_every_range_holds_at_both_ends(key: str) -> None:
    low, high = checks.RANGES[key]
    for value in (low - 1 if low >= 1 or low < 0 else -1, *([high * 2 + 1] if high < float("inf") else [])):
        value = [value, value] if key == "train.betas" else value
        with pytest.raises(ConfigError) as error:
            from_mapping(nested(key, value))
        assert error.value.where.startswith(key)
        assert error.value.exit_code == 2


@pytest.mark.parametrize("key", [key for key, hint in flat_fields().items() if hint is not bool])
def test_no_number_is_without_a_range(key: str) -> None:
    assert key in checks.RANGES or key == "data.generated.max_length"  # checked against min_length


@pytest.mark.parametrize("value", [True, "7", 1.5, [1], {"a": 1}, None])
def test_a_whole_number_is_nothing_else(value: Any) -> None:
    with pytest.raises(ConfigError, match=r"model\.d_model must be a whole number"):
        from_mapping({"model": {"d_model": value}})


@pytest.mark.parametrize(("key", "value", "match"), [
    ("train.learning_rate", float("nan"), "not a finite number"), ("train.learning_rate", "fast", "a number"),
    ("train.learning_rate", True, "a number"), ("tokenizer.shared", 1, "true or false"), ("tokenizer.path", 3, "text"),
    ("train.betas", [0.9], "a list of 2"), ("train.betas", 0.9, "a list"),
    ("data.source_field", True, "text or a whole number"), ("train.learning_rate", 10**400, "not a finite number"),
    ("train.schedule", "cosin", "did you mean cosine"), ("task", "seq2sec", "did you mean seq2seq"),
    ("model", 3, "must be a mapping"), ("data.train", {"source": "x"}, "needs both source and target"),
    ("data.train", {"path": "x", "source": "y", "target": "z"}, "either one path"),
])
def test_a_value_of_a_wrong_type_or_none_of_the_choices_is_named(key: str, value: Any, match: str) -> None:
    with pytest.raises(ConfigError, match=match) as error:
        from_mapping(nest(key, value))
    assert error.value.where == key


@dataclass(frozen=True)
class _Asked:
    text: str | tuple[str, ...]
    count: int = 1


def test_a_key_that_has_no_default_is_missing_where_it_is_left_out() -> None:
    assert read_dataclass(_Asked, {"text": "a"}) == _Asked("a")
    assert read_dataclass(_Asked, {"text": ["a", "b"]}) == _Asked(("a", "b"))
    with pytest.raises(ConfigError, match=r"^asked\.text is missing"):
        read_dataclass(_Asked, {"count": 2}, "asked")
    with pytest.raises(ConfigError, match="text must be text or a list, not 5"):
        read_dataclass(_Asked, {"text": 5})
    with pytest.raises(ConfigError, match=r"text\[1\] must be text"):
        read_dataclass(_Asked, {"text": ["a", 5]})


def test_what_is_wrong_is_told_in_a_few_words_however_long_it_is() -> None:
    for mapping in ({"text": ["a" * 9999, 5] * 99}, {"x" * 9999: 1}, {"text": "a", "count": "1" * 9999}):
        with pytest.raises(ConfigError) as error:
            read_dataclass(_Asked, mapping)
        assert len(str(error.value)) < 1000


def test_what_yaml_leaves_as_text_is_a_number() -> None:
    assert from_mapping(yaml.safe_load("train: {epsilon: 1e-9, learning_rate: 1}")).train.epsilon == 1e-9
    assert isinstance(from_mapping({"train": {"learning_rate": 1}}).train.learning_rate, float)


def test_a_path_stands_for_a_split() -> None:
    assert from_mapping({"data": {"train": "a.tsv"}}).data.train == Split(path="a.tsv")


@pytest.mark.parametrize(("key", "nearest"), [
    ("model.d_modell", "model.d_model"), ("model.heads", "model.n_heads"), ("trian", "train"),
    ("train.warmup", "train.warmup_steps"), ("decode.beam", "decode.beam_size"), ("data.generated.simbols",
                                                                                  "data.generated.symbols"),
])
def test_an_unknown_key_names_the_nearest(key: str, nearest: str) -> None:
    with pytest.raises(ConfigError, match=f"unknown key {key}") as error:
        from_mapping(nested(key, 1))
    assert f"did you mean {nearest}?" in error.value.fix


def test_a_key_like_no_other_lists_them() -> None:
    with pytest.raises(ConfigError) as error:
        from_mapping({"zzzzzzzz": 1})
    assert "seed" in error.value.fix
    assert "decode" in error.value.fix


@pytest.mark.parametrize(("mapping", "where"), [
    ({"model": {"d_model": 10, "n_heads": 4}}, "model.n_heads"),
    ({"data": {"generated": {"min_length": 5, "max_length": 4}}}, "data.generated"),
    ({"data": {"validation_share": 0.5, "test_share": 0.5}}, "data"),
    ({"decode": {"min_length": 9, "max_length": 9}}, "decode.min_length"),
    ({"train": {"monitor": "accuracy"}}, "train.monitor"),
    ({"task": "classification", "train": {"monitor": "bleu"}}, "train.monitor"),
    ({"train": {"learning_rate": None, "warmup_steps": 0}}, "train.learning_rate"),
    ({"tokenizer": {"kind": "word", "sampling": 0.1}}, "tokenizer.sampling"),
    ({"tokenizer": {"vocab_size": 100, "sentinels": 96}}, "tokenizer.sentinels"),
    ({"data": {"objective": "span_corruption"}}, "tokenizer.sentinels"),
    ({"data": {"objective": "span_corruption"}, "task": "classification"}, "data.objective"),
    ({"data": {"objective": "span_corruption"}, "tokenizer": {"sentinels": 9}, "train": {"monitor": "bleu"}},
     "train.monitor"),
    ({"data": {"source_language": "english"}}, "data.source_language"),
    ({"data": {"target_language": "de_DE"}}, "data.target_language"),
    ({"data": {"target_language": ""}}, "data.target_language"),
    ({"data": {"target_language": "fr\n"}}, "data.target_language"),
])
def test_values_that_contradict_each_other_are_refused(mapping: dict[str, Any], where: str) -> None:
    with pytest.raises(ConfigError) as error:
        from_mapping(mapping)
    assert error.value.where == where


@pytest.mark.parametrize(("decode", "width"), [({}, 4), ({"n_best": 9}, 9), ({"n_best": 9, "beam_size": 2}, 9),
                                               ({"n_best": 2, "beam_size": 5}, 5)])
def test_a_beam_holds_as_many_hypotheses_as_are_told(decode: dict[str, int], width: int) -> None:
    assert from_mapping({"decode": decode}).decode.width == width


@pytest.mark.parametrize("tag", ["en", "zh-Hans", "pt-BR", "lzh", "EN", "sr-Latn-RS", "de-1996"])
def test_languages_are_tags_of_bcp_47(tag: str) -> None:
    data = from_mapping({"data": {"source_language": tag, "target_language": tag}}).data
    assert (data.source_language, data.target_language) == (tag, tag)


def test_differences_are_named_with_both_values() -> None:
    a = from_mapping({"data": {"train": "a.tsv"}})
    b = from_mapping({"data": {"train": {"source": "x", "target": "y"}}, "seed": 7, "train": {"betas": [0.9, 0.99]}})
    assert differences(a, a) == []
    assert differences(a, b) == [("data.train.path", "a.tsv", None), ("data.train.source", None, "x"),
                                 ("data.train.target", None, "y"), ("seed", 42, 7),
                                 ("train.betas", [0.9, 0.98], [0.9, 0.99])]
    assert [key for key, _, _ in differences(RunConfig(), a)] == ["data.train.path"]


def test_merging_lays_sections_over_each_other() -> None:
    base = {"a": {"b": 1, "c": {"d": 2}}, "e": [1]}
    assert merge(base, {"a": {"c": {"d": 3, "f": 4}}, "e": [2]}) == {"a": {"b": 1, "c": {"d": 3, "f": 4}}, "e": [2]}
    assert base == {"a": {"b": 1, "c": {"d": 2}}, "e": [1]}
    assert merge({"a": {"b": 1}}, {"a": None}) == {"a": None}
