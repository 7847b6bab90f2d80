"""pellucid inspect RUN"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import tyro

from pellucid.cli.arguments import parse


@dataclass
class Inspect:
    """Look inside a run: attention of every layer and head, what each head does and matters, positions, training
    curves, parameters, shapes. Writes PNG files, and a page, index.html, that needs nothing but itself."""

    run: tyro.conf.Positional[Path]
    """a run folder"""
    text: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
    """a sentence to look at, as often as you like; a few test sentences if left out"""
    out: Path | None = None
    """the folder to write; RUN/inspection if left out"""
    pairs: int = 100
    """how many validation pairs the heads are measured on; 0 leaves that out"""


def main(program: str, words: Sequence[str]) -> int:
    """Draws everything, and says where the page is."""
    arguments = parse(Inspect, program, words)
    from pellucid.inspection.inspect import inspect
    from pellucid.run import load
    from pellucid.train.journal import Reporter

    out = arguments.out or arguments.run / "inspection"
    done = inspect(load(arguments.run), arguments.text, arguments.pairs, out, Reporter().progress)
    print(f"{done.page}: open it in a browser\n{len(done.pictures)} figures beside it, as PNG")
    return 0
