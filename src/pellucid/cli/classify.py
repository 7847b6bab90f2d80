"""pellucid classify RUN"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import tyro

from pellucid.cli.arguments import parse


@dataclass
class Classify:
    """Text to label: for each line its label and the label's probability, with a tab between."""

    run: tyro.conf.Positional[Path]
    """a run folder"""
    input: Path | None = None
    """a text file; standard input if left out"""
    output: Path | None = None
    """where to write; standard output if left out"""
    json: bool = False
    """one JSON object a line: label, probabilities"""


def main(program: str, words: Sequence[str]) -> int:
    """Classifies block by block."""
    arguments = parse(Classify, program, words)
    from pellucid.cli.lines import blocks_of_lines, line_writer, other_than
    from pellucid.runs.run import load

    other_than(arguments.output, arguments.input)
    run = load(arguments.run)
    with line_writer(arguments.output) as write:
        number = 0
        for block in blocks_of_lines(arguments.input):
            for text, one in zip(block, run.classify(block, number), strict=True):
                number += 1
                if arguments.json:
                    write(json.dumps(asdict(one), ensure_ascii=False))
                else:
                    write(f"{one.label}\t{one.probabilities[one.label]:.4f}" if text.strip() else "")
    return 0
