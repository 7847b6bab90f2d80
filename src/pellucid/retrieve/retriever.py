"""What every index can do, wherever it lies: give the passages that fit a question best."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from pellucid.errors import ConfigError
from pellucid.retrieve.passages import Passage
from pellucid.retrieve.terms import marks

LONGEST_QUESTION = 10_000  # characters
MOST = 1_000  # passages that can be asked for


@dataclass(frozen=True)
class Found:
    """A passage that holds terms of the question, and its BM25 score: the higher, the better it fits."""

    passage: Passage
    score: float

    def to_mapping(self, question: str) -> dict[str, Any]:
        """As plain data: the document, its title, start and end in it, score, text, and which pieces of the document
        [start, end) matched the question."""
        one = self.passage
        return {"document": one.document, "title": one.title, "start": one.start, "end": one.end, "score": self.score,
                "text": one.text, "matched": [[one.start + start, one.start + end]
                                              for start, end in marks(question, one.text)]}


class Retriever(Protocol):
    """An index that is open."""

    def search(self, question: str, k: int = 5) -> list[Found]:
        """The `k` passages of the highest score, the best first; fewer where fewer hold a term of the question.

        Raises:
            ConfigError: a blank question, one of more than LONGEST_QUESTION characters, k out of range.
        """
        ...


def check_question(question: str, k: int, where: str = "") -> None:
    """Raises what `Retriever.search` says; `where` is the question's place."""
    if not 1 <= k <= MOST:
        raise ConfigError(f"{k:,} passages cannot be asked for", where="--k", fix=f"ask for 1 to {MOST:,}")
    if not question.strip():
        raise ConfigError("the question is empty", where=where, fix="ask with at least one word or character")
    if len(question) > LONGEST_QUESTION:
        raise ConfigError(f"the question has {len(question):,} characters", where=where,
                          why=f"at most {LONGEST_QUESTION:,} are looked for", fix="ask with fewer words")
