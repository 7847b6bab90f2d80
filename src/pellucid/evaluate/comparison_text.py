"""How runs compare, for a terminal: keys in which they differ, one table of many, two side by side; where it has fewer
than 80 columns, each row of a table as lines below each other."""

import math
import textwrap
from collections.abc import Iterator, Sequence
from string import ascii_lowercase
from typing import Any

from pellucid.evaluate.reading import OF_READERS, OPEN
from pellucid.evaluate.translation import LOWERCASE
from pellucid.language import as_written, fitted, shortened, so_many

COLUMNS = ("a - b: the difference, above 0 where a's score is higher (which is worse of ter, perplexity and "
           "nats_per_character), with its 95 % interval. p: how often chance "
           "alone would make one as large between equal runs, by drawing the sources anew (boot: paired bootstrap), "
           "and by exchanging the runs' outputs (random: approximate randomisation). p Holm: the first p, corrected "
           "for the number of pairs, of the one score that was chosen before; exploratory: a score beside it, whose p "
           "is not corrected.")
_SHOWN = 5  # sentences on the terminal
_BESIDE = 15  # columns that are not the sentence's there
_MOST = 78  # columns of a sentence of ours
_LONG = 1e6  # what is as large is told by its power of ten: a perplexity's bound has no end
_VALUE = 24  # characters of a key's value

Report = dict[str, Any]


def letters(count: int) -> list[str]:
    """What so many runs are called: a, b, …; numbers where those do not suffice."""
    return list(ascii_lowercase[:count]) if count <= len(ascii_lowercase) else [str(i + 1) for i in range(count)]


def told(name: str, value: float | None) -> str:
    """A score with the digits that it deserves."""
    if value is None:
        return "∞"
    return f"{value:.{4 if name == 'nats_per_character' else 2}{'f' if abs(value) < _LONG else 'e'}}"


def signed(value: float, places: int) -> str:
    """A difference, or a bound of one: there may be none."""
    if math.isinf(value):
        return "+∞" if value > 0 else "-∞"
    return f"{value:+.{places}{'f' if abs(value) < _LONG else 'e'}}"


def examples_of(run: Report) -> str:
    """``24 examples``; where some share their source, ``24 examples of 12 sources``."""
    sources = f" of {so_many(run['sources'], 'source')}" if run["sources"] < run["n"] else ""
    return so_many(run["n"], "example") + sources


def by_length_of(detail: dict[str, Any]) -> str:
    """The title of the groups by length: readers' are of the questions, which share their passage."""
    return f"{detail['score']} by length of the {'question' if detail['score'] in (*OF_READERS, *OPEN) else 'source'}"


def keys_of(report: Report, width: int) -> Iterator[str]:
    """The keys of the configuration in which the runs differ, and who has what."""
    names = letters(len(report["runs"]))
    if not report["keys"]:
        yield "The runs have the same configuration."
        return
    yield "The configurations differ in"
    for row in report["keys"]:
        holders: dict[str, list[str]] = {}
        for name, value in zip(names, row["values"], strict=True):
            holders.setdefault(_value(value), []).append(name)
        text = "; ".join(f"{', '.join(own)}: {value}" for value, own in holders.items())
        yield from textwrap.wrap(f"{row['key']}  {text}", min(_MOST, width), initial_indent="  ",
                                 subsequent_indent="      ")


def _value(value: Any) -> str:
    text = as_written(value)
    return text if len(text) <= _VALUE else "…" + text[1 - _VALUE:]


def table(report: Report, width: int) -> Iterator[str]:
    """Many runs as one table: the chosen score with its interval, what else compares all of them, and every two."""
    runs, rows = report["runs"], report["comparison"]
    names, pairs = letters(len(runs)), len(report["differences"])
    chosen = report["differences"][0]["score"]
    compared = [row["score"] for row in rows]
    others = [score for score in dict.fromkeys(compared) if score != chosen and compared.count(score) == pairs]
    widths = [max(8, len(_plain(score)) + 2) for score in others]
    case = ", in lower case" if chosen.endswith(LOWERCASE) else ""
    yield f"{runs[0]['split']}, {examples_of(runs[0])}{case}"
    yield from (f"  {name}  {run['run']}" for name, run in zip(names, runs, strict=True))
    yield ""
    lines = [f"  {'':<3}{_plain(chosen):>10}   {'95 % interval':<18}"
             + "".join(f"{_plain(score):>{room}}" for score, room in zip(others, widths, strict=True))]
    records = list[tuple[str, list[str]]]()
    for name, run in zip(names, runs, strict=True):
        interval = " to ".join(told(chosen, bound) for bound in run["interval"][chosen])
        more = [told(score, run[score]) for score in others]
        lines.append(f"  {name:<3}{told(chosen, run[chosen]):>10}   {interval:<18}"
                     + "".join(f"{value:>{room}}" for value, room in zip(more, widths, strict=True)))
        records.append((name, [f"{_plain(chosen)} {told(chosen, run[chosen])}", f"({interval})",
                               *(f"{_plain(score)} {value}" for score, value in zip(others, more, strict=True))]))
    yield from fitted(lines, records, width)
    yield f"\n  {_plain(chosen)}, every two"
    by_run = {run["run"]: name for name, run in zip(names, runs, strict=True)}
    yield from _tests([(f"{by_run[row['a']]} - {by_run[row['b']]}", row) for row in rows if row["score"] == chosen],
                      width)
    yield from _wrapped(COLUMNS, width)
    split, first = runs[0]["split"], runs[0]["run"]
    yield from _wrapped(f"Each run's scores with intervals and signatures are in its evaluation/{split}.json; every "
                        "two runs by length, by word frequency and by sentence in "
                        f"{first}/evaluation/{split}-comparison.md.", width)


def _plain(score: str) -> str:
    name = score.removesuffix(LOWERCASE)
    return "nats/char" if name == "nats_per_character" else name


def _tests(rows: Sequence[tuple[str, dict[str, Any]]], width: int) -> Iterator[str]:
    """Differences with what both tests say of them, each under its name."""
    lines = [f"  {'':<18}{'a - b':>8}   {'95 % interval':<17}{'p boot':>8}{'p random':>10}{'p Holm':>13}"]
    records = list[tuple[str, list[str]]]()
    for name, row in rows:
        places = 3 if row["score"] == "nats_per_character" else 2
        interval = " to ".join(signed(bound, places) for bound in row["interval"])
        holm = "exploratory" if row["p_holm"] is None else f"{row['p_holm']:.4f}"
        lines.append(f"  {name:<18}{row['difference']:>+8.{places}f}   {interval:<17}"
                     f"{row['p']:>8.4f}{row['p_randomisation']:>10.4f}{holm:>13}")
        records.append((name, [f"a - b {row['difference']:+.{places}f}", f"({interval})", f"p boot {row['p']:.4f}",
                               f"p random {row['p_randomisation']:.4f}",
                               holm if row["p_holm"] is None else f"p Holm {holm}"]))
    yield from fitted(lines, records, width)


def _wrapped(text: str, width: int) -> Iterator[str]:
    yield from (f"  {line}" for line in textwrap.wrap(text, min(_MOST, width - 2)))


def compared(detail: dict[str, Any], rows: Sequence[dict[str, Any]], width: int) -> Iterator[str]:
    """Two runs beside each other."""
    yield f"a = {detail['a']}\nb = {detail['b']}\n"
    yield from _tests([(row["score"], row) for row in rows if (row["a"], row["b"]) == (detail["a"], detail["b"])],
                      width)
    yield from _wrapped(COLUMNS, width)
    yield from (line for note in detail["notes"] for line in _wrapped(note, width))
    for title, key in ((by_length_of(detail), "by_length"), ("F1 of words", "by_frequency")):
        if detail.get(key):
            where = f", by how often in {detail['frequency_in']}" if key == "by_frequency" else ""
            yield ""
            yield from _wrapped(title + where, width)
            yield from _groups(detail[key], width)
    yield from _sentences(detail, width)


def _groups(groups: Sequence[dict[str, Any]], width: int) -> Iterator[str]:
    """A score of both runs on some of the sentences or words."""
    lines = [f"  {'':<20}{'n':>8}{'a':>8}{'b':>8}{'a - b':>9}   95 % interval"]
    records = list[tuple[str, list[str]]]()
    for g in groups:
        interval = " to ".join(signed(bound, 2) for bound in g["interval"])
        lines.append(f"  {g['group']:<20}{g['n']:>8,}{g['a']:>8.2f}{g['b']:>8.2f}{g['difference']:>+9.2f}   {interval}")
        records.append((g["group"], [f"n {g['n']:,}", f"a {g['a']:.2f}", f"b {g['b']:.2f}",
                                     f"a - b {g['difference']:+.2f}", f"({interval})"]))
    yield from fitted(lines, records, width)


def _sentences(detail: dict[str, Any], width: int) -> Iterator[str]:
    sentences = detail["sentences"][:_SHOWN]
    if sentences:
        count = len(detail["sentences"])
        yield ""
        yield from _wrapped(f"The sentences that differ most, by {detail['sentences_by']} ({count} in evaluation/ of "
                            "a)", width)
    for one in sentences:
        yield f"  line {one['line']:,}: a {one['a']:.1f}, b {one['b']:.1f}"
        for name, key in (("source", "source"), ("reference", "reference"), ("a", "output_a"), ("b", "output_b")):
            yield f"    {name:<10} {shortened(' '.join(one[key].split()), min(_MOST + 2, width) - _BESIDE)}"
