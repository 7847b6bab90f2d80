"""pellucid train CONFIG"""

import io
import json
import shlex
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pellucid import own
from pellucid.cli.arguments import parse_with_overrides, read_config, run_folder
from pellucid.cli.fields import Positional
from pellucid.config import RunConfig
from pellucid.config.mapping import to_mapping
from pellucid.config.strict_yaml import as_yaml

_LOOK = {True: "all {lines:,} lines can be read",
         False: "the first {lines:,} lines can be read; the rest was not looked at (pellucid doctor reads all of it)"}


@dataclass
class Train:
    """Train a model; the same command again resumes it.

    A run folder in place of CONFIG goes on with that run: pellucid train runs/mine --train.steps 9000 extends it. Any
    configuration key can be given as --section.key value, such as --model.position rotary --train.steps 2000
    --data.train.source train.en --data.train.target train.de. `--dry-run` shows them all.
    """

    config: Positional[str]
    """a recipe's name (see `pellucid recipes`), a YAML file, or a run folder"""
    out: Path | None = None
    """the run folder; runs/NAME if left out, or the one that was given"""
    extend: bool = False
    """let a run whose learning rate has fallen to its end make more updates all the same"""
    dry_run: bool = False
    """resolve everything, read the first lines of the data, say what would be done, and write nothing"""
    json: bool = False
    """print a summary as JSON at the end"""


def main(program: str, words: Sequence[str]) -> int:
    """Trains, and says what to do next."""
    arguments, overrides = parse_with_overrides(Train, program, words)
    config = read_config(arguments.config, overrides)
    given = run_folder(arguments.config)
    out = arguments.out or given or Path("runs") / Path(arguments.config).stem
    if out == given and not overrides and not arguments.dry_run and (ended := ended_run(out)):
        print(json.dumps({"run": str(out), **ended}) if arguments.json else how_to_extend(out, config, ended))
        return 0
    if arguments.dry_run:
        from pellucid.plan.counts import counts
        from pellucid.train.dry_run import dry_run

        with tempfile.TemporaryDirectory() as folder:
            report = dry_run(config, Path(folder))
            report |= counts(config, report, Path(folder))
        if arguments.json:
            print(json.dumps({"config": to_mapping(config), **report}, ensure_ascii=False))
            return 0
        print(as_yaml(to_mapping(config)), end="")
        for line in in_words(report, config):
            print(f"# {line}")
        print(f"# would be written to {out}")
        return 0
    from pellucid.runs.run import load
    from pellucid.train.journal import Reporter
    from pellucid.train.stopping import Interrupted
    from pellucid.train.train import train
    from pellucid.train.world import find_world

    is_first = find_world().is_first  # one of several ranks tells
    try:
        with Reporter() if is_first else Reporter(io.StringIO()) as reporter:
            summary = train(config, out, reporter, arguments.extend)
    except Interrupted as stop:
        if is_first:
            print(f"pellucid: {stop}, saved at step {stop.step:,}; to go on:\n  "
                  f"{shlex.join([*program.split(), *words, *own.words()])}", file=sys.stderr)
        return 128 + stop.number if stop.number != signal.SIGINT else 130
    if is_first:
        if config.task == "seq2seq":
            load(out).route()  # packs its weights while torch is here: the first translation need not wait for either
        tell(summary, config, out, arguments.json)
    return 0


def tell(summary: dict[str, Any], config: RunConfig, out: Path, as_json: bool) -> None:
    """What a training has come to, and what to do next."""
    if as_json:
        print(json.dumps(summary, ensure_ascii=False))
        return
    verb = {"classification": "classify {}", "reading": "answer {} --index IDX", "seq2seq": "translate {}"}[config.task]
    use = "train CONFIG --train.initialize_from" if config.data.objective == "span_corruption" else "evaluate"
    print(f"done: {summary['step']:,} updates, best validation {summary['monitor']} {summary['score']:.4f} "
          f"({summary['best']})")
    if summary["overhead"] is not None:
        print(f"      {100 * summary['overhead']:.1f} % of the time went into validation, saving and pictures")
    run = shlex.join([str(out), *own.words()])
    print(f"next: pellucid {use} {run}\n      pellucid {verb.format(run)}")


def ended_run(folder: Path) -> dict[str, Any] | None:
    """What ended.json says of a run, if it has ended, and that can be read; training writes it anew."""
    from pellucid.errors import CheckpointError
    from pellucid.files import read_json
    from pellucid.runs.folder import ENDED

    try:
        found = read_json(folder / ENDED)
    except CheckpointError:
        return None
    return found if isinstance(found, dict) and {"ended", "why"} <= found.keys() else None


def how_to_extend(folder: Path, config: RunConfig, ended: dict[str, Any]) -> str:
    """That a run is finished, and what makes it go on; of a slim copy, that nothing does."""
    from pellucid.runs.slim import MARK

    if (folder / MARK).exists():
        words = ["pellucid", "train", "CONFIG", "--train.initialize_from", str(folder), "--out", "NEW", *own.words()]
        return (f"{folder} is finished: {ended['why']}\nit is a slim copy, and training cannot go on in it; a new run "
                f"starts from its weights by\n  {shlex.join(words)}")
    if ended["ended"] == "imported":
        words = ["pellucid", "train", str(folder), "--out", "NEW", "--train.initialize_from", str(folder)]
        return (f"{folder} was imported, and has no data of its own; a new run starts from its weights by\n  "
                f"{shlex.join(words)} --data.train.source FILE --data.train.target FILE")
    train, words = config.train, ["pellucid", "train", str(folder)]
    if ended["ended"] == "patience":
        words += ["--train.patience", str(2 * (train.patience or 1))]
    else:
        words += ["--train.epochs", str(2 * train.epochs)] if train.epochs else ["--train.steps", str(2 * train.steps)]
    note = ""
    if ended["ended"] == "steps" and train.schedule in ("linear", "cosine"):
        words.append("--extend")
        note = f"\n(train.schedule {train.schedule} has fallen to its end: a run that is extended comes out otherwise)"
    return f"{folder} is finished: {ended['why']}\nto go on, for example:\n  {shlex.join([*words, *own.words()])}{note}"


def in_words(report: dict[str, Any], config: RunConfig) -> Iterator[str]:
    """What a dry run has found, a line each."""
    for name, value in report.items():
        if isinstance(value, dict):
            yield f"{name}: {_LOOK[value['all']].format(**value)}"
        elif name == "initialize_from":
            yield f"{name}: {value}"
    most = "at most {:,}, if the vocabulary is full; pellucid plan counts it" if report["at_most"] else "{:,}"
    yield f"parameters: {most.format(report['parameters'])}"
    epochs = f"those of {config.train.epochs} epochs; pellucid plan counts them"
    yield f"updates: {epochs if report['updates'] is None else format(report['updates'], ',')}"
    yield from (f"note: {text}" for text in report["notes"])
