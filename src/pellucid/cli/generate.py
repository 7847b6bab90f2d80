"""pellucid generate RUN (= translate)"""

from __future__ import annotations

import functools
import gc
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pellucid.cli.arguments import parse_with_overrides, refuse_other_keys
from pellucid.cli.fields import Positional
from pellucid.config import DecodeConfig, RunConfig
from pellucid.config.effects import searched_with
from pellucid.config.reader import merge
from pellucid.errors import ConfigError, DataError

if TYPE_CHECKING:
    from pellucid.cli.lines import Beside
    from pellucid.runs.candidates import Generated
    from pellucid.runs.run import Run


@dataclass
class Generate:
    """Text to text, one line in, one line out; an empty line for an empty line.

    Further search options as --decode.key value: temperature, top_k, top_p, seed, min_length, max_length,
    length_penalty, no_repeat_ngram, from_passages, batch_tokens, precision, exact.
    """

    run: Positional[Path]
    """a run folder"""
    input: Path | None = None
    """a text file; standard input if left out; or a folder of shards, which any number of processes may share"""
    output: Path | None = None
    """where to write; standard output if left out; a folder for a folder"""
    beam_size: int | None = None
    """hypotheses kept at each step, and --n-best at least; 1 is greedy"""
    n_best: int | None = None
    """hypotheses told for each line; more than 1 gives up to that many lines: line number, score, text, tab between"""
    sample: bool = False
    """draw at random in place of searching for the best"""
    prefix: Path | None = None
    """a text file: how the output of each line begins, to the byte; where no space ends a line, its last word may go
    on, as dorm to dormira"""
    split_sentences: bool = False
    """divide each line at the ends of its sentences, and longer ones further, so that nothing is cut; the outputs make
    one line again"""
    json: bool = False
    """one JSON object a line: line, source, text, score, tokens, hypotheses; cut, if so many tokens of the line had to
    be left out; unknown and unknown_target, if the model does not know parts of it, or of its prefix"""
    verbose: bool = False
    """say on standard error which decoder runs, in which precision, and why no faster one"""


def main(program: str, words: Sequence[str]) -> int:
    """Generates block by block, so that a pipe of any length flows."""
    _refuse_short_keys(program, words)
    arguments, overrides = parse_with_overrides(Generate, program, words)
    refuse_other_keys(program, overrides)
    if arguments.input is not None and arguments.input.is_dir():
        return _answer_folder(arguments.input, program, arguments, overrides)
    from pellucid.cli.lines import STANDARD_INPUT, Beside, answer_lines, other_than
    from pellucid.cli.remarks import remarks

    other_than(arguments.output, arguments.input or STANDARD_INPUT, arguments.prefix)
    run, options = _opened(arguments, overrides)
    if arguments.prefix is not None and not arguments.prefix.exists():
        raise DataError("the file of prefixes does not exist", where=str(arguments.prefix),
                        why="--prefix is the name of a file, not text",
                        fix="give --prefix FILE, with a line for each line of the input")
    prefixes = None if arguments.prefix is None else Beside(arguments.prefix, "prefixes", arguments.input)
    fix = "" if options.split_sentences else "; --split-sentences translates all of it"
    with remarks(run.config.model.max_length, "prefix", fix) as told:
        answer_lines(arguments.input, arguments.output, _answers(run, options, arguments.json, told.note, prefixes))
    if prefixes is not None:
        prefixes.end()
    return 0


def _answer_folder(source: Path, program: str, arguments: Generate, overrides: dict[str, Any]) -> int:
    """Generates for each file of a folder what would be generated for that file alone."""
    from pellucid.cli.shards import Shards
    from pellucid.runs.shard_folder import ShardFolder

    if arguments.output is None:
        raise ConfigError("--input is a folder: --output must be one, too", where=program, fix="give --output DIR")
    if arguments.prefix is not None:
        raise ConfigError("--prefix goes with a single file", where=program, fix="give --input FILE, shard by shard")
    folder = ShardFolder(source, arguments.output, ".jsonl" if arguments.json else "")
    run, options = _opened(arguments, overrides)
    shards = Shards(folder, lambda: run.route(options=options))
    assert run.weights is not None  # it was loaded
    folder.begin(run.folder, run.weights.sha256, options, shards.renew)
    shards.answer(_answers(run, options, arguments.json, shards.note, progress=shards.progress))
    return 0


def _opened(arguments: Generate, overrides: dict[str, Any]) -> tuple[Run, DecodeConfig]:
    """The run, and how it is to search."""
    from pellucid.runs.run import load

    run = load(arguments.run)
    run.must_be("seq2seq", "generate")
    options = search_options(run.config, arguments, overrides)
    if arguments.verbose:
        route = run.route(options=options, has_prefixes=arguments.prefix is not None)
        print(f"pellucid: decoder: {route}", file=sys.stderr)
    return run, options


def _answers(run: Run, options: DecodeConfig, as_json: bool, note: Callable[[int, Sequence[Generated]], None],
             prefixes: Beside | None = None, progress: Callable[[int], None] = lambda done: None,
             ) -> Callable[[list[str], int], Iterator[str]]:
    """What gives the lines that answer a block of lines, given the number of its first one, counted from 0."""
    from pellucid.cli.remarks import marks

    scores = as_json or options.n_best > 1  # whether they are told
    freeze_once = functools.cache(gc.freeze)

    def answers(block: list[str], first: int) -> Iterator[str]:
        starts = None if prefixes is None else prefixes.take(len(block))
        found = run.generate(block, prefixes=starts, options=options, progress=progress, first=first, scores=scores)
        note(first, found)
        for number, (source, one) in enumerate(zip(block, found, strict=True), start=first + 1):
            if as_json:
                yield json.dumps({"line": number, "source": source, "text": one.text, "score": one.score,
                                  "tokens": one.tokens, "hypotheses": [asdict(h) for h in one.hypotheses]} | marks(one),
                                 ensure_ascii=False)
            elif options.n_best > 1:
                yield from (f"{number}\t{h.score:.4f}\t{_one_line(h.text)}" for h in one.hypotheses)
            else:
                yield _one_line(one.text)
        freeze_once()  # what is loaded stays: it need not be searched for garbage again and again

    return answers


def _refuse_short_keys(program: str, words: Sequence[str]) -> None:
    """Names the flag that is meant by --seed, --temperature and the like."""
    known = {field.name for field in fields(DecodeConfig)} - {field.name for field in fields(Generate)}
    for word in words:
        name = word.removeprefix("--").partition("=")[0].replace("-", "_")
        if word.startswith("--") and name in known:
            raise ConfigError(f"there is no flag {word.partition('=')[0]} here", where=program,
                              fix=f"say --decode.{name}")


def search_options(config: RunConfig, arguments: Generate, overrides: dict[str, Any]) -> DecodeConfig:
    """The run's options with those of the command line on top.

    Raises:
        ConfigError: a value out of range, or without effect.
    """
    given = {"beam_size": arguments.beam_size, "n_best": arguments.n_best, "sample": arguments.sample or None,
             "split_sentences": arguments.split_sentences or None}
    decode = merge(overrides.get("decode", {}), {key: value for key, value in given.items() if value is not None})
    return searched_with(config, decode, decode)


def _one_line(text: str) -> str:
    return text.replace("\r", " ").replace("\n", " ")
