"""pellucid inspect RUN"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pellucid.cli.arguments import parse
from pellucid.cli.fields import Positional, Repeated


@dataclass
class Inspect:
    """Look inside a run: what every head attends to and how much it matters, position encodings, training curves and
    the flow of gradients, weights, parameters, shapes; for a classifier its confusion matrix.

    Writes PNG files, the numbers of each as CSV, and a page, index.html, that holds them all and asks for nothing from
    anywhere; in Chinese with PELLUCID_LANG=zh. For example: pellucid inspect runs/demo --text "the cat sleeps ."
    """

    run: Positional[Path]
    """a run folder"""
    text: Repeated[tuple[str, ...]] = ()
    """a sentence to show attention for; give it again for more of them; three of the test data if left out"""
    out: Path | None = None
    """the folder to write; RUN/inspection if left out"""
    pairs: int = 100
    """how many validation pairs to measure the heads on; more takes longer, 0 leaves the heads out"""


def main(program: str, words: Sequence[str]) -> int:
    """Draws everything, and says where the page is."""
    arguments = parse(Inspect, program, words)
    from pellucid.cli.remarks import tell_unknown
    from pellucid.inspection.chinese import told
    from pellucid.inspection.inspect import inspect
    from pellucid.runs.run import load
    from pellucid.train.journal import Reporter

    out = arguments.out or arguments.run / "inspection"
    run = load(arguments.run)
    for number, text in enumerate(arguments.text, start=1):
        tell_unknown(f"text {number}", run.tokenizers.source.unknown(text))
    with Reporter() as reporter:
        done = inspect(run, arguments.text, arguments.pairs, out, reporter.progress)
    if done.missing:
        print(f"pellucid: no font here has {' '.join(done.missing[:20])}: they are boxes in the PNG files, but not on "
              "the page\n  do:    install a font that has them, such as Noto Sans CJK for Chinese", file=sys.stderr)
    print(told("{page}: open it in a browser").format(page=done.page))
    print(told("{count} figures beside it as PNG, the numbers of each as CSV, and parameters.csv").format(
        count=len(done.pictures)))
    return 0
