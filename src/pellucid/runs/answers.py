"""Questions answered from an index: the passages that fit best are found, and a reader says where in them it stands."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from pellucid.data.reading import UnitReader, most_asked
from pellucid.retrieve.retriever import Found as Passed
from pellucid.retrieve.retriever import Retriever
from pellucid.runs.reading import Found, read
from pellucid.runs.run import Run
from pellucid.runs.texts import checked_texts, warn_of_cuts


@dataclass(frozen=True)
class Answer:
    """What a question is answered with, and the passages that were read for it, the best first; `cut` tokens of it were
    left out, because the model takes no longer ones."""

    question: str
    found: Found
    passages: tuple[Passed, ...]
    cut: int

    @property
    def place(self) -> tuple[str, int, int] | None:
        """The document and the characters in it that are the answer, [start, end); None where there is none."""
        if self.found.passage is None:
            return None
        passage = self.passages[self.found.passage].passage
        return passage.document, passage.start + self.found.start, passage.start + self.found.end

    def to_mapping(self) -> dict[str, Any]:
        """As plain data: answer, score, document, start, end, and the passages; cut, if something is."""
        document, start, end = self.place or (None, None, None)
        passages = [one.to_mapping(self.question) for one in self.passages]
        return {"question": self.question, "answer": self.found.text, "score": self.found.score, "document": document,
                "start": start, "end": end, "passages": passages} | ({"cut": self.cut} if self.cut else {})


def answers(run: Run, index: Retriever, questions: Sequence[str], k: int, first: int = 0) -> list[Answer]:
    """Answers each question from the `k` passages that fit it best; a blank one, and one of which no passage has a
    term, with none. What is longer than the model takes is cut, with a warning; `first` is the number of the first
    one there.

    Raises:
        ConfigError: the run is no reader; what `Retriever.search` says of k and of a question that is too long.
        TypeError: no list of texts.
        DataError: half a surrogate pair in one.
    """
    questions = checked_texts(questions, "question")
    found = answers_in(run, questions, passages_for(index, questions, k))
    limit = most_asked(run.config.model.max_length)
    warn_of_cuts({number: limit + one.cut for number, one in enumerate(found, start=first)}, limit, line="question",
                 which="half of model.max_length")
    return found


def passages_for(index: Retriever, questions: Sequence[str], k: int) -> list[tuple[Passed, ...]]:
    """Of each question the `k` passages that fit it best; of a blank one none."""
    return [tuple(index.search(question, k)) if question.strip() else () for question in questions]


def answers_in(run: Run, questions: Sequence[str], passages: Sequence[tuple[Passed, ...]]) -> list[Answer]:
    """Answers each question from passages that were found for it, the best first.

    Of passages with the same text the best is read: copies would take from what the reader is sure of. What a passage
    has less of BM25 than the best one is taken from the scores of the starts in it. BM25 is a sum of log odds
    (Robertson and Zaragoza 2009), and a reader alone is led astray by what stands in other passages.
    """
    places = [_distinct(of_one) for of_one in passages]
    chosen = [[of_one[i] for i in own] for own, of_one in zip(places, passages, strict=True)]
    texts = [[one.passage.text for one in of_one] for of_one in chosen]
    spans = read(run, questions, texts, priors=[[one.score - of_one[0].score for one in of_one] for of_one in chosen])
    found = [span if span.passage is None else replace(span, passage=own[span.passage])
             for span, own in zip(spans, places, strict=True)]
    reader, limit = UnitReader(run.tokenizers), most_asked(run.config.model.max_length)
    cuts = [max(0, len(reader.read(question).ids) - limit) for question in questions]
    return [Answer(*each) for each in zip(questions, found, passages, cuts, strict=True)]


def _distinct(passages: Sequence[Passed]) -> list[int]:
    """The places of those whose text none before them has."""
    first: dict[str, int] = {}
    for place, one in enumerate(passages):
        first.setdefault(one.passage.text, place)
    return list(first.values())
