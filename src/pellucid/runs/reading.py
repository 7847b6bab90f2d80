"""Questions and passages → answers, each a substring of the passage that it cites."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pellucid.config import RunConfig
from pellucid.data.batching import pad
from pellucid.data.reading import Question, Row, UnitReader, Units, example, most_asked, place_alone, row_of, span_of
from pellucid.data.tokenizers.build import Tokenizers
from pellucid.data.tokenizers.interface import BOS, EOS
from pellucid.errors import ConfigError
from pellucid.model.reader import Reader
from pellucid.model.stepper import evaluating
from pellucid.nn.span import best_spans
from pellucid.precision import products_in
from pellucid.retrieve.terms import uncut
from pellucid.runs.run import Run
from pellucid.runs.texts import checked_texts, length_groups

MOST_CHARACTERS = 10_000_000  # of the passages of a question


@dataclass(frozen=True)
class Found:
    """What a question is answered with: ``passages[passage][start:end]``.

    Attributes:
        text: "" where the passages do not tell.
        score: the probability of its start times that of its end, over all places of all passages.
        passage: the number of the passage, from 0; None where there is no answer.
        start, end: characters of the passage.
    """

    text: str
    score: float
    passage: int | None
    start: int
    end: int


class _Span(NamedTuple):
    """The best span of a window, as characters of its passage; `mass` is log Σ exp over its places, of start and end,
    and `none` the score of "no answer" there."""

    score: float
    passage: int
    start: int
    end: int
    mass: Sequence[float]
    none: Sequence[float]

    def moved(self, prior: float) -> "_Span":
        """The same with as much more for each start."""
        return self._replace(score=self.score + prior, mass=(self.mass[0] + prior, self.mass[1]))


class _Owner(NamedTuple):
    """Whose window a row is, and the units of both texts."""

    question: int
    passage: int
    units: Units
    asked: Units


def read(run: Run, questions: Sequence[str], passages: Sequence[Sequence[str]],
         progress: Callable[[int], None] = lambda done: None,
         priors: Sequence[Sequence[float]] | None = None) -> list[Found]:
    """Answers each question from its passages.

    Args:
        progress: called with the number of windows read.
        priors: of each passage what is added to the scores of the starts in it, in nats; 0 if left out.

    Raises:
        ConfigError: the run is no reader; the passages of a question are longer than MOST_CHARACTERS.
        TypeError: questions, or the passages of one, are no list of texts.
        DataError: half a surrogate pair in one.
    """
    questions = checked_texts(questions, "question")
    passages = [checked_texts(texts, "passage") for texts in passages]
    model = run.model
    if not isinstance(model, Reader):
        raise ConfigError("this run cannot read", where=str(run.folder),
                          why=f"it was trained for {run.config.task}, not reading")
    rows, owners = _windows(run.tokenizers, run.config.model.max_length, questions, passages)
    spans = {i: span if priors is None else span.moved(priors[owners[i].question][owners[i].passage])
             for i, span, _ in _read(model, run.config, (rows, owners), "fp32", progress)}
    return [_choose([spans[i] for i in numbers], texts)
            for numbers, texts in zip(_by_question(owners, len(questions)), passages, strict=True)]


class Judged(NamedTuple):
    """Answers, and the loss (nn/span.py) summed over so many questions that can be learned from."""

    found: list[Found]
    loss: float
    learned: int


def judge(model: Reader, tokenizers: Tokenizers, config: RunConfig, asked: Sequence[Question],
          passages: Sequence[str], precision: str) -> Judged:
    """Answers each question from its own passage and says how far that is from what is right; a window is read once."""
    limit = config.model.max_length
    rows, owners = _windows(tokenizers, limit, [one.text for one in asked], [[passage] for passage in passages])
    of_question = _by_question(owners, len(asked))
    places = [_right(one, owners[numbers[0]], limit) for one, numbers in zip(asked, of_question, strict=True)]
    shown = {numbers[at.window]: at for numbers, at in zip(of_question, places, strict=True) if at and at.first}
    spans, truth = dict[int, _Span](), dict[int, float]()  # of windows; of questions that have an answer
    for i, span, scores in _read(model, config, (rows, owners), precision):
        spans[i] = span
        if at := shown.get(i):
            truth[owners[i].question] = float(scores[at.first, 0] + scores[at.last, 1])
    found = [[spans[i] for i in numbers] for numbers in of_question]
    losses = [_mass(found[number]) - truth.get(number, float(_none(found[number]).sum()))
              for number, at in enumerate(places) if at]
    answers = [_choose(some, [passage]) for some, passage in zip(found, passages, strict=True)]
    return Judged(answers, sum(losses), len(losses))


class _Place(NamedTuple):
    """Where an answer stands: in the so-manieth window of its question, from place to place; 0 to 0 is "no answer"."""

    window: int
    first: int
    last: int


def _right(asked: Question, owner: _Owner, limit: int) -> _Place | None:
    """Where the right answer stands; None, where nothing can be learned from the question."""
    row, span = example(owner.units, owner.asked, asked, limit)
    if span is None:
        return None
    first, last = span_of(span)
    if last == 0:
        return _Place(0, 0, 0)
    window, place = place_alone(row, first)
    return _Place(window, place, place + last - first)


def _by_question(owners: Sequence[_Owner], questions: int) -> list[list[int]]:
    """The numbers of the windows of each question, in order."""
    found: list[list[int]] = [[] for _ in range(questions)]
    for i, owner in enumerate(owners):
        found[owner.question].append(i)
    return found


def _read(model: Reader, config: RunConfig, windows: tuple[Sequence[Row], Sequence[_Owner]], precision: str,
          progress: Callable[[int], None] = lambda done: None) -> Iterator[tuple[int, _Span, Tensor]]:
    """The number of each window, its best span and its scores [L, 2], in the order in which they are read."""
    rows, owners = windows
    device = model.head.weight.device
    done = 0
    for group in length_groups([len(row.ids) for row in rows], config.decode.batch_tokens):
        ids, real = (None if side is None else side.to(device)
                     for side in pad([np.asarray(rows[i].ids, dtype=np.int32) for i in group]))
        assert ids is not None
        with torch.no_grad(), evaluating(model), products_in(precision, device):
            scores = model(ids, real)
        best = best_spans(scores, model.windows(ids, real), config.decode.max_length)
        mass = scores[:, 1:].logsumexp(1).tolist()
        for place, i in enumerate(group):
            value, first, last = float(best[0][place]), int(best[1][place]), int(best[2][place])
            span = _span(owners[i], rows[i], value, (first, last), mass[place], scores[place, 0].tolist())
            yield i, span, scores[place]
        done += len(group)
        progress(done)


def _windows(tokenizers: Tokenizers, limit: int, questions: Sequence[str],
             passages: Sequence[Sequence[str]]) -> tuple[list[Row], list[_Owner]]:
    """Each window as a row of its own: what the model says of it is the same there."""
    if any(sum(map(len, texts)) > MOST_CHARACTERS for texts in passages):
        raise ConfigError(f"the passages of a question are longer than {MOST_CHARACTERS:,} characters",
                          where="passages", fix="divide the text, or search in it first: pellucid index, search")
    reader, known = UnitReader(tokenizers), dict[str, Units]()
    rows, owners = [], []
    for number, (question, texts) in enumerate(zip(questions, passages, strict=True)):
        asked = reader.read(question)
        for place, text in enumerate(texts):
            if text not in known:
                known = {text: reader.read(text)} if len(known) > 1000 else known | {text: reader.read(text)}
            for row in _apart(row_of(asked, known[text], limit), known[text], asked, limit):
                rows.append(row)
                owners.append(_Owner(number, place, known[text], asked))
    return rows, owners


def _apart(row: Row, passage: Units, question: Units, limit: int) -> Iterator[Row]:
    asked = question.ids[: most_asked(limit)]
    for begin, end in row.windows:
        yield Row([BOS, *asked, EOS, *passage.ids[begin:end]], [(begin, end)])


def _span(owner: _Owner, row: Row, value: float, places: tuple[int, int], mass: Sequence[float],
          none: Sequence[float]) -> _Span:
    begin, end = row.windows[0]
    if value == float("-inf"):  # a window of nothing
        return _Span(value, owner.passage, 0, 0, mass, none)
    extents, moved = owner.units.extents, begin - (len(row.ids) - (end - begin))
    return _Span(value, owner.passage, extents[places[0] + moved][0], extents[places[1] + moved][1], mass, none)


def _none(found: Sequence[_Span]) -> NDArray[np.float64]:
    """The scores of "no answer" to a question, of start and end, by all its windows."""
    mean: NDArray[np.float64] = np.mean([span.none for span in found], axis=0)
    return mean


def _mass(found: Sequence[_Span]) -> float:
    """log Σ exp over all places of a question, of starts and of ends, added."""
    return float(sum(np.logaddexp.reduce([none, *(span.mass[side] for span in found)])
                     for side, none in enumerate(_none(found))))


def _choose(found: Sequence[_Span], passages: Sequence[str]) -> Found:
    """The best span of all windows, or no answer, where that is more probable."""
    if not found:
        return Found("", 1.0, None, 0, 0)
    none, mass = _none(found).sum(), _mass(found)
    best = max(found, key=lambda span: span.score)
    text = passages[best.passage][best.start : best.end]
    start, end = best.start + len(text) - len(text.lstrip()), best.end - len(text) + len(text.rstrip())
    if none >= best.score or start >= end:
        return Found("", float(np.exp(none - mass)), None, 0, 0)
    start, end = uncut(passages[best.passage], start, end)
    return Found(passages[best.passage][start:end], float(np.exp(best.score - mass)), best.passage, start, end)
