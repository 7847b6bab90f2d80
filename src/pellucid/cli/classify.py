"""pellucid classify RUN"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pellucid.cli.arguments import parse
from pellucid.cli.fields import Positional


@dataclass
class Classify:
    """Text to label: for each line its label and the label's probability, with a tab between."""

    run: Positional[Path]
    """a run folder"""
    input: Path | None = None
    """a text file; standard input if left out"""
    output: Path | None = None
    """where to write; standard output if left out"""
    json: bool = False
    """one JSON object a line: line, text, label, probabilities; cut and unknown, if tokens of the line had to be left
    out, or the model does not know parts of it"""


def main(program: str, words: Sequence[str]) -> int:
    """Classifies block by block."""
    arguments = parse(Classify, program, words)
    from pellucid.cli.lines import STANDARD_INPUT, answer_lines, other_than
    from pellucid.cli.passages import plain
    from pellucid.cli.remarks import marks, remarks
    from pellucid.runs.run import load

    other_than(arguments.output, arguments.input or STANDARD_INPUT)
    run = load(arguments.run)
    run.must_be("classification", "classify")

    def answers(block: list[str], first: int) -> Iterator[str]:
        found = run.classify(block, first)
        told.note(first, found)
        for number, (text, one) in enumerate(zip(block, found, strict=True), start=first + 1):
            if arguments.json:
                yield json.dumps({"line": number, "text": text, "label": one.label,
                                  "probabilities": one.probabilities, **marks(one)}, ensure_ascii=False)
            else:
                yield f"{plain(one.label)}\t{one.probabilities[one.label]:.4f}" if text.strip() else ""

    with remarks(run.config.model.max_length) as told:
        answer_lines(arguments.input, arguments.output, answers)
    return 0
