"""Questions on passages in SQuAD's JSON layout (Rajpurkar et al. 2016, 2018), which CMRC 2018 and DRCD have too.

.. code-block:: text

    {"data": [{"paragraphs": [{"context", "qas": [{"id", "question", "answers": [{"text", "answer_start"}]}]}]}]}
"""

import json
from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import itemgetter
from typing import Any

from pellucid.data.reading import Question, Reference, question_of
from pellucid.data.tables import Record
from pellucid.data.text_lines import whole_text
from pellucid.errors import DataError


def read_squad(path: str) -> Iterator[Record]:
    """Each question with its number, from 1, its passage, and itself as `Question.as_json` has it.

    Raises:
        DataError: what `whole_text` says; no JSON; another layout, by the number of the question.
    """
    text = whole_text(path)
    try:
        whole = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DataError("the file is no JSON", where=path, why=str(error)) from error
    number = 0
    for article in _list(whole, "data", f"{path}"):
        for paragraph in _list(article, "paragraphs", f"{path}, behind question {number}"):
            context = _text(paragraph, "context", f"{path}, behind question {number}")
            for asked in _list(paragraph, "qas", f"{path}, behind question {number}"):
                number += 1
                yield number, context, _question(asked, context, number, f"{path}, question {number}").as_json()


def squad_of(pairs: Iterable[tuple[str, str]]) -> str:
    """The content of a file from which `read_squad` reads these pairs of passages and questions."""
    paragraphs = [{"context": context, "qas": [_as_asked(question_of(line)) for _, line in group]}
                  for context, group in groupby(pairs, key=itemgetter(0))]
    return json.dumps({"data": [{"paragraphs": paragraphs}]}, ensure_ascii=False, indent=1)


def _as_asked(question: Question) -> dict[str, Any]:
    answers = [{"text": answer.text, "answer_start": answer.start} for answer in question.answers]
    return {"id": question.name, "question": question.text, "answers": answers}


def _question(asked: Any, context: str, number: int, where: str) -> Question:
    text = _text(asked, "question", where)
    name = str(asked.get("id", number))
    is_impossible = asked.get("is_impossible", False) is True
    answers = [] if is_impossible else _list(asked, "answers", where)
    return Question(name, text, tuple(_reference(answer, context, where) for answer in answers))


def _reference(answer: Any, context: str, where: str) -> Reference:
    """An answer where it is said to stand, or else where its text stands nearest to there."""
    text, start = _text(answer, "text", where).strip(), answer.get("answer_start", -1)
    if not isinstance(start, int) or isinstance(start, bool):
        raise DataError("answer_start is no number", where=where)
    if not text or context[max(start, 0) :].startswith(text):
        return Reference(text, max(start, 0) if text else -1)
    places, place = list[int](), context.find(text)
    while place >= 0 and len(places) < 1000:
        places.append(place)
        place = context.find(text, place + 1)
    return Reference(text, min(places, key=lambda place: abs(place - start), default=-1))


def _list(value: Any, key: str, where: str) -> list[Any]:
    found = value.get(key) if isinstance(value, dict) else None
    if not isinstance(found, list):
        raise _other(f"there is no list {key!r}", where)
    return found


def _text(value: Any, key: str, where: str) -> str:
    found = value.get(key) if isinstance(value, dict) else None
    if not isinstance(found, str):
        raise _other(f"there is no text {key!r}", where)
    return found.encode("utf-8", "replace").decode("utf-8")  # half of a surrogate pair is no text


def _other(what: str, where: str) -> DataError:
    return DataError("this is not the layout of SQuAD", where=where, why=what,
                     fix='{"data": [{"paragraphs": [{"context", "qas": [{"id", "question", "answers": [{"text", '
                         '"answer_start"}]}]}]}]}')
