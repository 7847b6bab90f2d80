"""pellucid evaluate RUN [RUN …]"""

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pellucid.cli.arguments import parse
from pellucid.cli.fields import Positional
from pellucid.errors import ConfigError


@dataclass
class Evaluate:
    """Scores on unseen data, each with its 95 % interval and its signature; several runs are compared
    pairwise by one score, corrected for their number: two tests, the others beside it, differences by length and word
    frequency, and the sentences that differ most."""

    runs: Positional[tuple[Path, ...]]
    """run folders"""
    split: str = "test"
    """train, validation or test, as the run's configuration has them"""
    source: Path | None = None
    """a text file to score on in place of a split …"""
    target: Path | None = None
    """… and its references (or labels), line for line"""
    score: str | None = None
    """that several runs are tested by; chosen by the task: chrf, accuracy of classifiers, f1 of readers, exact where
    lines are numbers of a generated task; with _lowercase where a run writes lower case"""
    without: tuple[Literal["chrf", "ter", "meteor", "exact"], ...] = ()
    """scores to leave out, behind the runs: TER of long lines that are wrong takes minutes"""
    index: str | None = None
    """of runs that read: an index that answers are looked for in, too, beside each question's own passage"""
    k: int = 5
    """with --index: the most passages that are read for a question"""
    json: bool = False
    """print the report as JSON"""


def main(program: str, words: Sequence[str]) -> int:
    """Evaluates, and prints a table."""
    arguments = parse(Evaluate, program, words)
    if not arguments.runs:
        raise ConfigError("give a run folder at least", where=program)
    if (arguments.source is None) != (arguments.target is None):
        raise ConfigError("--source and --target go together", where=program)
    if arguments.source is not None and arguments.split != Evaluate.split:
        raise ConfigError("--split changes nothing beside --source and --target", where=program, fix="leave one out")
    if arguments.index is None and arguments.k != Evaluate.k:
        raise ConfigError("--k changes nothing without --index", where=program, fix="give --index, or leave --k out")
    from pellucid.evaluate.answering import Opened
    from pellucid.evaluate.evaluate import evaluate_runs
    from pellucid.evaluate.finite import finite
    from pellucid.train.journal import Reporter

    files = None if arguments.source is None else (str(arguments.source), str(arguments.target))
    opened = None if arguments.index is None else Opened.at(arguments.index, arguments.k)
    with Reporter() as reporter:
        report = evaluate_runs(arguments.runs, arguments.split, files, reporter.progress, arguments.score,
                               arguments.without, opened)
    for run in report["runs"]:
        if run["state"] in ("running", "interrupted"):
            print(f"pellucid: {run['run']} is not finished ({run['state']}): the scores are of its best weights so far",
                  file=sys.stderr)
    print(json.dumps(finite(report), ensure_ascii=False, allow_nan=False) if arguments.json else as_text(report))
    return 0


def as_text(report: dict[str, Any]) -> str:
    """The report for people: of one run or two a score a line, with its interval; of more, a run a line."""
    from pellucid.evaluate import comparison_text

    if len(report["runs"]) > 2:
        return "\n".join([*comparison_text.table(report), "", *comparison_text.keys_of(report)])
    lines = [line for run in report["runs"] for line in _whole(run)]
    for detail in report["differences"]:
        lines += ["", *comparison_text.compared(detail, report["comparison"]), "", *comparison_text.keys_of(report)]
    return "\n".join(lines)


def _whole(run: dict[str, Any]) -> list[str]:
    """All that is told of one run."""
    from pellucid.evaluate import reading_text
    from pellucid.evaluate.translation import LOWERCASE

    of_sources = f" of {run['sources']:,} sources" if run["sources"] < run["n"] else ""
    lines = [f"{run['run']}  {run['split']}, {run['n']:,} examples{of_sources}"]
    lines += reading_text.beside(run) if "index" in run else _scores(run)
    if "confusion" in run:
        import numpy as np

        from pellucid.cli.passages import plain
        from pellucid.evaluate.classification import confusion_text

        lines.append(confusion_text(np.asarray(run["confusion"]), list(map(plain, run["labels"]))))
    elif "answered" in run:
        told = f"  answered        {run['answered']:,} of {run['n']:,} questions"
        lines += [] if "index" in run else [told]
    else:
        lines.append(f"  unknown tokens  {100 * run['unknown_share']:.2f} % of the references'")
        if run["stripped_share"] > 0:
            lines.append(f"  punctuation     {100 * run['stripped_share']:.2f} % of the references' characters, which "
                         "this run cannot write;\n                  scores of its outputs charge it for them")
        lines.append(_searched(run["search"]))
    lines.append("  signatures")
    other = "" if run.get("case") == "lowercase" else LOWERCASE  # the column beside, otherwise alike
    hidden = {name.removesuffix(LOWERCASE) + other for name in run["signatures"] if name.endswith(LOWERCASE)}
    hidden |= {name for name in run["signatures"] if "floor_" in name}  # a reader's, as beside its own scores
    lines += [f"    {name:<23} {text}" for name, text in run["signatures"].items() if name not in hidden]
    return lines


def _scores(run: dict[str, Any]) -> Iterator[str]:
    """A score a line; where regarding letter case makes a difference, both ways, the run's own first."""
    from pellucid.evaluate.comparison_text import told
    from pellucid.evaluate.translation import LOWERCASE

    names = [name for name in run["interval"] if not name.endswith(LOWERCASE)]
    suffixes = ["", LOWERCASE] if run.get("case") != "lowercase" else [LOWERCASE, ""]
    pairs = [[name + suffix for suffix in suffixes if name + suffix in run["interval"]] for name in names]
    cased = [pair for pair in pairs if len(pair) == 2]
    titles = ["lower-cased" if suffix else "cased" for suffix in suffixes]
    differ = any(run[first] != run[second] for first, second in cased)
    if differ:
        yield f"  {'':<18}" + " ".join(f"{title:>12}   {'95 % interval':<16}" for title in titles).rstrip()
    else:
        yield (f"  {'':<18}{titles[0]:>12}   95 % interval (the same {titles[1]})" if cased else
               f"  {'':<30}   95 % interval")
    for pair in pairs:
        cells = []
        for name in pair if differ else pair[:1]:
            score, low, high = (told(name, value) for value in (run[name], *run["interval"][name]))
            cells.append(f"{score:>12}   " + f"{low} to {high}".ljust(16))
        yield f"  {pair[0].removesuffix(LOWERCASE):<18}" + " ".join(cells).rstrip()


def _searched(search: dict[str, Any]) -> str:
    """Whose fault the wrong outputs are."""
    return (f"  search errors   {search['search_errors']:,} of {search['n']:,} outputs ({100 * search['share']:.1f} %) "
            f"are less probable\n                  than the reference; model errors {search['model_errors']:,}, "
            f"exact {search['exact']:,}")
