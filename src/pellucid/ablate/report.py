"""What a study leaves: results.csv, report.md, report.tex, report.html and figures/, all from the runs' outcomes."""

import shlex
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from pellucid.ablate.agenda import Planned
from pellucid.ablate.calibrate import MEASUREMENT
from pellucid.ablate.cells import Cell
from pellucid.ablate.figures import curves_of, forest, learning_curves, over_test_sets
from pellucid.ablate.grid import Grid, grids_of
from pellucid.ablate.outcome import Outcome
from pellucid.ablate.results import Result, Run, results_of
from pellucid.ablate.sentences import keep_influences
from pellucid.ablate.study import MEASURED, Study
from pellucid.ablate.tables import Table, results_csv, tables_of
from pellucid.ablate.words import in_words
from pellucid.files import make_folder, read_json, remove_leftovers, write_bytes, write_text
from pellucid.inspection.html import paragraph, picture, table, text
from pellucid.inspection.page import Section, page
from pellucid.language import so_many
from pellucid.runs.format import ENVIRONMENT

Figures = dict[str, tuple[bytes, str]]  # by file name: the PNG and its caption


def write_report(study: Study, cells: Sequence[Cell], planned: Sequence[Planned], command: str, out: Path,
                 operations: Mapping[str, float]) -> tuple[list[Result], list[Grid]]:
    """Writes everything into `out`, from what the runs have come to so far; gives the results, and what the grid says.

    Args:
        command: the command line that made the study, for the reader.
        operations: of an update, for each token, by the label of the cell.
    """
    runs = [(run, run.read()) for run in planned]
    for run, outcome in runs:
        keep_influences(run, outcome.scores.keys() & run.test_sets.keys())
    results = results_of(study, cells, runs, operations)
    grids = grids_of(study, results, runs)
    figures = _figures(study, results, runs)
    facts, words = _facts(study, runs, command), in_words(study, results, grids)
    tables = tables_of(study, results, grids)
    make_folder(out / "figures")
    remove_leftovers(out / "figures")
    for name, (png, _) in figures.items():
        write_bytes(out / "figures" / name, png)
    ours = {*out.glob("figures/effects-*.png"), *out.glob("figures/test-sets-*.png")}
    for old in ours - {out / "figures" / name for name in figures}:
        old.unlink()  # of a metric that the study no longer has
    write_text(out / "results.csv", results_csv(study, runs))
    write_text(out / "report.md", _markdown(study, facts, words, tables, figures, runs))
    write_text(out / "report.tex", "\n".join(latex(each) for each in tables))
    write_text(out / "report.html", _html(study, facts, words, tables, figures, runs))
    return results, grids


def title_of(study: Study) -> str:
    """For people."""
    return study.about.get("title", study.name)


def _figures(study: Study, results: Sequence[Result], runs: Sequence[Run]) -> Figures:
    found = {"curves.png": (learning_curves(results, curves_of(runs)), "Learning curves of all cells.")}
    for metric in study.metrics:
        found[f"effects-{metric.replace('.', '-')}.png"] = (forest(metric, results), f"Effects on {metric}.")
    for score in dict.fromkeys(metric.partition(".")[2] for metric in study.metrics
                               if metric not in MEASURED):
        found[f"test-sets-{score}.png"] = (over_test_sets(study, results, score), f"{score} over the test sets.")
    return {name: (png, caption) for name, (png, caption) in found.items() if png is not None}


def _facts(study: Study, runs: Sequence[Run], command: str) -> list[tuple[str, str]]:
    trained = [(planned, outcome) for planned, outcome in runs if outcome.trained is not None]
    facts = [("question", study.about.get("question", "")), ("command", command), ("base", study.base),
             ("design", "every combination" if study.design == "grid" else "one change at a time from the baseline"),
             ("seeds", ", ".join(map(str, study.seeds))), ("budget", f"{study.budget} a run{_paid(study, trained)}"),
             ("runs", f"{len(trained)} trained, {sum(o.diverged is not None for _, o in runs)} diverged, "
                      f"of {len(runs)}")]
    if trained:
        facts.append(("made with", "; also with ".join(dict.fromkeys(_made_with(*one) for one in trained))))
        at_once = sorted({o.at_once for _, o in trained})
        facts.append(("speed", f"measured with {' or '.join(map(str, at_once))} run{'s' * (at_once != [1])} at once"))
    facts.append(("written", time.strftime("%Y-%m-%d")))
    return [(name, value) for name, value in facts if value]


def _made_with(planned: Planned, outcome: Outcome) -> str:
    """Versions and the machine, as far as the run's folder still tells; threads, where its version noted them."""
    threads = f"{so_many(outcome.threads, 'thread')} a run" if outcome.threads else ""
    path = planned.folder / ENVIRONMENT
    made = read_json(path) if path.exists() else None
    told = (threads, "in a folder that is gone") if made is None else (
        f"pellucid {made['pellucid']}", f"torch {made['packages']['torch']}", made["processor"], threads,
        f"{made['precision']} products")
    return ", ".join(filter(None, told))


def _paid(study: Study, trained: Sequence[Run]) -> str:
    """The updates that a budget of tokens or minutes came to."""
    steps = sorted({outcome.trained["step"] for _, outcome in trained if outcome.trained is not None})
    if study.budget.steps is not None or not steps:
        return ""
    measured = f", as measured before the first run, {MEASUREMENT}" if study.budget.minutes is not None else ""
    return f": {steps[0]:,}{f' to {steps[-1]:,}' if len(steps) > 1 else ''} updates{measured}"


def _commands(runs: Sequence[Run]) -> str:
    return "".join(shlex.join(words) + "\n" for planned, _ in runs for words in planned.commands.values())


def markdown(one: Table) -> str:
    """The table in Markdown."""
    def row(cells: Sequence[str]) -> str:
        return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |\n"

    rule = "|" + "|".join("---:" if i in one.numbers else "---" for i in range(len(one.head))) + "|\n"
    return f"## {one.title}\n\n{one.lead}\n\n{row(one.head)}{rule}{''.join(map(row, one.rows))}"


def latex(one: Table) -> str:
    """The table in LaTeX; it needs the package booktabs."""
    columns = "".join("r" if i in one.numbers else "l" for i in range(len(one.head)))
    body = "".join(" & ".join(map(escaped, row)) + " \\\\\n" for row in one.rows)
    return (f"% {one.title}: {one.lead}\n\\begin{{tabular}}{{{columns}}}\n\\toprule\n"
            f"{' & '.join(map(escaped, one.head))} \\\\\n\\midrule\n{body}\\bottomrule\n\\end{{tabular}}\n")


def escaped(cell: str) -> str:
    """Plain text as LaTeX writes it."""
    signs = {"\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{",
             "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "−": "$-$", "±": r"$\pm$",
             "×": r"$\times$", "↓": r"$\downarrow$", "↑": r"$\uparrow$", "–": "--", "<": "$<$", ">": "$>$"}
    return "".join(signs.get(c, c) for c in cell)


def _markdown(study: Study, facts: Sequence[tuple[str, str]], words: Sequence[str], tables: Sequence[Table],
              figures: Figures, runs: Sequence[Run]) -> str:
    told = "".join(f"- **{name}**: {f'`{value}`' if name == 'command' else value}\n" for name, value in facts)
    said = "".join(f"- {sentence}\n" for sentence in words)
    pictures = "".join(f"![{caption}](figures/{name})\n\n" for name, (_, caption) in figures.items())
    first, *rest = map(markdown, tables)
    return (f"# {title_of(study)}\n\n{told}\n## In words\n\n{said}\n{first}\n## Figures\n\n{pictures}"
            + "\n".join(rest) + f"\n## The exact commands\n\n```\n{_commands(runs)}```\n")


def _html(study: Study, facts: Sequence[tuple[str, str]], words: Sequence[str], tables: Sequence[Table],
          figures: Figures, runs: Sequence[Run]) -> str:
    def section(anchor: str, one: Table) -> Section:
        rows = [[text(cell) for cell in row] for row in one.rows]
        return Section(anchor, one.title, one.lead, table([text(cell) for cell in one.head], rows, one.numbers))

    first, *rest = [section(f"table-{i}", one) for i, one in enumerate(tables)]
    pictures = "".join(picture(png, caption) for png, caption in figures.values())
    commands = (f'<details><summary>{so_many(len(runs), "run")}</summary>'
                f'<pre class="wide">{text(_commands(runs))}</pre></details>')
    return page(title_of(study), facts, [
        Section("words", "In words", "What the tests say.", "".join(map(paragraph, words))), first,
        Section("figures", "Figures", "Bands are over seeds, intervals those of the tables.", pictures), *rest,
        Section("commands", "The exact commands", "Each run alone; the study's own command runs them all.", commands)],
        "en")
