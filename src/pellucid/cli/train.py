"""pellucid train CONFIG"""

import json
import shlex
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import tyro

from pellucid.cli.arguments import parse_with_overrides, read_config
from pellucid.config.mapping import to_mapping
from pellucid.config.strict_yaml import as_yaml

_LOOK = {True: "all {lines:,} lines can be read",
         False: "the first {lines:,} lines can be read; the rest was not looked at (pellucid doctor reads all of it)"}


@dataclass
class Train:
    """Train a model; the same command again resumes it.

    Any configuration key can be given as --section.key value, such as --model.position rotary --train.steps 2000
    --data.train.source train.en --data.train.target train.de. `--dry-run` shows them all.
    """

    config: tyro.conf.Positional[str]
    """a recipe's name (see `pellucid recipes`) or a YAML file"""
    out: Path | None = None
    """the run folder; runs/NAME if left out"""
    dry_run: bool = False
    """resolve everything, read the first lines of the data, say what would be done, and write nothing"""
    json: bool = False
    """print a summary as JSON at the end"""


def main(program: str, words: Sequence[str]) -> int:
    """Trains, and says what to do next."""
    arguments, overrides = parse_with_overrides(Train, program, words)
    config = read_config(arguments.config, overrides)
    out = arguments.out or Path("runs") / Path(arguments.config).stem
    if arguments.dry_run:
        from pellucid.train.dry_run import dry_run

        report = dry_run(config)
        if arguments.json:
            print(json.dumps({"config": to_mapping(config), **report}, ensure_ascii=False))
            return 0
        print(as_yaml(to_mapping(config)), end="")
        for key, value in report.items():
            print(f"# {key}: {_LOOK[value['all']].format(**value) if isinstance(value, dict) else value}")
        print(f"# would be written to {out}")
        return 0
    from pellucid.train.journal import Reporter
    from pellucid.train.train import Interrupted, train

    try:
        summary = train(config, out, Reporter())
    except Interrupted as stop:
        print(f"pellucid: {stop}, saved at step {stop.step:,}; to go on:\n  {shlex.join([*program.split(), *words])}",
              file=sys.stderr)
        return 128 + stop.number if stop.number != signal.SIGINT else 130
    if arguments.json:
        print(json.dumps(summary, ensure_ascii=False))
    else:
        verb = "classify" if config.task == "classification" else "translate"
        use = "train CONFIG --train.initialize_from" if config.data.objective == "span_corruption" else "evaluate"
        print(f"done: {summary['step']:,} updates, best validation {summary['monitor']} {summary['score']:.4f} "
              f"({summary['best']})\nnext: pellucid {use} {out}\n      pellucid {verb} {out}")
    return 0
