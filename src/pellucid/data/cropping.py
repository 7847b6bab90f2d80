"""A window of a passage that holds the answer and one that does not, drawn anew in each epoch.

A reader learns from a question and two pieces of text. In one, of its own passage, stands the answer, at any place of
the piece; the other is without it: every other time of the same passage, else of another that fits the question, as
those do that a search brings (rivals.py). One softmax is over the places of both (shared normalisation: Clark and
Gardner 2018): without the second the scores of a window would say where in it an answer is most likely, but not whether
another window has a better one. Of long passages this is a part of the tokens that all windows have: as much sooner an
epoch is over, and no answer stands at one place in all of them. Passages that fit into a window are left as they are.
"""

from collections.abc import Callable, Sequence
from random import Random
from typing import NamedTuple

from pellucid.data.reading import pack_span, span_of, step_of
from pellucid.data.rivals import Rivals
from pellucid.data.tokenizers.interface import BOS, EOS

Rows = list[list[int]]


def cropping(limit: int) -> Callable[[Rows, Rows, Random], tuple[Rows, Rows]]:
    """Rows as data/reading.py has them, with windows of `limit` ids, each with its span → the same questions, each with
    at most two windows."""

    def draw(sources: Rows, targets: Rows, random: Random) -> tuple[Rows, Rows]:
        rows = [_apart(ids, span, limit) for ids, (span,) in zip(sources, targets, strict=True)]
        if all(row.fits(limit) for row in rows):
            return sources, targets
        rivals = Rivals([row.passage for row in rows])
        drawn = [(ids, span) if row.fits(limit) else _cropped(row, rivals, limit, random)
                 for row, ids, (span,) in zip(rows, sources, targets, strict=True)]
        return [ids for ids, _ in drawn], [[span] for _, span in drawn]

    return draw


class _Row(NamedTuple):
    """A row taken apart: the tokens of the question and of the passage, and the first and the last of the latter that
    are the answer, if there is one."""

    question: list[int]
    passage: list[int]
    answer: tuple[int, int] | None

    def fits(self, limit: int) -> bool:
        """Whether one window has the whole passage."""
        return len(self.question) + 2 + len(self.passage) <= limit


def _apart(ids: list[int], span: int, limit: int) -> _Row:
    separators = [place for place, token in enumerate(ids) if token == EOS]
    step = step_of(limit - separators[0] - 1)
    passage = [token for place in separators[:-1] for token in ids[place + 1 : place + 1 + step]]
    passage += ids[separators[-1] + 1 :]
    first, last = span_of(span)
    if last == 0:
        return _Row(ids[1 : separators[0]], passage, None)
    window = max(number for number, place in enumerate(separators) if place < first)
    moved = window * step - separators[window] - 1
    return _Row(ids[1 : separators[0]], passage, (first + moved, last + moved))


def _cropped(row: _Row, rivals: Rivals, limit: int, random: Random) -> tuple[list[int], int]:
    begin = len(row.question) + 2
    room = limit - begin
    begins = range(len(row.passage) - room + 1)  # where a full window may begin
    own, others, span = random.choice(begins), list(begins), pack_span(0, 0)  # every window is without an answer
    if row.answer is not None:
        first, last = row.answer
        own = random.choice([at for at in begins if at <= first and last < at + room])
        others = [at for at in begins if last < at or at + room <= first]
        span = pack_span(begin + first - own, begin + last - own)
    beside: Sequence[int] = row.passage
    if found := rivals.of(row.question, row.passage) if not others or random.random() < 0.5 else []:
        beside = random.choice(found)
        others = list(range(max(1, len(beside) - room + 1)))
    ids = [BOS, *row.question, EOS, *row.passage[own : own + room]]
    return ids + ([EOS, *beside[(at := random.choice(others)) : at + room]] if others else []), span
