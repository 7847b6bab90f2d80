"""pellucid generate RUN (= translate)"""

import gc
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import tyro

from pellucid.cli.arguments import parse_with_overrides
from pellucid.config import DecodeConfig, RunConfig
from pellucid.config.mapping import from_mapping, to_mapping
from pellucid.config.reader import merge
from pellucid.errors import ConfigError, DataError


@dataclass
class Generate:
    """Text to text, one line in, one line out; an empty line for an empty line.

    Further search options as --decode.key value: temperature, top_k, top_p, seed, min_length, max_length,
    length_penalty, no_repeat_ngram, batch_tokens, precision, exact.
    """

    run: tyro.conf.Positional[Path]
    """a run folder"""
    input: Path | None = None
    """a text file; standard input if left out"""
    output: Path | None = None
    """where to write; standard output if left out"""
    beam_size: int | None = None
    """hypotheses kept at each step; 1 is greedy"""
    n_best: int | None = None
    """hypotheses told for each line; more than 1 gives that many lines: line number, score, text, tab between"""
    sample: bool = False
    """draw at random in place of searching for the best"""
    prefix: Path | None = None
    """a text file: how the output of each line must begin"""
    json: bool = False
    """one JSON object a line: text, score, tokens, hypotheses; and cut, if tokens of the line had to be left out"""
    verbose: bool = False
    """say on standard error which decoder runs, in which precision, and why no faster one"""


def main(program: str, words: Sequence[str]) -> int:
    """Generates block by block, so that a pipe of any length flows."""
    arguments, overrides = parse_with_overrides(Generate, program, words)
    if set(overrides) - {"decode"}:
        raise ConfigError("only --decode keys can be given here", where=program)
    from pellucid.cli.lines import blocks_of_lines, line_writer, other_than
    from pellucid.data.text_lines import read_lines
    from pellucid.runs.run import load

    other_than(arguments.output, arguments.input, arguments.prefix)
    run = load(arguments.run)
    options = search_options(run.config, arguments, overrides)
    prefixes = None if arguments.prefix is None else read_lines(str(arguments.prefix))
    number, scores = 0, arguments.json or options.n_best > 1  # whether they are told
    if arguments.verbose:
        print(f"pellucid: decoder: {run.route(options=options, has_prefixes=prefixes is not None)}", file=sys.stderr)
    with line_writer(arguments.output) as write:
        for block in blocks_of_lines(arguments.input):
            starts = None if prefixes is None else _as_many(prefixes, len(block), arguments.prefix)
            for generated in run.generate(block, prefixes=starts, options=options, first=number, scores=scores):
                number += 1
                if arguments.json:
                    told = {"text": generated.text, "score": generated.score, "tokens": generated.tokens,
                            "hypotheses": [asdict(h) for h in generated.hypotheses]}
                    write(json.dumps(told | ({"cut": generated.cut} if generated.cut else {}), ensure_ascii=False))
                elif options.n_best > 1:
                    for hypothesis in generated.hypotheses:
                        write(f"{number}\t{hypothesis.score:.4f}\t{_one_line(hypothesis.text)}")
                else:
                    write(_one_line(generated.text))
            gc.freeze()  # what is loaded stays: it need not be searched for garbage again and again
    return 0


def search_options(config: RunConfig, arguments: Generate, overrides: dict[str, Any]) -> DecodeConfig:
    """The run's options with those of the command line on top; a beam holds as many hypotheses as are told.

    Raises:
        ConfigError: a value out of range.
    """
    given = {"beam_size": arguments.beam_size, "n_best": arguments.n_best, "sample": arguments.sample or None}
    decode = merge(overrides.get("decode", {}), {key: value for key, value in given.items() if value is not None})
    if "n_best" in decode and "beam_size" not in decode:
        decode["beam_size"] = max(config.decode.beam_size, decode["n_best"])
    return from_mapping(merge(to_mapping(config), {"decode": decode})).decode


def _one_line(text: str) -> str:
    return text.replace("\r", " ").replace("\n", " ")


def _as_many(prefixes: Iterator[str], count: int, path: Path | None) -> list[str]:
    found = list(islice(prefixes, count))
    if len(found) < count:
        raise DataError("there are fewer prefixes than lines of input", where=str(path))
    return found
