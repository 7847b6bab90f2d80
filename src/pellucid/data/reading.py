"""A question and a passage as one row of ids, whose places lead back to the characters of the passage.

.. code-block:: text

    bos question eos window eos window …

A passage that is longer than the encoder takes lies in windows that overlap; all of them stand in one row, so that one
softmax is over all places of a question (shared normalisation: Clark and Gardner 2018). Text is cut into units that
keep their extents, and each unit is tokenized on its own: so whatever a tokenizer does to text (NFKC, lower case), an
answer is a substring of the passage as it was given.
"""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from pellucid.config import RunConfig
from pellucid.data.tokenizers.build import Tokenizers
from pellucid.data.tokenizers.interface import BOS, EOS

if TYPE_CHECKING:
    from torch import Tensor

MOST_WINDOWS = 16  # of a question that is learned from
_LENGTH_BITS = 15  # of a span's number that say its length
_WORD = r"[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]|[^\W_\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]+|\S"


Number = TypeVar("Number", int, "Tensor")


class Reference(NamedTuple):
    """An answer that is right: its text, and the character of the passage where it begins; -1 if it lies nowhere."""

    text: str
    start: int


@dataclass(frozen=True)
class Question:
    """What is asked of a passage, and all answers that are right; none where the passage does not tell."""

    name: str
    text: str
    answers: tuple[Reference, ...]

    def as_json(self) -> str:
        """One line, which `question_of` reads."""
        return json.dumps([self.name, self.text, self.answers], ensure_ascii=False)


def question_of(line: str) -> Question:
    """What `Question.as_json` wrote."""
    name, text, answers = json.loads(line)
    return Question(name, text, tuple(Reference(*answer) for answer in answers))


class Units(NamedTuple):
    """A text as ids.

    Attributes:
        ids: of its tokens.
        extents: of each token the characters of the text, [start, end), that it was made of.
    """

    ids: list[int]
    extents: list[tuple[int, int]]


class UnitReader:
    """Texts → units: single characters for a tokenizer of these, else words, marks and Han characters.

    Each unit is tokenized once, and kept.
    """

    def __init__(self, tokenizers: Tokenizers) -> None:
        self._tokenizer, self._is_character = tokenizers.source, tokenizers.config.kind == "character"
        self._known: dict[str, list[int]] = {}

    def read(self, text: str) -> Units:
        """The units of a text."""
        extents = extents_of(text, self._is_character)
        parts = [text[start:end] for start, end in extents]
        new = [part for part in dict.fromkeys(parts) if part not in self._known]
        self._known |= zip(new, self._tokenizer.encode_batch(new), strict=True) if new else ()
        rows = [self._known[part] for part in parts]
        return Units([i for row in rows for i in row],
                     [extent for extent, row in zip(extents, rows, strict=True) for _ in row])


def extents_of(text: str, is_character: bool) -> list[tuple[int, int]]:
    """Where each unit of a text begins and ends."""
    if is_character:
        return [(i, i + 1) for i in range(len(text))]
    return [match.span() for match in re.finditer(_WORD, text)]


def words_of(text: str, is_character: bool) -> str:
    """A text as the tokenizer is to learn from it: with spaces where it is cut, unless it is cut everywhere."""
    return text if is_character else " ".join(match[0] for match in re.finditer(_WORD, text))


@dataclass(frozen=True)
class Texts:
    """The texts that a tokenizer learns from, of pairs of passages and questions: a passage once for all its questions
    that follow one another. It can be iterated again and again."""

    pairs: Iterable[tuple[str, str]]
    is_character: bool

    def __iter__(self) -> Iterator[tuple[str, str]]:
        before = ""
        for passage, line in self.pairs:
            new = "" if passage == before else words_of(passage, self.is_character)
            yield new, words_of(question_of(line).text, self.is_character)
            before = passage


def texts_of(pairs: Iterable[tuple[str, str]], config: RunConfig) -> Iterable[tuple[str, str]]:
    """What the tokenizer of a run learns from, of its pairs."""
    return Texts(pairs, config.tokenizer.kind == "character") if config.task == "reading" else pairs


class Row(NamedTuple):
    """A question and windows of a passage.

    Attributes:
        ids: as they stand in the module's docstring.
        windows: of each window the tokens of the passage, [begin, end).
    """

    ids: list[int]
    windows: list[tuple[int, int]]


def windows_of(question: int, passage: int, limit: int) -> list[tuple[int, int]]:
    """Of a passage of so many tokens the windows, [begin, end), that stand with a question of so many in `limit` ids;
    each begins three quarters of a window behind the one before."""
    room = limit - question - 2
    step = step_of(room)
    begins = range(0, max(1, passage - room + step), step)
    return [(begin, min(begin + room, passage)) for begin in begins]


def step_of(room: int) -> int:
    """How far behind a window of so many tokens the next begins."""
    return max(1, 3 * room // 4)


def most_asked(limit: int) -> int:
    """How many tokens of a question are kept where a window and it have `limit` ids."""
    return limit // 2 - 1


def row_of(question: Units, passage: Units, limit: int) -> Row:
    """A question, of which `most_asked` are kept, and all windows of its passage."""
    asked = question.ids[: most_asked(limit)]
    windows = windows_of(len(asked), len(passage.ids), limit)
    ids = [BOS, *asked]
    for begin, end in windows:
        ids += [EOS, *passage.ids[begin:end]]
    return Row(ids, windows)


def span_in(row: Row, passage: Units, answer: Reference) -> tuple[int, int] | None:
    """The first and the last place in the row of the tokens that an answer is made of, in the window that shows most
    of what stands around it; None where no window has the whole of it."""
    start, end = answer.start, answer.start + len(answer.text)
    tokens = [i for i, (a, b) in enumerate(passage.extents) if a < end and b > start] if answer.start >= 0 else []
    if not tokens:
        return None
    first, last, place, found = tokens[0], tokens[-1], len(row.ids), list[tuple[int, int, int]]()
    for begin, behind in reversed(row.windows):
        place -= behind - begin
        if begin <= first and last < behind:
            found.append((min(first - begin, behind - 1 - last), place + first - begin, place + last - begin))
        place -= 1  # the eos before it
    return max(found)[1:] if found else None


def place_alone(row: Row, place: int) -> tuple[int, int]:
    """The number of the window that a place lies in, and its place where that window alone follows the question."""
    begin = alone = len(row.ids) - sum(end - begin for begin, end in row.windows) - len(row.windows) + 1
    for number, (first, behind) in enumerate(row.windows):
        if place < begin + behind - first:
            return number, alone + place - begin
        begin += behind - first + 1
    raise ValueError(f"place {place} lies in no window")


def pack_span(first: int, last: int) -> int:
    """A span as one number, as a label is one: so that a question is one target."""
    assert 0 <= last - first < 2**_LENGTH_BITS
    return first << _LENGTH_BITS | (last - first)


def span_of(number: Number) -> tuple[Number, Number]:
    """The first and the last place of the span that `pack_span` packed; of a tensor of numbers, two tensors."""
    first = number >> _LENGTH_BITS
    return first, first + (number & (2**_LENGTH_BITS - 1))


def example(passage: Units, question: Units, asked: Question, limit: int) -> tuple[Row, int | None]:
    """The row of a question and the number of the span that answers it: of "no answer" (0, 0), of nothing None, where
    what is right lies nowhere in a window, or the passage is too long to be learned from."""
    row = row_of(question, passage, limit)
    if len(row.windows) > MOST_WINDOWS or len(row.ids) >= 2**(31 - _LENGTH_BITS):
        return row, None
    if not asked.answers:
        return row, pack_span(0, 0)
    span = span_in(row, passage, asked.answers[0])
    return row, None if span is None or span[1] - span[0] >= 2**_LENGTH_BITS else pack_span(*span)
