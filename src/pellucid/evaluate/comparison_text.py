"""How runs compare, for a terminal of 80 columns: keys in which they differ, one table of many, two side by side."""

import textwrap
from collections.abc import Iterator, Sequence
from string import ascii_lowercase
from typing import Any

from pellucid.evaluate.translation import LOWERCASE
from pellucid.language import shortened

COLUMNS = ("a - b: the difference, above 0 where a's score is higher, with its 95 % interval. p: how often chance "
           "alone would make one as large between equal runs, by drawing the sources anew (boot: paired bootstrap), "
           "and by exchanging the runs' outputs (random: approximate randomisation). p Holm: the first p, corrected "
           "for the number of pairs, of the one score that was chosen before; exploratory: a score beside it, whose p "
           "is not corrected.")
_SHOWN = 5  # sentences on the terminal
_SENTENCE = 65  # characters of a sentence there
_WIDTH = 78
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


def keys_of(report: Report) -> Iterator[str]:
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
        yield from textwrap.wrap(f"{row['key']}  {text}", _WIDTH, initial_indent="  ", subsequent_indent="      ")


def _value(value: Any) -> str:
    text = "null" if value is None else str(value).lower() if isinstance(value, bool) else " ".join(str(value).split())
    return text if len(text) <= _VALUE else "…" + text[1 - _VALUE:]


def table(report: Report) -> Iterator[str]:
    """Many runs as one table: the chosen score with its interval, what else compares all of them, and every two."""
    runs, rows = report["runs"], report["comparison"]
    names, pairs = letters(len(runs)), len(report["differences"])
    chosen = report["differences"][0]["score"]
    compared = [row["score"] for row in rows]
    others = [score for score in dict.fromkeys(compared) if score != chosen and compared.count(score) == pairs]
    widths = [max(8, len(_plain(score)) + 2) for score in others]
    case = ", in lower case" if chosen.endswith(LOWERCASE) else ""
    yield f"{runs[0]['split']}, {runs[0]['n']:,} examples{case}"
    yield from (f"  {name}  {run['run']}" for name, run in zip(names, runs, strict=True))
    yield ""
    yield (f"  {'':<3}{_plain(chosen):>10}   {'95 % interval':<18}"
           + "".join(f"{_plain(score):>{width}}" for score, width in zip(others, widths, strict=True)))
    for name, run in zip(names, runs, strict=True):
        low, high = (told(chosen, bound) for bound in run["interval"][chosen])
        yield (f"  {name:<3}{told(chosen, run[chosen]):>10}   " + f"{low} to {high}".ljust(18)
               + "".join(f"{told(score, run[score]):>{width}}" for score, width in zip(others, widths, strict=True)))
    yield f"\n  {_plain(chosen)}, every two"
    yield from _head()
    by_run = {run["run"]: name for name, run in zip(names, runs, strict=True)}
    yield from (_row(f"{by_run[row['a']]} - {by_run[row['b']]}", row) for row in rows if row["score"] == chosen)
    yield from _wrapped(COLUMNS)
    split, first = runs[0]["split"], runs[0]["run"]
    yield from _wrapped(f"Each run's scores with intervals and signatures are in its evaluation/{split}.json; every "
                        "two runs by length, by word frequency and by sentence in "
                        f"{first}/evaluation/{split}-comparison.md.")


def _plain(score: str) -> str:
    name = score.removesuffix(LOWERCASE)
    return "nats/char" if name == "nats_per_character" else name


def _head() -> Iterator[str]:
    yield f"  {'':<18}{'a - b':>8}   {'95 % interval':<17}{'p boot':>8}{'p random':>10}{'p Holm':>13}"


def _row(name: str, row: dict[str, Any]) -> str:
    low, high = row["interval"]
    places = 3 if row["score"] == "nats_per_character" else 2
    holm = "exploratory" if row["p_holm"] is None else f"{row['p_holm']:.4f}"
    return (f"  {name:<18}{row['difference']:>+8.{places}f}   " + f"{low:+.{places}f} to {high:+.{places}f}".ljust(17)
            + f"{row['p']:>8.4f}{row['p_randomisation']:>10.4f}{holm:>13}")


def _wrapped(text: str) -> Iterator[str]:
    yield from (f"  {line}" for line in textwrap.wrap(text, _WIDTH))


def compared(detail: dict[str, Any], rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Two runs beside each other."""
    yield f"a = {detail['a']}\nb = {detail['b']}\n"
    yield from _head()
    yield from (_row(row["score"], row) for row in rows if (row["a"], row["b"]) == (detail["a"], detail["b"]))
    yield from _wrapped(COLUMNS)
    yield from (line for note in detail["notes"] for line in _wrapped(note))
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
    yield from _sentences(detail)


def _sentences(detail: dict[str, Any]) -> Iterator[str]:
    sentences = detail["sentences"][:_SHOWN]
    if sentences:
        count = len(detail["sentences"])
        yield f"\n  The sentences that differ most, by {detail['sentences_by']} ({count} are in evaluation/ of a)"
    for one in sentences:
        yield f"  line {one['line']:,}: a {one['a']:.1f}, b {one['b']:.1f}"
        for name, key in (("source", "source"), ("reference", "reference"), ("a", "output_a"), ("b", "output_b")):
            yield f"    {name:<10} {shortened(' '.join(one[key].split()), _SENTENCE)}"
