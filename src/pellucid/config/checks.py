"""What a configuration's types cannot say: which numbers are in range, and which values contradict each other."""

import math
import re
from typing import Any, TypeGuard

from pellucid.config import RunConfig
from pellucid.errors import ConfigError

# Ranges: (lowest, highest) allowed; an open end is written with the next number that is allowed.
_SMALLEST = math.ulp(0.0)
_BELOW_ONE = math.nextafter(1.0, 0.0)
RANGES: dict[str, tuple[float, float]] = {key: bounds for bounds, keys in (
    ((1, math.inf), "data.generated.train data.generated.validation data.generated.test data.generated.min_length "
                    "tokenizer.min_frequency tokenizer.sample_lines tokenizer.sample_characters model.window "
                    "train.steps train.epochs train.batch_tokens train.batch_sentences train.patience "
                    "train.validate_every train.log_every decode.max_length decode.batch_tokens"),
    ((0, 100), "retrieval.k"),
    ((0, math.inf), "train.warmup_steps train.r_drop_after train.sampled_words"),
    ((0, math.inf), "decode.min_length decode.no_repeat_ngram decode.top_k"),
    ((0, _BELOW_ONE), "tokenizer.sampling model.dropout model.attention_dropout model.feed_forward_dropout "
                      "train.betas train.label_smoothing train.ema_decay"),
    ((1, 1000), "model.encoder_layers model.decoder_layers train.average_last decode.beam_size decode.n_best"),
    ((1, 65_536), "model.d_model model.n_heads model.d_key model.d_head"), ((1, 1_048_576), "model.d_ff"),
    ((0, 2**63 - 1), "seed decode.seed"), ((0, 0.5), "data.validation_share data.test_share"),
    ((2, 1_000_000), "data.generated.symbols"), ((5, 10_000_000), "tokenizer.vocab_size"),
    ((0.98, 1), "tokenizer.character_coverage"), ((0, 10_000), "tokenizer.sentinels"),
    ((2, math.inf), "model.max_length"), ((_SMALLEST, 10), "train.learning_rate"), ((0, 10), "train.weight_decay"),
    ((_SMALLEST, 1), "train.epsilon decode.top_p model.norm_epsilon"), ((0, 1000), "train.r_drop train.show_samples"),
    ((_SMALLEST, math.inf), "train.clip_norm"), ((1, 100_000), "train.accumulate"),
    ((1, 1024), "train.workers train.shard"), ((1, 1_000_000), "train.timeout"),
    ((-5, 5), "decode.length_penalty"), ((_SMALLEST, 1000), "decode.temperature")) for key in keys.split()}

SHORTEST_WINDOW = 16  # of a reader: a question, and some of a passage
_LANGUAGE = re.compile(r"[A-Za-z]{2,3}(-[A-Za-z0-9]{2,8})*")  # a tag of BCP 47, RFC 5646, as far as it is in use


def is_language(tag: object) -> TypeGuard[str]:
    """Whether it is a tag of a language."""
    return isinstance(tag, str) and _LANGUAGE.fullmatch(tag) is not None


def check_language(tag: str, where: str) -> None:
    """Refuses what is no tag of a language, such as "en", "pt-BR" or "zh-Hans".

    Raises:
        ConfigError: names `where` it was given.
    """
    if not is_language(tag):
        raise ConfigError(f"{tag[:40]!r} is no code of a language", where=where,
                          fix="give two or three letters, and more behind hyphens where they are needed: en, zh-Hans")


def check_ranges(flat: dict[str, Any]) -> None:
    """Refuses values out of range, in a configuration with dotted keys.

    Raises:
        ConfigError: names the key, the value and what is allowed.
    """
    for key, bounds in RANGES.items():
        values = flat.get(key)
        for value in values if isinstance(values, list) else [values]:
            if value is not None:
                check_range(key, value, bounds)


def check_range(key: str, value: float, bounds: tuple[float, float]) -> None:
    """Refuses a value that is below the first of two bounds, or above the second.

    Raises:
        ConfigError: names the key, the value and what is allowed.
    """
    low, high = bounds
    if not low <= value <= high:
        from_ = "above 0" if low == _SMALLEST else f"at least {low:g}"
        to = "" if high == math.inf else " and below 1" if high == _BELOW_ONE else f" and at most {high:g}"
        raise ConfigError(f"{key} is {value}, out of range", where=key, fix=f"choose {from_}{to}")


def check_pairs(config: RunConfig) -> None:
    """Refuses values that contradict each other.

    Raises:
        ConfigError: names the keys, and what would do.
    """
    model, data, decode = config.model, config.data, config.decode
    if model.d_model % model.n_heads and model.d_head is None:
        near = [n for n in range(1, model.d_model + 1) if model.d_model % n == 0]
        near.sort(key=lambda n: abs(n - model.n_heads))
        raise ConfigError(f"model.d_model {model.d_model} is not divisible by model.n_heads {model.n_heads}",
                          where="model.n_heads", why="the heads share the width equally",
                          fix=f"choose n_heads among {', '.join(map(str, sorted(near[:4])))}, or set model.d_head")
    if data.generated is not None and data.generated.max_length < data.generated.min_length:
        raise ConfigError("data.generated.max_length is below data.generated.min_length", where="data.generated")
    if data.validation_share + data.test_share >= 1:
        raise ConfigError("validation_share and test_share leave nothing to train on", where="data")
    for side, tag in (("source", data.source_language), ("target", data.target_language)):
        if tag is not None:
            check_language(tag, f"data.{side}_language")
    for name, split in (("validation", data.validation), ("test", data.test)):
        if split is not None and any(source.weight != 1 for source in split.sources):
            raise ConfigError(f"data.{name} has weights", where=f"data.{name}", why="each of its pairs counts once",
                              fix="give weights in data.train, or none")
    if model.position == "learned" and config.task == "seq2seq" and decode.max_length > model.max_length:
        raise ConfigError(f"decode.max_length {decode.max_length} is above model.max_length {model.max_length}",
                          where="decode.max_length", why="learned positions end there", fix="lower decode.max_length")
    if decode.min_length >= decode.max_length:
        raise ConfigError("decode.min_length must be below decode.max_length", where="decode.min_length")
    wanted = {"seq2seq": ("loss", "bleu", "exact"), "classification": ("loss", "accuracy", "macro_f1"),
              "reading": ("loss", "em", "f1")}[config.task]
    if config.train.monitor not in wanted:
        raise ConfigError(f"train.monitor {config.train.monitor} does not exist for {config.task}",
                          where="train.monitor", fix=f"choose {', '.join(wanted)}")
    _check_objective(config)
    if config.task == "reading":
        _check_reading(config)
    if config.retrieval.is_on:
        _check_retrieval(config)
    if config.train.sampled_words and config.task != "seq2seq":
        raise ConfigError("only an output of words is sampled", where="train.sampled_words",
                          why=f"the task is {config.task}", fix="leave it out")
    if config.train.learning_rate is None and config.train.warmup_steps == 0:
        raise ConfigError("the paper's learning rate needs warmup_steps above 0", where="train.learning_rate")


def refuse_readers(config: RunConfig, verb: str, where: str) -> None:
    """Refuses runs of the task reading in a verb that does not know them.

    Raises:
        ConfigError: what they can do.
    """
    if config.task == "reading":
        raise ConfigError(f"pellucid {verb} does not know readers", where=where, why="the task is reading",
                          fix="pellucid train, prepare, doctor, evaluate, answer, serve, play, diff and "
                              "export --to run do")


def _check_reading(config: RunConfig) -> None:
    if config.model.max_length < SHORTEST_WINDOW:
        raise ConfigError(f"model.max_length {config.model.max_length} has no room for a question and a passage",
                          where="model.max_length", fix=f"choose {SHORTEST_WINDOW} at least")
    if config.train.r_drop:
        raise ConfigError("R-Drop is not made for readers", where="train.r_drop", fix="leave it out")
    if config.tokenizer.sampling:
        raise ConfigError("a reader's tokens keep their places, and are not sampled", where="tokenizer.sampling",
                          fix="leave it out")
    for name, split in (("train", config.data.train), ("validation", config.data.validation),
                        ("test", config.data.test)):
        if split is not None and any(source.path is None for source in split.sources):
            raise ConfigError(f"data.{name} is text files, and questions lie in SQuAD's JSON layout",
                              where=f"data.{name}", fix="give a .json file, or a list of them (.gz too)")


def _check_retrieval(config: RunConfig) -> None:
    where = "retrieval.k"
    if config.task != "seq2seq" or config.data.objective != "supervised":
        raise ConfigError("passages are read by runs that learn to write a target", where=where,
                          why=f"the task is {config.task}, the objective {config.data.objective}", fix="leave it out")
    if config.tokenizer.sampling:
        raise ConfigError("tokenizer.sampling takes a source for one text", where="tokenizer.sampling",
                          why=f"retrieval.k is {config.retrieval.k}", fix="leave one of them out")
    if config.decode.split_sentences:
        raise ConfigError("passages are looked for by the whole text", where="decode.split_sentences",
                          why=f"retrieval.k is {config.retrieval.k}", fix="leave one of them out")


def _check_objective(config: RunConfig) -> None:
    tokenizer, train = config.tokenizer, config.train
    if tokenizer.sampling and tokenizer.kind != "sentencepiece":
        raise ConfigError(f"tokenizer.sampling needs pieces of words, and tokenizer.kind is {tokenizer.kind}",
                          where="tokenizer.sampling", fix="use tokenizer.kind sentencepiece")
    if tokenizer.vocab_size - tokenizer.sentinels < RANGES["tokenizer.vocab_size"][0]:
        raise ConfigError(f"{tokenizer.sentinels} sentinels leave no room in tokenizer.vocab_size "
                          f"{tokenizer.vocab_size}", where="tokenizer.sentinels", why="they are among the ids")
    if config.data.objective == "supervised":
        return
    where = "data.objective"
    if config.task != "seq2seq":
        raise ConfigError(f"span corruption writes text, and the task is {config.task}", where=where,
                          fix="pretrain with task seq2seq, and start the classifier with train.initialize_from")
    if train.monitor != "loss":
        raise ConfigError(f"span corruption has no {train.monitor} to monitor", where="train.monitor",
                          fix="use train.monitor loss")
    if tokenizer.sentinels == 0 and tokenizer.path is None and train.initialize_from is None:
        raise ConfigError("span corruption needs sentinels in the vocabulary", where="tokenizer.sentinels",
                          why="they mark in the source what was left out", fix="set tokenizer.sentinels 100, as T5 has")
