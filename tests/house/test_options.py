"""Every registered option builds, trains and decodes; overriding one changes only what it names."""

from __future__ import annotations

import itertools
import math
import typing
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import pellucid
from pellucid.config import DataConfig, ModelConfig, RunConfig, TokenizerConfig, TrainConfig
from pellucid.config.mapping import differences, from_mapping
from pellucid.data.batching import Batches
from pellucid.data.corpus import open_corpus
from pellucid.data.generated.tasks import CLASSIFICATION, READING, TASKS
from pellucid.data.splits import open_splits
from pellucid.data.tokenizers import train_tokenizers
from pellucid.model.build import (
    ATTENTIONS,
    FEED_FORWARDS,
    HEAD_ACTIVATIONS,
    NORMS,
    POOLINGS,
    POSITIONS,
    RESIDUALS,
    build,
    build_classifier,
)
from pellucid.nn.linear_attention import LinearAttention
from pellucid.train.journal import read_metrics
from pellucid.train.learning_rate import SCHEDULES, learning_rate
from pellucid.train.optimizer import make_optimizer

Tiny = Callable[..., dict[str, Any]]
TrainTiny = Callable[[dict[str, Any]], Path]


def choices(kind: Any, name: str) -> list[Any]:
    """What a key of a fixed choice may be."""
    return list(typing.get_args(typing.get_type_hints(kind)[name]))


CHARACTERS = {"data.generated.task": "grammar", "data.generated.train": 300, "tokenizer.vocab_size": 120,
              "model.max_length": 512, "train.batch_sentences": 60}
MODEL_OPTIONS = [(f"model.{key}", name) for key, names in
                 (("position", POSITIONS), ("norm", NORMS), ("residual", RESIDUALS), ("feed_forward", FEED_FORWARDS),
                  ("attention", ATTENTIONS), ("tie_embeddings", (False,)), ("biases", (False,)),
                  ("embedding_norm", (True,)), ("output_bias", (True,)), ("norm_epsilon", (1e-3,)),
                  ("d_head", (5,))) for name in names]
OTHER_OPTIONS: list[tuple[dict[str, Any], str]] = [
    *(({"train.schedule": name}, name) for name in SCHEDULES),
    *(({"train.optimizer": name}, name) for name in choices(TrainConfig, "optimizer")),
    *(({"train.precision": name}, name) for name in choices(TrainConfig, "precision")),
    *(({"train.monitor": name}, name) for name in ("loss", "bleu", "exact")),
    *((CHARACTERS | {"tokenizer.kind": name}, name) for name in choices(TokenizerConfig, "kind") if name != "imported"),
    (CHARACTERS | {"tokenizer.kind": "sentencepiece", "tokenizer.algorithm": "unigram"}, "unigram"),
    ({"data.too_long": "cut", "model.max_length": 5}, "cut"),
    *(({key: value}, key) for key, value in {
        "train.epochs": 1, "train.accumulate": 2, "train.ema_decay": 0.9, "train.patience": 1, "train.clip_norm": None,
        "train.learning_rate": None, "train.weight_decay": 0.1, "train.r_drop": 5.0, "model.attention_dropout": 0.2,
        "model.feed_forward_dropout": 0.2, "tokenizer.shared": False, "tokenizer.min_frequency": 2}.items()),
    *((CHARACTERS | {"tokenizer.kind": "sentencepiece", "tokenizer.algorithm": name, "tokenizer.sampling": 0.2},
       f"{name} sampling") for name in choices(TokenizerConfig, "algorithm")),
    ({"data.objective": "span_corruption", "tokenizer.sentinels": 3}, "span_corruption"),
    ({"train.average_last": 2, "train.validate_every": 1}, "average_last"),
]


def check_generating_run(folder: Path, lines: list[str]) -> None:
    events = read_metrics(folder / "metrics.jsonl")
    assert [event["event"] for event in events].count("validation") >= 1
    assert all(math.isfinite(event["loss"]) for event in events)
    run = pellucid.load(folder)
    for beam_size in (1, 3):
        assert [isinstance(one.text, str) for one in run.generate(lines, beam_size=beam_size)] == [True] * len(lines)


@pytest.mark.parametrize(("key", "name"), MODEL_OPTIONS)
def test_a_model_option_trains_and_decodes(key: str, name: str, tiny: Tiny, train_tiny: TrainTiny) -> None:
    check_generating_run(train_tiny(tiny({key: name})), ["1 2 3", "4 5 6 1 2", ""])


@pytest.mark.parametrize("over", [pytest.param(over, id=name) for over, name in OTHER_OPTIONS])
def test_another_option_trains_and_decodes(over: dict[str, Any], tiny: Tiny, train_tiny: TrainTiny) -> None:
    if over.get("tokenizer.kind") == "spacy":
        pytest.importorskip("spacy")
    check_generating_run(train_tiny(tiny(over)), ["1 2 3", "the cat sleeps ."])


@pytest.mark.parametrize("task", [name for name in TASKS if name not in CLASSIFICATION | READING])
def test_a_generated_task_trains_and_decodes(task: str, tiny: Tiny, train_tiny: TrainTiny) -> None:
    check_generating_run(train_tiny(tiny({"data.generated.task": task})), ["1 2 3"])


@pytest.mark.parametrize("pooling", POOLINGS)
@pytest.mark.parametrize("task", sorted(CLASSIFICATION))
def test_a_classifier_trains_and_classifies(task: str, pooling: str, tiny: Tiny, train_tiny: TrainTiny) -> None:
    folder = train_tiny(tiny({"task": "classification", "data.generated.task": task, "model.pooling": pooling,
                              "train.monitor": "accuracy"}))
    found = pellucid.load(folder).classify(["1 1 2", "1 2 3"])
    assert all(one.label in ("0", "1") and sum(one.probabilities.values()) == pytest.approx(1) for one in found)


@pytest.mark.parametrize("over", [{"decode.sample": True}, {"decode.sample": True, "decode.top_k": 3},
                                  {"decode.sample": True, "decode.top_p": 0.5}, {"decode.no_repeat_ngram": 1},
                                  {"decode.min_length": 4}, {"decode.length_penalty": -1.0}, {"decode.n_best": 2}])
def test_a_search_option_decodes(over: dict[str, Any], tiny: Tiny, train_tiny: TrainTiny) -> None:
    run = pellucid.load(train_tiny(tiny(over)))
    (found,) = run.generate(["1 2 3 4"])
    assert 1 <= len(found.hypotheses) <= run.config.decode.n_best
    if "decode.min_length" in over:
        assert len(found.tokens) >= 4
    if "decode.no_repeat_ngram" in over:
        assert len(set(found.tokens)) == len(found.tokens)


def test_the_registries_and_the_configuration_name_the_same_options() -> None:
    assert set(choices(TrainConfig, "schedule")) == set(SCHEDULES)
    module = torch.nn.Linear(2, 2)
    for name in choices(TrainConfig, "optimizer"):
        assert isinstance(make_optimizer(module, TrainConfig(optimizer=name)), torch.optim.Optimizer)
    for schedule in SCHEDULES:
        rates = [learning_rate(step, schedule, 1.0, 3, 10) for step in range(1, 11)]
        assert rates[:3] == pytest.approx([1 / 3, 2 / 3, 1])
        assert rates[3:] == sorted(rates[3:], reverse=True)
        assert min(rates) >= 0


def accepts(position: str, attention: str) -> bool:
    return ATTENTIONS[attention].kind is not LinearAttention or POSITIONS[position].kind.door in ("none", "embed")


SMALL = {"d_model": 8, "n_heads": 2, "d_ff": 12, "encoder_layers": 1, "decoder_layers": 1, "dropout": 0.0,
         "max_length": 16}


@pytest.mark.parametrize("attention", ATTENTIONS)
@pytest.mark.parametrize("position", POSITIONS)
def test_every_pair_either_works_or_is_refused(position: str, attention: str) -> None:
    source, target = torch.tensor([[4, 5, 6, 3], [4, 3, 0, 0]]), torch.tensor([[2, 4, 5], [2, 4, 0]])
    for residual, norm, feed_forward in itertools.product(RESIDUALS, NORMS, FEED_FORWARDS):
        config = ModelConfig(position=position, attention=attention, residual=residual, norm=norm,
                             feed_forward=feed_forward, **SMALL)
        if not accepts(position, attention):
            with pytest.raises(ValueError, match=f"model.position {position}.*model.attention {attention}"):
                build(config, 9, 9)
            continue
        if (norm, feed_forward) not in (("layernorm", "relu"), ("rmsnorm", "swiglu")):
            continue
        model = build(config, 9, 9, shared=True)
        model(source, target, source != 0).logsumexp(-1).sum().backward()
        for name, parameter in model.named_parameters():
            assert parameter.grad is not None, name
            assert parameter.grad.isfinite().all(), name
        classifier = build_classifier(config, 9, 3)
        assert classifier(source, source != 0).isfinite().all()


@pytest.mark.parametrize("key", ["position", "norm", "residual", "feed_forward", "attention", "pooling",
                                 "head_activation"])
def test_an_unknown_name_lists_the_known_ones(key: str) -> None:
    with pytest.raises(ValueError, match=rf"model\.{key} 'nonsense' is unknown; choose .*, "):
        build(ModelConfig(**{key: "nonsense"}), 9, 9)


# Overriding one option changes only what it names.


def every_override() -> list[tuple[str, Any]]:
    """Each key of the configuration with a value that is allowed and is not its default."""
    values: dict[str, Any] = {
        "task": "classification", "seed": 7, "data.source_field": "english", "data.target_field": 3,
        "data.label_field": "kind", "data.source_language": "en", "data.target_language": "fr",
        "data.validation_share": 0.1, "data.test_share": 0.1, "data.too_long": "cut",
        "tokenizer.user_defined_symbols": ["<a>"], "tokenizer.symbols": ["greek"],
        "tokenizer.character_coverage": 0.99, "tokenizer.path": "somewhere",
        "train.initialize_from": "somewhere",
        "tokenizer.source_language": "fr", "tokenizer.target_language": "fr", "train.betas": [0.8, 0.9],
        "train.monitor": "bleu", "decode.n_best": 2, "model.n_heads": 2, "model.d_key": 16,
        "model.d_head": 16, "model.norm_epsilon": 1e-4, "decode.top_p": 0.5,
        "train.epochs": 2, "train.workers": 2, "train.track": ["tensorboard"],
        "train.batch_sentences": 9, "train.patience": 3, "train.learning_rate": None, "train.clip_norm": None}
    for section, kind in (("data", DataConfig), ("tokenizer", TokenizerConfig), ("model", ModelConfig),
                          ("train", TrainConfig), ("decode", type(RunConfig().decode))):
        for name, hint in typing.get_type_hints(kind).items():
            key, default = f"{section}.{name}", getattr(kind(), name)
            if key in values or key in ("data.train", "data.validation", "data.test", "data.generated"):
                continue
            if typing.get_origin(hint) is typing.Literal:
                values[key] = next(choice for choice in typing.get_args(hint) if choice != default)
            elif isinstance(default, bool):
                values[key] = not default
            elif isinstance(default, int):
                values[key] = default + 1 if key != "model.d_model" else 8
            elif isinstance(default, float):
                values[key] = default / 2 or 0.25
            else:
                assert isinstance(default, str)
                values[key] = "other"
    return sorted(values.items())


@pytest.mark.parametrize(("key", "value"), every_override())
def test_an_override_changes_its_key_alone(key: str, value: Any, tiny: Tiny) -> None:
    plain = {"decode": {"beam_size": 4}, "tokenizer": {"sentinels": 100}}  # which span corruption needs
    config, changed = from_mapping(plain), from_mapping(_laid(plain, key, value))
    assert [difference[0] for difference in differences(config, changed)] == [key]


def _laid(mapping: dict[str, Any], key: str, value: Any) -> dict[str, Any]:
    from pellucid.config.reader import merge, nest

    return merge(mapping, nest(key, value))


# For each option, a part of the names of the parameters that it may add, drop or change.
TOUCHES: dict[str, tuple[str, ...]] = {
    "position": ("position.",), "norm": ("norm.",), "residual": ("closing_norm.",), "feed_forward": ("feed_forward.",),
    "norm_epsilon": (), "embedding_norm": ("embedding_norm.",), "biases": (".bias",), "output_bias": ("output_bias.",),
    "head_activation": (), "attention": (), "window": (), "pooling": (),
    "dropout": (), "attention_dropout": (), "feed_forward_dropout": (),
}
VALUES: dict[str, tuple[Any, ...]] = {
    "position": tuple(POSITIONS), "norm": tuple(NORMS), "residual": tuple(RESIDUALS),
    "feed_forward": tuple(FEED_FORWARDS), "attention": tuple(ATTENTIONS), "window": (1, 9), "pooling": tuple(POOLINGS),
    "norm_epsilon": (1e-3,), "embedding_norm": (True,), "biases": (False,), "output_bias": (True,),
    "head_activation": tuple(HEAD_ACTIVATIONS),
    "dropout": (0.3,), "attention_dropout": (0.3,), "feed_forward_dropout": (0.3,)}
DEEPNORM_SCALES = (".value.", ".output.", ".feed_forward.")


@pytest.mark.parametrize(("key", "value"), [(key, value) for key, values in VALUES.items() for value in values])
def test_a_model_option_leaves_the_other_parameters_bit_identical(key: str, value: Any) -> None:
    touched = TOUCHES[key] + (DEEPNORM_SCALES if value == "deepnorm" else ())
    for make in (lambda config: build(config, 9, 9, shared=True), lambda config: build_classifier(config, 9, 3)):
        plain = dict(make(ModelConfig(**SMALL)).named_parameters())
        changed = dict(make(ModelConfig(**SMALL | {key: value})).named_parameters())
        for name in plain.keys() | changed.keys():
            if not any(part in name for part in touched):
                assert torch.equal(plain[name], changed[name]), name


def test_a_deeper_stack_begins_as_the_shallower_one_does() -> None:
    shallow = dict(build(ModelConfig(**SMALL), 9, 9, shared=True).named_parameters())
    deep = dict(build(ModelConfig(**SMALL | {"encoder_layers": 3, "decoder_layers": 2}), 9, 9,
                      shared=True).named_parameters())
    assert all(torch.equal(parameter, deep[name]) for name, parameter in shallow.items())


def test_compared_feed_forwards_have_about_as_many_parameters() -> None:
    sizes = {name: sum(p.numel() for p in make(64, 256, 0.0).parameters()) for name, make in FEED_FORWARDS.items()}
    assert max(sizes.values()) / min(sizes.values()) < 1.01


def test_what_is_learned_from_and_its_order_depend_on_the_data_and_the_seed_alone(tiny: Tiny, tmp_path: Path) -> None:
    def batches(over: dict[str, Any]) -> list[torch.Tensor]:
        config = from_mapping(tiny(over))
        pairs = open_splits(config, tmp_path)["train"]
        corpus = open_corpus(pairs, train_tokenizers(config.tokenizer, pairs, config.task), config)
        made = Batches(corpus, config.train.batch_tokens, config.train.batch_sentences, config.seed)
        return [made[i].source for i in range(2 * made.per_epoch)]

    plain = batches({})
    for key, value in [*MODEL_OPTIONS, ("train.schedule", "constant"), ("model.d_model", 8), ("train.steps", 9)]:
        assert all(map(torch.equal, plain, batches({key: value}))), key
    assert not all(torch.equal(a, b) for a, b in zip(plain, batches({"seed": 7}), strict=True) if a.shape == b.shape)
