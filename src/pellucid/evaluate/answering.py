"""Readers: answers from each question's own passage (closed), and from the best passages of an index (open).

Beside both stands a floor that no model is needed for: the sentence that shares most terms with the question, of the
question's own passage or of the best one found. A passage of an index is the question's own where the same characters
stand at the same place of both texts.
"""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np

from pellucid.data.reading import Question, question_of
from pellucid.errors import ConfigError
from pellucid.evaluate.reading import Definition, definition_of, reading_statistics
from pellucid.evaluate.significance import (
    SentenceStatistics,
    as_report,
    difference_interval,
    mean_percentage,
    of_sentences,
    paired_bootstrap,
    share_interval,
    with_sources,
)
from pellucid.retrieve.index import open_index
from pellucid.retrieve.passages import Passage, parts_of
from pellucid.retrieve.retriever import MOST, Retriever
from pellucid.retrieve.terms import distinct_terms, terms_of
from pellucid.runs.answers import Answer, answers_in, passages_for
from pellucid.runs.reading import read
from pellucid.runs.run import Run

RECALLS = (1, 5, 20)
GRADED = ("em", "f1", "sentence_right")
CLOSED, OPEN, FLOOR, OPEN_FLOOR = "", "open_", "floor_", "open_floor_"  # what the names of scores begin with
_BESIDE = ((CLOSED, FLOOR), (OPEN, OPEN_FLOOR), (OPEN, CLOSED))
_AT_ONCE = 256  # questions whose passages are held together

Report = dict[str, Any]
Statistics = dict[str, SentenceStatistics]


@dataclass(frozen=True)
class Opened:
    """An index that is open, and how many of its passages are read for a question."""

    place: str
    index: Retriever
    k: int

    @classmethod
    def at(cls, place: str, k: int) -> "Opened":
        """The index at `place`.

        Raises:
            ConfigError: `k` is out of range; there is no index.
            DataError: it is damaged.
        """
        if not 1 <= k <= MOST:
            raise ConfigError(f"{k:,} passages cannot be read", where="--k", fix=f"give 1 to {MOST:,}")
        return cls(place, open_index(place), k)


class Given(NamedTuple):
    """An answer, and where in the question's own passage it begins; None where it stands elsewhere or is none."""

    text: str
    start: int | None


@dataclass(frozen=True)
class Asked:
    """The questions, the passages that they were written about, and by which definition answers are right."""

    questions: list[Question]
    passages: list[str]
    definition: Definition

    @property
    def texts(self) -> list[str]:
        """The questions as they are asked."""
        return [one.text for one in self.questions]

    def grade(self, given: Sequence[Given], prefix: str) -> Statistics:
        """`GRADED` of the answers, their names begun with `prefix`."""
        references = [[answer.text for answer in one.answers] for one in self.questions]
        found = reading_statistics([one.text for one in given], references, self.definition, self.passages)
        found |= self.shares("sentence_right", [right_sentence(one, question, passage) for one, question, passage
                                                in zip(given, self.questions, self.passages, strict=True)])
        return {prefix + name: replace(metric, name=prefix + name) for name, metric in found.items()}

    def shares(self, name: str, hits: Sequence[bool]) -> Statistics:
        """The percentage of hits among the questions whose answer lies somewhere; nothing where there are none."""
        lies = np.array([any(answer.start >= 0 for answer in one.answers) for one in self.questions])
        if not lies.any():
            return {}
        rows = np.stack([np.array(hits, dtype=np.float64), np.ones(len(hits))], axis=1)
        metric = with_sources(SentenceStatistics(name, rows, mean_percentage, share_interval), self.passages)
        return {name: of_sentences(metric, lies)}


def right_sentence(given: Given, question: Question, passage: str) -> bool:
    """Whether the answer begins in a sentence (or line) of the passage in which one that is right begins."""
    if given.start is None:
        return False
    ends = list(accumulate(map(len, parts_of(passage))))
    right = {bisect_right(ends, answer.start) for answer in question.answers if answer.start >= 0}
    return bisect_right(ends, given.start) in right


def best_sentence(question: str, passage: str) -> Given:
    """The sentence of a passage that shares most terms with the question, the first of several; each term counts
    once."""
    parts = list(parts_of(passage))
    if not parts:
        return Given("", None)
    terms, places = terms_of(parts)
    shared = np.isin(terms, distinct_terms(question))
    pairs = np.unique(np.stack([places[shared], terms[shared].astype(np.int64)]), axis=1)
    best = int(np.bincount(pairs[0], minlength=len(parts)).argmax())
    return Given(parts[best].strip(), sum(map(len, parts[:best])))


def score_reader(run: Run, pairs: list[tuple[str, str]], opened: Opened | None,
                 say: Callable[[str], None]) -> tuple[list[str], Report, Statistics]:
    """The answers that a reader finds in the questions' own passages, its scores with intervals, and what they come
    from; with an index also what it finds there, the floors, and how often the own passage is among the first."""
    passages, questions = [a for a, _ in pairs], [question_of(b) for _, b in pairs]
    definition = definition_of(run.config.data.source_language,
                               [answer.text for question in questions for answer in question.answers])
    asked = Asked(questions, passages, definition)
    found = read(run, asked.texts, [[passage] for passage in passages], lambda done: say(f"{done:,} windows read"))
    closed = [Given(one.text, None if one.passage is None else one.start) for one in found]
    statistics, extra = asked.grade(closed, CLOSED), Report()
    if opened is not None:
        statistics |= asked.grade([best_sentence(one.text, passage) for one, passage
                                   in zip(questions, passages, strict=True)], FLOOR)
        of_index, extra = _from_index(run, asked, opened, say)
        statistics |= of_index
        extra["beside"] = [row for a, b in _BESIDE for row in _differences(statistics, a, b)]
    report = as_report(statistics)
    report["answered"] = sum(one.passage is not None for one in found)
    report["signature"] = f"definition:{definition}"
    of_open = "" if opened is None else f"{report['signature']}|k:{opened.k}"
    report["signatures"] = {name: of_open if name.startswith(OPEN) else report["signature"]
                            for name in statistics if name.endswith(("em", "f1"))}
    return [one.text for one in closed], report | extra, statistics


def _from_index(run: Run, asked: Asked, opened: Opened, say: Callable[[str], None]) -> tuple[Statistics, Report]:
    """The open scores, and what is told beside them."""
    texts, given, floor, ranks = asked.texts, list[Answer](), list[Given](), list[int | None]()
    for begin in range(0, len(texts), _AT_ONCE):
        some = slice(begin, begin + _AT_ONCE)
        found = passages_for(opened.index, texts[some], max(opened.k, *RECALLS))
        given += answers_in(run, texts[some], [of_one[: opened.k] for of_one in found])
        for text, own, of_one in zip(texts[some], asked.passages[some], found, strict=True):
            ranks.append(next((i for i, one in enumerate(of_one) if _is_of(one.passage, own)), None))
            best = best_sentence(text, of_one[0].passage.text) if of_one else Given("", None)
            floor.append(_placed(best.text, best.start, of_one[0].passage if of_one else None, own))
        say(f"{len(given):,} of {len(texts):,} questions asked of {opened.place}")
    answers = [_placed(one.found.text, one.found.start, None if one.found.passage is None else
                       one.passages[one.found.passage].passage, own)
               for one, own in zip(given, asked.passages, strict=True)]
    statistics = asked.grade(answers, OPEN) | asked.grade(floor, OPEN_FLOOR)
    for k in RECALLS:
        statistics |= asked.shares(f"recall_at_{k}", [rank is not None and rank < k for rank in ranks])
    extra: Report = {"index": opened.place, "k": opened.k, "note": "",
                     "open_answered": sum(one.place is not None for one in given)}
    if all(rank is None for rank in ranks):
        unknown = [name for name in statistics if name.endswith("sentence_right") or "recall" in name]
        extra["note"] = ("recall and sentences are unknown: no passage of these questions was found in the index, its "
                         "documents seem to be others; index the file of the questions: pellucid index FILE --out IDX")
        extra |= dict.fromkeys(unknown)
        statistics = {name: metric for name, metric in statistics.items() if name not in unknown}
    return statistics, extra


def _is_of(passage: Passage, text: str) -> bool:
    return text[passage.start : passage.end] == passage.text


def _placed(answer: str, start: int | None, passage: Passage | None, own: str) -> Given:
    """An answer at a place of a passage, as one of the question's own passage, if that is it."""
    if start is None or passage is None or not _is_of(passage, own):
        return Given(answer, None)
    return Given(answer, passage.start + start)


def _differences(statistics: Statistics, a: str, b: str) -> list[Report]:
    """The scores of `a` less those of `b`, with their intervals and the paired bootstrap's p, over passages."""
    rows = []
    for score in (score for score in GRADED if {a + score, b + score} <= statistics.keys()):
        both = [replace(statistics[prefix + score], name=score) for prefix in (a, b)]
        names = [(prefix.replace("_", " ") or "closed").strip() for prefix in (a, b)]
        compared = paired_bootstrap(both[0], both[1], (names[0], names[1]))
        rows.append(vars(compared) | {"interval": list(difference_interval(both[0], both[1]))})
    return rows
