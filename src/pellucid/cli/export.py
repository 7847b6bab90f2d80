"""pellucid export RUN --to TARGET --out DIR"""

import difflib
import importlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import tyro

from pellucid.cli.arguments import parse
from pellucid.errors import ConfigError

TARGETS = {"run": "pellucid.runs.slim"}  # each a module whose `export` writes a run to a folder, and tells of it


@dataclass
class Export:
    """A copy of a run for others.

    --to run writes a slim run: the chosen weights, tokenizer, configuration, metrics and scores, without the
    optimizer's moments and other checkpoints. It loads, decodes and scores as the run does; training cannot go on in
    it.
    """

    run: tyro.conf.Positional[Path]
    """a run folder"""
    to: str
    """what to write: run"""
    out: Path
    """the folder to write, which must not be there yet"""
    json: bool = False
    """print what was done as JSON"""


def main(program: str, words: Sequence[str]) -> int:
    """Writes the copy, and says how large both are and what it lacks."""
    arguments = parse(Export, program, words)
    if arguments.to not in TARGETS:
        near = difflib.get_close_matches(arguments.to, TARGETS, n=1)
        raise ConfigError(f"{arguments.to!r} is nothing that a run can be exported to", where="--to",
                          fix=(f"did you mean {near[0]}? " if near else "") + f"choose {', '.join(TARGETS)}")
    done = importlib.import_module(TARGETS[arguments.to]).export(arguments.run, arguments.out)
    if arguments.json:
        print(json.dumps({"run": str(arguments.run), "out": str(arguments.out), **asdict(done)}, ensure_ascii=False))
        return 0
    from pellucid.runs.care import in_words

    print(f"{arguments.run}: {in_words(done.bytes_before)}\n{arguments.out}: {in_words(done.bytes_after)}, with the "
          f"weights of {done.checkpoint}, whole and checked\nleft out:")
    for what, size in done.left_out.items():
        print(f"  {in_words(size):>9}  {what}")
    print("training cannot go on in it; everything else that reads a run works")
    return 0
