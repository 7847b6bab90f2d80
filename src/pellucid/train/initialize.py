"""Fine-tuning: a run that starts from the best weights of another one, with its vocabulary.

The same task takes every weight. A classifier that starts from a seq2seq run, or from one with other labels, takes the
encoder and its embedding; its head is new. Nothing is cut or padded to fit: what does not match is refused by name.
"""

import dataclasses
import shutil
from collections.abc import Callable
from pathlib import Path

from torch import nn

from pellucid.config import RunConfig, TokenizerConfig
from pellucid.data.examples import check_tokenizers
from pellucid.data.tokenizers.build import Tokenizers
from pellucid.errors import ConfigError
from pellucid.files import output_errors, read_json, sha256, write_json
from pellucid.runs.checkpoint import fill
from pellucid.runs.format import IMPORTED, STARTED
from pellucid.runs.run import Run, load

_KEY = "train.initialize_from"
_ENCODER = ("encoder.", "source_embedding.")
_FREE = {"dropout", "attention_dropout", "feed_forward_dropout", "max_length"}  # a fine-tuned model may have its own
_OF_HEAD, _OF_WRITING = {"pooling", "head_activation"}, {"decoder_layers", "tie_embeddings", "output_bias"}
_SHOWN = 5


def source_of(config: RunConfig) -> Run | None:
    """The run that `config` starts from, opened and compared with it; None where it starts from nothing.

    Raises:
        CheckpointError: no such run, nothing trained in it yet, or it is damaged.
        ConfigError: a classifier or a reader cannot become seq2seq; its tokenizer or model is configured otherwise, or
            cannot do what is asked of it.
    """
    if config.train.initialize_from is None:
        return None
    source = load(config.train.initialize_from)
    if source.config.task != "seq2seq" and config.task == "seq2seq":
        raise ConfigError("a seq2seq run cannot start from a classifier or a reader", where=_KEY,
                          why="it has no decoder and no target vocabulary", fix="start from a seq2seq run")
    _check_tokenizer(config, source.tokenizers.config)
    check_tokenizers(config, source.tokenizers)
    _check_model(config, source)
    return source


def _check_tokenizer(config: RunConfig, there: TokenizerConfig) -> None:
    """A key that is given, and is not that of the run to start from, would be ignored in silence."""
    default, differing = TokenizerConfig(), []
    for field in dataclasses.fields(TokenizerConfig):
        before, now = (getattr(one, field.name) for one in (there, config.tokenizer))
        is_free = field.name == "sampling" or (field.name == "shared" and config.task == "classification")
        if now != getattr(default, field.name) and now != before and not is_free:
            differing.append(f"{field.name}: {before} there, {now} here")
    if differing:
        raise ConfigError(f"the tokenizer is configured otherwise than that of {config.train.initialize_from}",
                          where="tokenizer", why="; ".join(differing),
                          fix="leave the tokenizer section out: weights keep the vocabulary they learned")


def _check_model(config: RunConfig, source: Run) -> None:
    free = set(_FREE)
    if config.task == "seq2seq":
        free |= _OF_HEAD
    else:
        free |= _OF_WRITING | (_OF_HEAD if source.config.task == "seq2seq" else set())
    if config.model.attention != "window":
        free |= {"window"}
    here, there = (dataclasses.asdict(one.model) for one in (config, source.config))
    differing = [f"{key}: {there[key]} there, {here[key]} here" for key in here
                 if key not in free and here[key] != there[key]]
    if differing:
        raise ConfigError(f"the model is configured otherwise than that of {source.folder}", where="model",
                          why="; ".join(differing), fix=f"use the model section of {source.folder / 'config.yaml'}")


def initialize_from(source: Run, model: nn.Module, tokenizers: Tokenizers, out: Path | None,
                    say: Callable[[str], None]) -> None:
    """Copies the weights of `source` into `model`, and writes which into `out`/initialized_from.json; None: another
    rank writes.

    Raises:
        ConfigError: a tensor is missing on one side, or has another shape.
    """
    whole = source.config.task != "classification" or source.tokenizers.labels == tokenizers.labels
    whole = whole and (isinstance(source.model, type(model)) or isinstance(model, type(source.model)))
    theirs = dict(source.model.named_parameters())
    ours = dict(model.named_parameters())
    taken = {name for name in theirs.keys() | ours.keys() if whole or name.startswith(_ENCODER)}
    shapes = {name: [tuple(side[name].shape) if name in side else "none" for side in (theirs, ours)] for name in taken}
    wrong = sorted(name for name, (there, here) in shapes.items() if there != here)
    if wrong:
        listed = "; ".join(f"{name}: {shapes[name][0]} there, {shapes[name][1]} here" for name in wrong[:_SHOWN])
        more = f"; and {len(wrong) - _SHOWN} more" if len(wrong) > _SHOWN else ""
        raise ConfigError(f"{len(wrong)} tensors do not fit those of {source.folder}", where=_KEY, why=listed + more,
                          fix=f"use the model section of {source.folder / 'config.yaml'}")
    fill(model, {name: theirs[name] for name in taken})
    new = sorted(ours.keys() - taken)
    best = read_json(source.folder / "best.json")
    if out is not None:
        if whole and (source.folder / IMPORTED).is_dir():  # what was imported and trained on can still go back
            with output_errors(out):
                shutil.copytree(source.folder / IMPORTED, out / IMPORTED, dirs_exist_ok=True)
        write_json(out / STARTED, {
            "run": str(source.folder), "checkpoint": best["checkpoint"], "step": best["step"],
            "sha256": sha256(source.folder / "checkpoints" / best["checkpoint"] / "model.safetensors"),
            "taken": len(taken), "new": new})
    what = "all weights" if whole else f"the encoder and its embedding ({len(new)} tensors begin anew)"
    say(f"initialized from {source.folder} ({best['checkpoint']}): {what}")
