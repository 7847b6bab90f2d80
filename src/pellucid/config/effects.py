"""Which keys have no effect beside the others: a flag that changes nothing is told, and not taken in silence."""

import warnings
from collections.abc import Iterable, Iterator
from dataclasses import asdict, replace
from typing import Any

from pellucid.config import DecodeConfig, RunConfig
from pellucid.config.checks import check_pairs, check_ranges
from pellucid.config.mapping import differences, flatten
from pellucid.config.reader import read_dataclass
from pellucid.errors import ConfigError, PellucidWarning

_PIECES = ("algorithm", "character_coverage", "split_digits", "user_defined_symbols", "symbols", "sample_lines",
           "sample_characters")
_LEARNED = (*_PIECES, "kind", "vocab_size", "shared", "lowercase", "strip_punctuation", "min_frequency", "sentinels",
            "source_language", "target_language")
_DRAWN = ("temperature", "top_k", "top_p", "seed")
_SEARCHED = ("beam_size", "length_penalty", "min_length", "max_length", "n_best", "no_repeat_ngram", "sample", *_DRAWN,
             "precision", "exact")

LANGUAGES = ("data.source_language", "data.target_language")  # say what the text is, and change nothing that is made
_POOLINGS = ("mean", "max", "first")  # of another name it is said that it does not exist


def check_effects(config: RunConfig, given: dict[str, Any]) -> None:
    """Looks at what is `given`, a nested mapping that `config` has already: refuses what changes nothing and would
    beside another value, and warns of what never could there, such as a key of another task.

    Raises:
        ConfigError: names the key, what it is without effect beside, and what would do.
    """
    idle = without_effect(config)
    for key in (key for key, value in flatten(given).items() if key in idle and value is not None):
        why, fix = idle[key]
        if fix:
            raise ConfigError(f"--{key} has no effect here", where=key, why=why, fix=fix)
        warnings.warn(f"--{key} has no effect here: {why}", PellucidWarning, stacklevel=2)


def searched_with(config: RunConfig, options: dict[str, Any], given: Iterable[str]) -> DecodeConfig:
    """A run's way to search, with these options on top.

    Args:
        given: the names of those that must have an effect.

    Raises:
        ConfigError: a key that does not exist, a value of a wrong type, out of range, at odds with another or without
            effect.
    """
    decode: DecodeConfig = read_dataclass(DecodeConfig, asdict(config.decode) | options, "decode")
    check_ranges({f"decode.{name}": value for name, value in asdict(decode).items()})
    merged = replace(config, decode=decode, train=replace(config.train, show_samples=0))
    check_pairs(merged)
    check_effects(merged, {"decode": {name: options[name] for name in given}})
    return decode


def without_effect(config: RunConfig) -> dict[str, tuple[str, str]]:
    """The keys that change nothing beside the others: why, and what would give each an effect, or nothing."""
    return {key: (why, fix) for keys, why, fix in _idle(config) for key in keys}


def differences_in_training(a: RunConfig, b: RunConfig) -> list[tuple[str, Any, Any]]:
    """`differences`, without those that change nothing in either run; how its text is found can always be asked for."""
    idle = without_effect(a).keys() & without_effect(b).keys()
    return [row for row in differences(a, b) if row[0] not in idle or row[0].startswith("decode.")]


def _idle(config: RunConfig) -> Iterator[tuple[Iterable[str], str, str]]:
    """Groups of such keys."""
    model, data, tokenizer, train, decode = config.model, config.data, config.tokenizer, config.train, config.decode
    if model.attention in ("full", "linear"):
        yield ["model.window"], f"model.attention is {model.attention}", "add --model.attention window"
    if config.task == "classification":
        written = "model.decoder_layers model.tie_embeddings model.output_bias tokenizer.shared data.target_field"
        yield ([*_all("decode", _SEARCHED), *written.split(), "data.target_language", "train.show_samples"],
               "the task is classification, which writes no text", "")
    elif config.task == "reading":
        written = "model.decoder_layers model.tie_embeddings model.output_bias model.pooling model.head_activation"
        others = "data.source_field data.target_field data.label_field data.too_long data.target_language"
        searched = [name for name in _SEARCHED if name != "max_length"]
        yield ([*_all("decode", searched), *written.split(), *others.split(), "tokenizer.shared", "train.show_samples"],
               "the task is reading, which finds answers and writes no text", "")
    else:
        pooling = ["model.pooling"] if model.pooling in _POOLINGS else []
        yield ["data.label_field", "model.head_activation", *pooling], "the task is seq2seq, which has no labels", ""
        if decode.sample:
            yield ["decode.beam_size"], "decode.sample is true, and a draw searches nothing", "leave one of them out"
        elif not train.show_samples:
            yield _all("decode", _DRAWN), "decode.sample is false: nothing is drawn", "add --decode.sample true"
        if data.objective == "span_corruption":
            yield ["data.target_field"], "data.objective is span_corruption, which reads the source alone", ""
    if not train.r_drop:
        yield ["train.r_drop_after"], "train.r_drop is 0", "add --train.r_drop 5"
    held = "decode.from_passages"
    if config.retrieval.from_ == "none":
        yield ["retrieval.index", "retrieval.k", held], "retrieval.from is none", "add --retrieval.from bm25"
    elif config.retrieval.k == 0:
        yield ["retrieval.index", "retrieval.from", held], "retrieval.k is 0: no passage is read", "add --retrieval.k 2"
    if train.initialize_from is not None or tokenizer.path is not None:
        keys = [*_LEARNED, "path"] if train.initialize_from is not None else _LEARNED
        yield (_all("tokenizer", keys), f"the tokenizer is that of {train.initialize_from or tokenizer.path}", "")
    elif tokenizer.kind != "sentencepiece":
        yield _all("tokenizer", _PIECES), f"tokenizer.kind is {tokenizer.kind}", "add --tokenizer.kind sentencepiece"
    else:
        yield ["tokenizer.min_frequency"], "tokenizer.kind is sentencepiece", "add --tokenizer.kind word"
    if tokenizer.kind != "spacy":
        yield (_all("tokenizer", ("source_language", "target_language")), f"tokenizer.kind is {tokenizer.kind}",
               "add --tokenizer.kind spacy")
    if data.train is not None:
        generated = "task train validation test symbols min_length max_length".split()
        yield _all("data.generated", generated), "data.train is given, and goes before it", "give one of them"
    elif data.generated is not None and data.generated.task in ("grammar", "documents"):
        yield (_all("data.generated", ("symbols", "min_length", "max_length")),
               f"data.generated.task is {data.generated.task}, which has sentences of its own", "")
    for name, files in (("validation", data.validation), ("test", data.test)):
        if files is not None or (data.train is None and data.generated is not None):
            yield [f"data.{name}_share"], f"there is {name} data already, and no share is set aside", ""


def _all(section: str, names: Iterable[str]) -> list[str]:
    return [f"{section}.{name}" for name in names]
