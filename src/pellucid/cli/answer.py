"""pellucid answer RUN --index IDX ["…"]"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

from pellucid.cli.arguments import parse
from pellucid.cli.fields import Positional
from pellucid.cli.passages import plain

_AT_ONCE = 64  # questions whose passages are held together


@dataclass
class Answer:
    """Answers from your documents: a run of task reading finds, in the passages that fit best, what answers a question.

    An answer is always a piece of a document, and stands with its place there and a tab between; where the passages do
    not tell, the line says so. The score is a probability by the model, which may be wrong.
    For example: pellucid answer runs/reading-zh --index idx "桥是谁建的？"
    """

    run: Positional[Path]
    """a run folder"""
    index: str
    """the folder of the index, or qdrant://HOST:PORT/COLLECTION"""
    question: Positional[str] = "-"
    """what is asked; one a line of standard input if left out"""
    k: int = 5
    """the most passages that are read"""
    json: bool = False
    """one JSON object a line: question, answer, score, document, start, end, passages; cut, if so many tokens of the
    question had to be left out"""


def main(program: str, words: Sequence[str]) -> int:
    """Answers the question, or each line of standard input."""
    arguments = parse(Answer, program, words)
    from pellucid.cli.lines import answer_lines, checked
    from pellucid.retrieve.index import open_index
    from pellucid.retrieve.retriever import LONGEST_QUESTION, check_question
    from pellucid.runs.answers import answers
    from pellucid.runs.run import load

    check_question(checked(arguments.question, "the question"), arguments.k)
    run, index = load(arguments.run), open_index(arguments.index)

    def of_lines(questions: Sequence[str], first: int) -> Iterator[str]:
        asked = list(takewhile(lambda one: len(one) <= LONGEST_QUESTION or not one.strip(), questions))
        for begin in range(0, len(asked), _AT_ONCE):
            for one in answers(run, index, asked[begin : begin + _AT_ONCE], arguments.k, first + begin):
                if arguments.json:
                    yield json.dumps(one.to_mapping(), ensure_ascii=False)
                elif one.place is None:
                    yield "no answer in the passages" if one.question.strip() else ""
                else:
                    document, start, end = one.place
                    yield f"{plain(one.found.text)}\t{plain(document)}[{start}:{end}]\t{one.found.score:.4f}"
        if len(asked) < len(questions):  # the next one is refused, once those before it are answered
            check_question(questions[len(asked)], arguments.k, f"standard input:{first + len(asked) + 1}")

    if arguments.question == "-":
        answer_lines(None, None, of_lines)
    else:
        print("\n".join(of_lines([arguments.question], 0)))
    return 0
