"""pellucid prepare CONFIG --out RUN"""

import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pellucid import own
from pellucid.cli.arguments import parse_with_overrides, read_config, run_folder
from pellucid.cli.fields import Positional
from pellucid.errors import ConfigError


@dataclass
class Prepare:
    """Make the tokenizer and the token ids of a run before it is trained, by as many processes as are started.

    Start it several times, on every machine that sees the folder; what a killed process leaves, the others do. The same
    configuration trained there finds all of it done. Any configuration key can be given as --section.key value.
    """

    config: Positional[str]
    """a recipe's name (see `pellucid recipes`), a YAML file, or a run folder"""
    out: Path | None = None
    """the run folder, the same for all processes and for train"""
    json: bool = False
    """print what became of the lines as JSON at the end"""


def main(program: str, words: Sequence[str]) -> int:
    """Prepares, and says what to do next."""
    arguments, overrides = parse_with_overrides(Prepare, program, words)
    config = read_config(arguments.config, overrides)
    out = arguments.out or run_folder(arguments.config)
    if out is None:
        raise ConfigError("where is it to be prepared?", where="--out",
                          fix=f"give --out RUN, and the same to train: runs/{Path(arguments.config).stem}")
    from pellucid.train.journal import Reporter
    from pellucid.train.prepare import prepare

    with Reporter() as reporter:
        report = prepare(config, out, reporter)
    if arguments.json:
        print(json.dumps(report))
    else:
        print(f"done: {out} is prepared\nnext: {shlex.join(['pellucid', 'train', *words, *own.words()])}")
    return 0
