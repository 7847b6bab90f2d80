"""What our own API is asked: dataclasses that requests are read into, strictly, and that /openapi.json describes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, TypeVar

from pellucid.config import DecodeConfig
from pellucid.config.checks import RANGES, check_range
from pellucid.config.effects import without_effect
from pellucid.config.reader import read_dataclass
from pellucid.errors import ConfigError, UserError
from pellucid.inspection.answers import Head
from pellucid.runs.run import Run
from pellucid.runs.texts import search_options
from pellucid.serve.requests import HttpError

# What one request may ask for, so that none takes minutes.
_MOST = {"beam_size": 32, "n_best": 32, "max_length": 1024, "min_length": 1023, "no_repeat_ngram": 1024,
         "temperature": 100, "top_k": 2**31, "batch_tokens": 4096}
_RANGES = {key.removeprefix("decode."): bounds for key, bounds in RANGES.items() if key.startswith("decode.")}
BOUNDS = {name: (low, min(high, _MOST.get(name, high))) for name, (low, high) in _RANGES.items()}  # of options
_MOST_HEADS = 1000


@dataclass(frozen=True, kw_only=True)
class OfRun:
    """Which run is asked: by its name, or by its languages; neither where there is only one.

    Attributes:
        run: its name, one of /v1/runs.
        source: the code of the language that it reads.
        target: the code of the language that it writes.
    """

    run: str | None = None
    source: str | None = None
    target: str | None = None


@dataclass(frozen=True, kw_only=True)
class Translate(OfRun):
    """Texts to translate.

    Attributes:
        text: one, or a list.
        prefix: how its translation begins, to the byte; where no space ends it, its last word may go on. As many as
            there are texts.
        options: how to search; what is left out is as the run has it.
        stream: answer with server-sent events as tokens come, for one text: "step" with the best so far, as often as
            they are read, and "done" with the answer, or "error".
        alignments: tell which words became which.
    """

    text: str | tuple[str, ...]
    prefix: str | tuple[str, ...] | None = None
    options: dict[str, Any] = field(default_factory=dict)
    stream: bool = False
    alignments: bool = False


@dataclass(frozen=True, kw_only=True)
class Score:
    """Translations that are given, to be told how probable they are.

    Attributes:
        run: the name of one of /v1/runs; may be left out where there is only one.
        source: a text, or a list.
        target: its translation, or a list of as many.
    """

    run: str | None = None
    source: str | tuple[str, ...]
    target: str | tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Classify(OfRun):
    """Texts to classify.

    Attributes:
        text: one, or a list.
    """

    text: str | tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Question:
    """A question to answer from the index.

    Attributes:
        question: what is asked.
        k: the most passages that are read.
        run: which of the runs that read; its name, where there is more than one.
    """

    question: str
    k: int = 5
    run: str | None = None


@dataclass(frozen=True, kw_only=True)
class Trace(OfRun):
    """A text of which the search is to be told.

    Attributes:
        text: what is translated.
        prefix: how its translation begins.
        options: how to search; what is left out is as the run has it.
    """

    text: str
    prefix: str = ""
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Attention(OfRun):
    """A text of which the attention is to be told.

    Attributes:
        text: what is read.
        output: what is written, as a text or as the ids of its tokens; what the run writes, if left out.
        without: heads that are switched off.
    """

    text: str
    output: str | tuple[int, ...] | None = None
    without: tuple[Head, ...] = ()


Method = Literal["gradient_x_input", "integrated_gradients", "leave_one_out"]


@dataclass(frozen=True, kw_only=True)
class Contributions(OfRun):
    """A text of which it is to be told what each of its tokens contributes.

    Attributes:
        text: what is read.
        output: what is written, as a text or as the ids of its tokens; what the run writes, if left out.
        method: how contributions are found.
    """

    text: str
    output: str | tuple[int, ...] | None = None
    method: Method = "gradient_x_input"


Asked = TypeVar("Asked")


def read_asked(kind: type[Asked], values: Mapping[str, Any]) -> Asked:
    """The request that these values make.

    Raises:
        HttpError: 400, a key is unknown or missing, or a value is of another type.
    """
    without = values.get("without")
    if isinstance(without, list) and len(without) > _MOST_HEADS:  # each takes a while to be looked at
        raise HttpError(400, f"Invalid request: without has {len(without):,} heads, and at most {_MOST_HEADS:,} can be "
                             "switched off")
    try:
        asked: Asked = read_dataclass(kind, dict(values))
    except ConfigError as error:
        raise refusal(error) from None
    return asked


def read_options(run: Run, given: Mapping[str, Any]) -> DecodeConfig:
    """The run's way to search, with what is given on top.

    Raises:
        HttpError: 400, a key is unknown, or has no effect; a value is of another type, or asks for too much.
    """
    if not given:
        return run.config.decode
    try:
        options: DecodeConfig = read_dataclass(DecodeConfig, asdict(run.config.decode) | dict(given), "options")
        for name in given.keys() & BOUNDS.keys():
            check_range(f"options.{name}", getattr(options, name), BOUNDS[name])
        _check_effects(run, options, given)
        search_options(options)
    except UserError as error:
        raise refusal(error) from None
    except ValueError as error:
        raise HttpError(400, f"Invalid request: options: {error}") from None
    return options


def _check_effects(run: Run, options: DecodeConfig, given: Mapping[str, Any]) -> None:
    """Refuses what is given and changes nothing, or would lead beyond what the run has learned."""
    config = run.config
    if "max_length" in given and config.model.position == "learned":
        check_range("options.max_length", options.max_length, (1, config.model.max_length))
    idle = without_effect(replace(config, decode=options, train=replace(config.train, show_samples=0)))
    for name, value in given.items():
        why, fix = idle.get(f"decode.{name}", ("", ""))
        if fix and value != getattr(config.decode, name):
            raise ConfigError(f"options.{name} has no effect: {why.replace('decode.', 'options.')}")


def refusal(error: UserError) -> HttpError:
    """The same in a sentence, for whoever asked over HTTP."""
    return HttpError(400, f"Invalid request: {error.what}" + (f": {error.fix}" if error.fix else ""))
