"""pellucid score RUN --source F --target F"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import tyro

from pellucid.cli.arguments import parse


@dataclass
class Score:
    """How probable given targets are: for each line the log-probability in nats and its mean over tokens (eos
    included), with a tab between."""

    run: tyro.conf.Positional[Path]
    """a run folder"""
    source: Path
    """a text file"""
    target: Path
    """a text file with as many lines"""
    output: Path | None = None
    """where to write; standard output if left out"""
    json: bool = False
    """one JSON object a line, with every token's log-probability"""


def main(program: str, words: Sequence[str]) -> int:
    """Scores block by block."""
    arguments = parse(Score, program, words)
    from itertools import islice

    from pellucid.cli.lines import line_writer, other_than
    from pellucid.data.text_lines import read_parallel
    from pellucid.runs.run import load

    other_than(arguments.output, arguments.source, arguments.target)
    run = load(arguments.run)
    pairs = ((a, b) for _, a, b in read_parallel(str(arguments.source), str(arguments.target)))
    number = 0
    with line_writer(arguments.output) as write:
        while block := list(islice(pairs, 2048)):
            for scored in run.score([a for a, _ in block], [b for _, b in block], first=number):
                number += 1
                mean = scored.log_probability / len(scored.token_log_probabilities)
                if arguments.json:
                    write(json.dumps({"log_probability": scored.log_probability, "per_token": mean,
                                      "tokens": scored.tokens,
                                      "token_log_probabilities": scored.token_log_probabilities}, ensure_ascii=False))
                else:
                    write(f"{scored.log_probability:.4f}\t{mean:.4f}")
    return 0
