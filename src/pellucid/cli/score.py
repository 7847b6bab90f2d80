"""pellucid score RUN --source F --target F"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pellucid.cli.arguments import parse
from pellucid.cli.fields import Positional
from pellucid.errors import ConfigError


@dataclass
class Score:
    """How probable given targets are: for each line the log-probability in nats and its mean over tokens (eos
    included), with a tab between."""

    run: Positional[Path]
    """a run folder"""
    source: Path
    """a text file; - is standard input"""
    target: Path
    """a text file with as many lines, or - in place of the other"""
    output: Path | None = None
    """where to write; standard output if left out"""
    json: bool = False
    """one JSON object a line: line, source, target, log_probability, per_token, tokens, token_log_probabilities; cut,
    unknown and unknown_target as of generate"""


def main(program: str, words: Sequence[str]) -> int:
    """Scores block by block."""
    arguments = parse(Score, program, words)
    from pellucid.cli.lines import STANDARD_INPUT, Beside, answer_lines, other_than
    from pellucid.cli.remarks import marks, remarks
    from pellucid.runs.run import load

    other_than(arguments.output, arguments.source, arguments.target)
    is_target_piped = arguments.target == STANDARD_INPUT
    if is_target_piped and arguments.source == STANDARD_INPUT:
        raise ConfigError("--source and --target cannot both be standard input", where=program,
                          fix="give a file for one of them")
    run = load(arguments.run)
    run.must_be("seq2seq", "score")
    beside = (Beside(arguments.source, "sources", arguments.target) if is_target_piped else
              Beside(arguments.target, "targets", arguments.source))

    def answers(block: list[str], first: int) -> Iterator[str]:
        others = beside.take(len(block))
        sources, targets = (others, block) if is_target_piped else (block, others)
        found = run.score(sources, targets, first=first)
        told.note(first, found)
        for number, (source, target, one) in enumerate(zip(sources, targets, found, strict=True), start=first + 1):
            mean = one.log_probability / len(one.token_log_probabilities)
            if arguments.json:
                yield json.dumps({"line": number, "source": source, "target": target,
                                  "log_probability": one.log_probability, "per_token": mean, "tokens": one.tokens,
                                  "token_log_probabilities": one.token_log_probabilities, **marks(one)},
                                 ensure_ascii=False)
            else:
                yield f"{one.log_probability:.4f}\t{mean:.4f}"

    with remarks(run.config.model.max_length, "target") as told:
        answer_lines(arguments.target if is_target_piped else arguments.source, arguments.output, answers)
    beside.end()
    return 0
