"""pellucid export RUN --to TARGET --out DIR"""

import importlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pellucid.cli.arguments import parse
from pellucid.cli.fields import Positional
from pellucid.cli.sizes import on_disk
from pellucid.errors import ConfigError, guess

# Each a module whose `export` writes a run to a folder, and tells of it.
TARGETS = {"run": "pellucid.runs.slim", "huggingface": "pellucid.interop.huggingface",
           "ctranslate2": "pellucid.interop.ctranslate2", "onnx": "pellucid.interop.onnx",
           "argos": "pellucid.interop.argos"}


@dataclass
class Export:
    """A copy of a run for others.

    --to run writes a slim run: the chosen weights, tokenizer, configuration, metrics and scores, without the
    optimizer's moments and other checkpoints. It loads, decodes and scores as the run does; training cannot go on in
    it.

    --to huggingface writes a folder that the Auto classes of transformers open without code of ours, --to ctranslate2
    one that CTranslate2 opens, --to onnx graphs that onnxruntime runs, and transformers.js in a browser or node, --to
    argos a file, NAME.argosmodel, that argos-translate and LibreTranslate install. What a target cannot hold is refused
    by name, and nothing is approximated without being told.
    """

    run: Positional[Path]
    """a run folder"""
    out: Path
    """the folder or file to write, which must not be there yet"""
    to: str = "run"
    """what to write: run, huggingface, ctranslate2, onnx, argos"""
    quantization: str | None = None
    """of the matrices of --to ctranslate2: int8; as they are if left out"""
    json: bool = False
    """print what was done as JSON"""


def main(program: str, words: Sequence[str]) -> int:
    """Writes the copy, and says how large both are and what it lacks."""
    arguments = parse(Export, program, words)
    if arguments.to not in TARGETS:
        raise ConfigError(f"{arguments.to!r} is nothing that a run can be exported to", where="--to",
                          fix=f"{guess(arguments.to, TARGETS)}choose {', '.join(TARGETS)}")
    if arguments.quantization is not None and arguments.to != "ctranslate2":
        raise ConfigError(f"--to {arguments.to} has no quantization", where="--quantization",
                          fix="leave it out, or write --to ctranslate2")
    more = [] if arguments.quantization is None else [arguments.quantization]
    done = importlib.import_module(TARGETS[arguments.to]).export(arguments.run, arguments.out, *more)
    if arguments.json:
        print(json.dumps({"run": str(arguments.run), "out": str(arguments.out), **asdict(done)}, ensure_ascii=False))
    elif arguments.to == "run":
        _tell_of_copy(arguments, done)
    else:
        _tell(arguments, done)
    return 0


def _tell_of_copy(arguments: Export, done: Any) -> None:
    print(f"{arguments.run}: {on_disk(done.bytes_before)}\n{arguments.out}: {on_disk(done.bytes_after)}, with the "
          f"weights of {done.checkpoint}, whole and checked\nleft out:")
    for what, size in done.left_out.items():
        print(f"  {on_disk(size):>9}  {what}")
    print("training cannot go on in it; everything else that reads a run works")


def _tell(arguments: Export, done: Any) -> None:
    print(f"{arguments.out}: {done.what}, {on_disk(sum(done.files.values()))}")
    for name, size in done.files.items():
        print(f"  {on_disk(size):>9}  {name}")
    for note in done.notes:
        print(f"note: {note}")
