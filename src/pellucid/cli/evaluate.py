"""pellucid evaluate RUN [RUN …]"""

import json
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tyro

from pellucid.cli.arguments import parse
from pellucid.errors import ConfigError

_SHOWN = 5  # sentences on the terminal
_WIDTH = 65  # characters of a sentence there


@dataclass
class Evaluate:
    """Scores on unseen data, each with its 95 % interval and its signature; several runs are compared
    pairwise by one score, corrected for their number: two tests, the others beside it, differences by length and word
    frequency, and the sentences that differ most."""

    runs: tyro.conf.Positional[tuple[Path, ...]]
    """run folders"""
    split: str = "test"
    """train, validation or test, as the run's configuration has them"""
    source: Path | None = None
    """a text file to score on in place of a split …"""
    target: Path | None = None
    """… and its references (or labels), line for line"""
    score: str | None = None
    """that several runs are tested by; chosen by the task: chrf, accuracy of classifiers, exact where lines are numbers
    of a generated task; with _lowercase where a run writes lower case"""
    json: bool = False
    """print the report as JSON"""


def main(program: str, words: Sequence[str]) -> int:
    """Evaluates, and prints a table."""
    arguments = parse(Evaluate, program, words)
    if not arguments.runs:
        raise ConfigError("give a run folder at least", where=program)
    if (arguments.source is None) != (arguments.target is None):
        raise ConfigError("--source and --target go together", where=program)
    from pellucid.evaluate.evaluate import evaluate_runs
    from pellucid.train.journal import Reporter

    files = None if arguments.source is None else (str(arguments.source), str(arguments.target))
    report = evaluate_runs(arguments.runs, arguments.split, files, Reporter().progress, arguments.score)
    print(json.dumps(report, ensure_ascii=False) if arguments.json else as_text(report))
    return 0


def as_text(report: dict[str, Any]) -> str:
    """The report for people: a score a line, with its interval."""
    from pellucid.evaluate.translation import LOWERCASE

    lines = []
    for run in report["runs"]:
        of_sources = f" of {run['sources']:,} sources" if run["sources"] < run["n"] else ""
        lines.append(f"{run['run']}  {run['split']}, {run['n']:,} examples{of_sources}")
        lines += _scores(run)
        if "confusion" in run:
            import numpy as np

            from pellucid.evaluate.classification import confusion_text

            lines.append(confusion_text(np.asarray(run["confusion"]), run["labels"]))
        else:
            lines.append(f"  unknown tokens  {100 * run['unknown_share']:.2f} % of the references'")
            lines.append(_searched(run["search"]))
        lines.append("  signatures")
        other = "" if run.get("case") == "lowercase" else LOWERCASE  # the column beside, otherwise alike
        hidden = {name.removesuffix(LOWERCASE) + other for name in run["signatures"] if name.endswith(LOWERCASE)}
        lines += [f"    {name:<23} {text}" for name, text in run["signatures"].items() if name not in hidden]
    for detail in report["differences"]:
        lines += ["", *_compared(detail, report["comparison"])]
    return "\n".join(lines)


def _scores(run: dict[str, Any]) -> Iterator[str]:
    """A score a line; where regarding letter case makes a difference, both ways, the run's own first."""
    from pellucid.evaluate.translation import LOWERCASE

    names = [name for name in run["interval"] if not name.endswith(LOWERCASE)]
    suffixes = ["", LOWERCASE] if run.get("case") != "lowercase" else [LOWERCASE, ""]
    pairs = [[name + suffix for suffix in suffixes if name + suffix in run["interval"]] for name in names]
    cased = [pair for pair in pairs if len(pair) == 2]
    titles = ["lower-cased" if suffix else "cased" for suffix in suffixes]
    differ = any(run[first] != run[second] for first, second in cased)
    if differ:
        yield f"  {'':<18}" + " ".join(f"{title:>12}   {'95 % interval':<16}" for title in titles).rstrip()
    elif cased:
        yield f"  {'':<18}{titles[0]:>12}   95 % interval (the same {titles[1]})"
    for pair in pairs:
        cells = []
        for name in pair if differ else pair[:1]:
            score, low, high = (_told(name, value) for value in (run[name], *run["interval"][name]))
            cells.append(f"{score:>12}   " + f"{low} to {high}".ljust(16))
        yield f"  {pair[0].removesuffix(LOWERCASE):<18}" + " ".join(cells).rstrip()


def _told(name: str, value: float | None) -> str:
    return "∞" if value is None else f"{value:.{4 if name == 'nats_per_character' else 2}f}"


def _searched(search: dict[str, Any]) -> str:
    """Whose fault the wrong outputs are."""
    return (f"  search errors   {search['search_errors']:,} of {search['n']:,} outputs ({100 * search['share']:.1f} %) "
            f"are less probable\n                  than the reference; model errors {search['model_errors']:,}, "
            f"exact {search['exact']:,}")


def _compared(detail: dict[str, Any], rows: list[dict[str, Any]]) -> Iterator[str]:
    """Two runs beside each other, in 80 columns."""
    yield f"a = {detail['a']}\nb = {detail['b']}\n"
    yield f"  {'':<18}{'a - b':>8}   {'95 % interval':<17}{'p boot':>8}{'p random':>10}{'p Holm':>13}"
    for row in rows:
        if (row["a"], row["b"]) == (detail["a"], detail["b"]):
            low, high = row["interval"]
            places = 3 if row["score"] == "nats_per_character" else 2
            holm = "exploratory" if row["p_holm"] is None else f"{row['p_holm']:.4f}"
            yield (f"  {row['score']:<18}{row['difference']:>+8.{places}f}   "
                   + f"{low:+.{places}f} to {high:+.{places}f}".ljust(17)
                   + f"{row['p']:>8.4f}{row['p_randomisation']:>10.4f}{holm:>13}")
    yield from (f"  {line}" for note in detail["notes"] for line in textwrap.wrap(note, 78))
    for title, key in ((f"{detail['score']} by length", "by_length"), ("F1 of words", "by_frequency")):
        groups = detail.get(key)
        if groups:
            where = f", by how often in {detail['frequency_in']}" if key == "by_frequency" else ""
            yield f"\n  {title}{where}"
            yield f"  {'':<20}{'n':>8}{'a':>8}{'b':>8}{'a - b':>9}   95 % interval"
            for g in groups:
                low, high = g["interval"]
                yield (f"  {g['group']:<20}{g['n']:>8,}{g['a']:>8.2f}{g['b']:>8.2f}{g['difference']:>+9.2f}   "
                       f"{low:+.2f} to {high:+.2f}")
    sentences = detail["sentences"][:_SHOWN]
    if sentences:
        count = len(detail["sentences"])
        yield f"\n  The sentences that differ most, by {detail['sentences_by']} ({count} are in evaluation/ of a)"
    for one in sentences:
        yield f"  line {one['line']:,}: a {one['a']:.1f}, b {one['b']:.1f}"
        for name, key in (("source", "source"), ("reference", "reference"), ("a", "output_a"), ("b", "output_b")):
            yield f"    {name:<10} {_short(one[key])}"


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _WIDTH else line[: _WIDTH - 1] + "…"
