"""pellucid evaluate RUN [RUN …]"""

import json
import shutil
import sys
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pellucid.cli.arguments import parse
from pellucid.cli.fields import Positional
from pellucid.errors import ConfigError
from pellucid.language import MOST_COLUMNS, fitted, so_many

_LEAST_COLUMNS = 40


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
    print(json.dumps(finite(report), ensure_ascii=False, allow_nan=False) if arguments.json else
          as_text(report, max(_LEAST_COLUMNS, shutil.get_terminal_size().columns)))
    return 0


def as_text(report: dict[str, Any], width: int) -> str:
    """The report for people: of one run or two a score a line, with its interval; of more, a run a line. What does not
    fit into `width` columns is told in more lines."""
    from pellucid.evaluate import comparison_text

    if len(report["runs"]) > 2:
        return "\n".join([*comparison_text.table(report, width), "", *comparison_text.keys_of(report, width)])
    lines = [line for run in report["runs"] for line in _whole(run, width)]
    for detail in report["differences"]:
        lines += ["", *comparison_text.compared(detail, report["comparison"], width), "",
                  *comparison_text.keys_of(report, width)]
    return "\n".join(lines)


def _whole(run: dict[str, Any], width: int) -> list[str]:
    """All that is told of one run."""
    from pellucid.evaluate import reading_text
    from pellucid.evaluate.comparison_text import examples_of
    from pellucid.evaluate.translation import LOWERCASE

    lines = [f"{run['run']}  {run['split']}, {examples_of(run)}"]
    lines += reading_text.beside(run, width) if "index" in run else _scores(run, width)
    if run.get("cut"):
        lines.append(_noted("cut", f"{run['cut']:,} of {so_many(run['n'], 'example')} longer than model.max_length, "
                            "and scores are of what was left", width))
    if "confusion" in run:
        lines += _confusion(run, width)
    elif "answered" in run:
        answered = f"{run['answered']:,} of {so_many(run['n'], 'question')}"
        lines += [] if "index" in run else [_noted("answered", answered, width)]
    else:
        search = run["search"]
        lines.append(_noted("unknown tokens", f"{100 * run['unknown_share']:.2f} % of the references'", width))
        if run["stripped_share"] > 0:
            lines.append(_noted("punctuation", f"{100 * run['stripped_share']:.2f} % of the references' characters, "
                                "which this run cannot write; scores of its outputs charge it for them", width))
        outputs = f"{so_many(search['n'], 'output')} ({100 * search['share']:.1f} %)"
        lines.append(_noted("search errors", f"{search['search_errors']:,} of {outputs} "
                            f"{'is' if search['n'] == 1 else 'are'} less probable than the reference; model errors "
                            f"{search['model_errors']:,}, exact {search['exact']:,}", width))
    lines.append("  signatures")
    other = "" if run.get("case") == "lowercase" else LOWERCASE  # the column beside, otherwise alike
    hidden = {name.removesuffix(LOWERCASE) + other for name in run["signatures"] if name.endswith(LOWERCASE)}
    hidden |= {name for name in run["signatures"] if "floor_" in name}  # a reader's, as beside its own scores
    lines += [f"    {name:<23} {text}" for name, text in run["signatures"].items() if name not in hidden]
    return lines


def _scores(run: dict[str, Any], width: int) -> Iterator[str]:
    """A score a line; where regarding letter case makes a difference, both ways, the run's own first."""
    from pellucid.evaluate.comparison_text import told
    from pellucid.evaluate.translation import LOWERCASE

    names = [name for name in run["interval"] if not name.endswith(LOWERCASE)]
    suffixes = ["", LOWERCASE] if run.get("case") != "lowercase" else [LOWERCASE, ""]
    pairs = [[name + suffix for suffix in suffixes if name + suffix in run["interval"]] for name in names]
    cased = [pair for pair in pairs if len(pair) == 2]
    titles = ["lower-cased" if suffix else "cased" for suffix in suffixes]
    differ = any(run[first] != run[second] for first, second in cased)
    same = f" (the same {titles[1]})" if cased and not differ else ""
    if differ:
        lines = [f"  {'':<18}" + "".join(f"{title:>11}   {'95 % interval':<16}" for title in titles).rstrip()]
    else:
        lines = [f"  {'':<18}{titles[0] if cased else '':>11}   95 % interval{same}"]
    records = [("95 % intervals in brackets", [same.strip()] if same else [])]
    for pair in pairs:
        cells, parts, name = list[str](), list[str](), pair[0].removesuffix(LOWERCASE)
        for one, title in zip(pair if differ else pair[:1], titles, strict=False):
            score, low, high = (told(one, value) for value in (run[one], *run["interval"][one]))
            cells.append(f"{score:>11}   " + f"{low} to {high}".ljust(16))
            parts.append(f"{title + ' ' if differ and len(pair) == 2 else ''}{score} ({low} to {high})")
        lines.append(f"  {name:<18}" + "".join(cells).rstrip())
        records.append((name, parts))
    yield from fitted(lines, records, width)


def _confusion(run: dict[str, Any], width: int) -> Iterator[str]:
    """The table of true and predicted labels; where it is too wide, what each true one was taken for."""
    import numpy as np

    from pellucid.cli.passages import plain
    from pellucid.evaluate.classification import confusion_text

    labels = list(map(plain, run["labels"]))
    records = [(f"true {label}, predicted", [f"{other} {count:,}" for other, count in zip(labels, row, strict=True)
                                             if count])
               for label, row in zip(labels, run["confusion"], strict=True) if any(row)]
    yield from fitted(confusion_text(np.asarray(run["confusion"]), labels).split("\n"), records, width)


def _noted(name: str, text: str, width: int) -> str:
    """A line beside the scores, or as many as it needs."""
    return textwrap.fill(text, min(width, MOST_COLUMNS), initial_indent=f"  {name:<15} ",
                         subsequent_indent=" " * 18)
