"""pellucid search IDX ["…"]"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pellucid.cli.arguments import parse
from pellucid.cli.fields import Positional
from pellucid.cli.passages import marked_lines, plain
from pellucid.errors import ConfigError

if TYPE_CHECKING:
    from pellucid.retrieve.retriever import Found


@dataclass
class Search:
    """The passages of an index that fit a question best, each with its document, its place there and its score.

    Fits best by BM25: it holds the rarest words of the question, often, and little else. Nothing is understood: a
    passage that says the same in other words is not found. For example: pellucid search idx "who built the bridge?"
    """

    index: Positional[str]
    """the folder of the index, or qdrant://HOST:PORT/COLLECTION"""
    question: Positional[str] = "-"
    """what is looked for; one a line of standard input if left out"""
    k: int = 5
    """the most passages that are shown"""
    json: bool = False
    """print a line of JSON for each question"""


def main(program: str, words: Sequence[str]) -> int:
    """Answers the question, or each line of standard input."""
    arguments = parse(Search, program, words)
    from pellucid.cli.lines import answer_lines, checked
    from pellucid.retrieve.index import open_index

    opened = open_index(arguments.index)

    def answers(question: str) -> Iterator[str]:
        found = opened.search(question, arguments.k)
        return iter([_json(question, found)]) if arguments.json else listed(question, found)

    def of_lines(questions: Sequence[str], first: int) -> Iterator[str]:
        for number, question in enumerate(questions, start=first + 1):
            try:
                found = answers(question)
            except ConfigError as error:
                error.where = error.where or f"standard input:{number}"
                raise
            if not arguments.json:
                yield from [""] * (number > 1) + [plain(question)[:200]]
            yield from found

    if arguments.question == "-":
        answer_lines(None, None, of_lines)
    else:
        print("\n".join(answers(checked(arguments.question, "the question"))))
    return 0


def _json(question: str, found: Sequence["Found"]) -> str:
    return json.dumps({"question": question, "passages": [one.to_mapping(question) for one in found]},
                      ensure_ascii=False)


def listed(question: str, found: Sequence["Found"]) -> Iterator[str]:
    """For people: a head for each passage, and below it the text with what matched marked."""
    from pellucid.retrieve.terms import marks

    if not found:
        yield "no passage has a word or character of the question"
    for number, one in enumerate(found, start=1):
        passage = one.passage
        title = f"  {plain(passage.title)}" * bool(passage.title)
        yield f"{number}. {plain(passage.document)}[{passage.start}:{passage.end}]{title}  score {one.score:.2f}"
        yield from marked_lines(passage.text, marks(question, passage.text))
