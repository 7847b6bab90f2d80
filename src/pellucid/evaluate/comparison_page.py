"""The page that tells how runs compare."""

import re
from typing import Any

from pellucid.evaluate.comparison_text import by_length_of, examples_of, signed
from pellucid.language import as_written


def as_markdown(report: dict[str, Any]) -> str:
    """The comparison as a page: a table of scores, tables of differences, and the sentences."""
    lines = [f"# Runs compared on {report['runs'][0]['split']}, {examples_of(report['runs'][0])}", "",
             "p: paired bootstrap (Koehn 2004), and approximate randomisation (Riezler and Maxwell 2005). Intervals "
             "are 95 %, of the difference a − b. One score was chosen before; its p, Holm is the first p, corrected "
             "over all pairs of runs. The other scores are exploratory. Of ter, perplexity and nats_per_character, "
             "less is better."]
    if report["keys"]:
        runs = [run["run"] for run in report["runs"]]
        lines += ["", f"| key of the configuration | {' | '.join(map(_escaped, runs))} |",
                  "|---" * (len(runs) + 1) + "|"]
        lines += [f"| {row['key']} | {' | '.join(_escaped(as_written(value)) for value in row['values'])} |"
                  for row in report["keys"]]
    for detail in report["differences"]:
        a, b = detail["a"], detail["b"]
        lines += ["", f"## a = {a}, b = {b}", ""]
        lines += ["| score | a − b | interval | p, bootstrap | p, randomisation | p, Holm |",
                  "|---|---|---|---|---|---|"]
        lines += [_row(row) for row in report["comparison"] if (row["a"], row["b"]) == (a, b)]
        lines += [text for note in detail["notes"] for text in ("", _escaped(note) + ".")]
        for title, key in ((by_length_of(detail), "by_length"),
                           (f"F₁ of words, by how often they are in {detail.get('frequency_in')}", "by_frequency")):
            if detail.get(key):
                lines += ["", f"### {title}", "", "| group | n | a | b | a − b | interval |",
                          "|---|---|---|---|---|---|"]
                lines += [f"| {g['group']} | {g['n']:,} | {g['a']:.2f} | {g['b']:.2f} | {g['difference']:+.2f} | "
                          f"{' to '.join(signed(bound, 2) for bound in g['interval'])} |" for g in detail[key]]
        if detail["sentences"]:
            lines += ["", f"### The sentences that differ most, by {detail['sentences_by']}"]
        for one in detail["sentences"]:
            lines += ["", f"Line {one['line']}: a {one['a']:.1f}, b {one['b']:.1f}", ""]
            lines += [f"- {name}: {_escaped(one[key])}" for name, key in
                      (("source", "source"), ("reference", "reference"), ("a", "output_a"), ("b", "output_b"))]
    return "\n".join(lines) + "\n"


def _row(row: dict[str, Any]) -> str:
    interval = " to ".join(signed(bound, 3) for bound in row["interval"])
    holm = "exploratory" if row["p_holm"] is None else f"{row['p_holm']:.4f}"
    return (f"| {row['score']} | {row['difference']:+.3f} | {interval} | {row['p']:.4f} | "
            f"{row['p_randomisation']:.4f} | {holm} |")


def _escaped(text: str) -> str:
    """Text that Markdown shows as it is."""
    return re.sub(r"([\\`*_\[\]<>#|&])", r"\\\1", " ".join(text.splitlines()))
