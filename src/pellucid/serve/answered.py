"""What our own API answers: dataclasses that become JSON, and that /openapi.json describes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from starlette.responses import Response

from pellucid.config import DecodeConfig, Task
from pellucid.evaluate.finite import finite
from pellucid.runs.candidates import Candidate, Classified, Generated, Scored
from pellucid.serve.alignment import Links
from pellucid.serve.catalogue import Served


@dataclass(frozen=True)
class Translation:
    """What comes out for a text.

    Attributes:
        text: of the best hypothesis.
        tokens: its pieces.
        score: log-probability over the length penalty.
        log_probability: of the whole, in nats, its end counted.
        finished: it ended by itself; otherwise it was stopped at max_length.
        hypotheses: n_best of them, the best first.
        cut: tokens of the text that were left out, because the model takes no longer ones.
        unknown: parts of the text that the run does not know.
        unknown_target: those of the prefix.
        alignments: pairs of a word of the text and a word of its translation, by number from 0, if they were asked for.
    """

    text: str
    tokens: tuple[str, ...]
    score: float
    log_probability: float
    finished: bool
    hypotheses: tuple[Candidate, ...]
    cut: int
    unknown: tuple[str, ...]
    unknown_target: tuple[str, ...]
    alignments: tuple[tuple[int, int], ...] | None = None


@dataclass(frozen=True)
class Translations:
    """The answer to texts to translate.

    Attributes:
        run: the name of the run that translated them.
        translations: one a text.
    """

    run: str
    translations: tuple[Translation, ...]


@dataclass(frozen=True)
class Step:
    """The best hypothesis so far, in an event "step" of a stream; the next need not go on from it.

    Attributes:
        text: with its prefix.
        tokens: its pieces.
        probabilities: of each of them, given those before it.
        length: how many there are.
    """

    text: str
    tokens: tuple[str, ...]
    probabilities: tuple[float, ...]
    length: int


@dataclass(frozen=True)
class ScoredPair:
    """How probable a translation is that was given.

    Attributes:
        tokens: its pieces, and the end.
        token_log_probabilities: of each, given those before it, in nats.
        log_probability: their sum.
        cut, unknown, unknown_target: as of a translation.
    """

    tokens: tuple[str, ...]
    token_log_probabilities: tuple[float, ...]
    log_probability: float
    cut: int
    unknown: tuple[str, ...]
    unknown_target: tuple[str, ...]


@dataclass(frozen=True)
class Scores:
    """The answer to translations that were given.

    Attributes:
        run: the name of the run that was asked.
        scores: one a pair.
    """

    run: str
    scores: tuple[ScoredPair, ...]


@dataclass(frozen=True)
class Classifications:
    """The answer to texts to classify.

    Attributes:
        run: the name of the run that classified them.
        classifications: one a text.
    """

    run: str
    classifications: tuple[Classified, ...]


@dataclass(frozen=True)
class ReadPassage:
    """A passage that was read for a question.

    Attributes:
        document, title: which one it is of.
        start, end: the characters of that document, from start to before end, that it is.
        score: how well it fits the question, by BM25.
        text: those characters.
        matched: pieces of that document, [start, end), that the question has, too.
    """

    document: str
    title: str
    start: int
    end: int
    score: float
    text: str
    matched: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Answer:
    """The answer to a question, with its place.

    Attributes:
        question: as it was asked.
        answer: a piece of a document; empty where the passages do not tell.
        score: its probability by the model, which may be wrong.
        document: the one it stands in; None where there is no answer, as are start and end.
        start, end: the characters of that document that are the answer.
        passages: those that were read, the one that fits best first.
        cut: tokens of the question that were left out, because the model takes no longer ones.
    """

    question: str
    answer: str
    score: float
    document: str | None
    start: int | None
    end: int | None
    passages: tuple[ReadPassage, ...]
    cut: int = 0


@dataclass(frozen=True)
class RunInfo:
    """A run that is served.

    Attributes:
        name: what it is asked by.
        task: what it does.
        source_language, target_language: codes of what it reads and writes, where they are known.
        labels: of a classifier.
        n_heads: of each attention.
        encoder_layers, decoder_layers: how many there are; only those that translate decode.
        decode: how it searches, if nothing else is asked for.
    """

    name: str
    task: Task
    source_language: str | None
    target_language: str | None
    labels: tuple[str, ...] | None
    n_heads: int
    encoder_layers: int
    decoder_layers: int
    decode: DecodeConfig


@dataclass(frozen=True)
class Runs:
    """Those that are served.

    Attributes:
        runs: in the order in which they were given.
    """

    runs: tuple[RunInfo, ...]


def translations(served: Served, found: Sequence[Generated], links: Sequence[Links] | None = None) -> Translations:
    """The answer that these make."""
    each = [None] * len(found) if links is None else [tuple(one) for one in links]
    return Translations(served.name, tuple(
        Translation(one.text, one.tokens, best.score, best.log_probability, best.finished, one.hypotheses, one.cut,
                    one.unknown, one.unknown_target, linked)
        for one, best, linked in zip(found, (one.hypotheses[0] for one in found), each, strict=True)))


def scores(served: Served, found: Sequence[Scored]) -> Scores:
    """The answer that these make."""
    return Scores(served.name, tuple(
        ScoredPair(one.tokens, one.token_log_probabilities, one.log_probability, one.cut, one.unknown,
                   one.unknown_target) for one in found))


def runs(served: Sequence[Served]) -> Runs:
    """What is told of those that are served."""
    return Runs(tuple(_info(one) for one in served))


def _info(served: Served) -> RunInfo:
    config = served.run.config
    is_classifier = config.task == "classification"
    decoders = config.model.decoder_layers if config.task == "seq2seq" else 0
    return RunInfo(served.name, config.task, served.source or None, served.target or None,
                   served.run.tokenizers.labels if is_classifier else None, config.model.n_heads,
                   config.model.encoder_layers, decoders, config.decode)


def respond(answer: Any) -> Response:
    """The response that a dataclass makes."""
    return Response(as_json(asdict(answer)), media_type="application/json")


def as_json(answer: Any) -> bytes:
    """JSON as RFC 8259 has it: a number that is not finite is null."""
    try:
        text = json.dumps(answer, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    except ValueError:
        text = json.dumps(finite(answer), ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.encode()
