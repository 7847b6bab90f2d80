"""A reader's scores on its own passages and on those of an index, beside each other, for a
terminal; where it has fewer than 80 columns, each row as lines below each other."""

import textwrap
from collections.abc import Iterator
from typing import Any

from pellucid.language import fitted

_ROWS = ("em", "f1", "sentence_right", "floor_em", "floor_f1", "floor_sentence_right")
_MOST = 78  # columns of a sentence of ours
_WHAT = ("closed: from each question's own passage. open: from the passages of the index. floor: the sentence that "
         "shares most terms with the question, of its own passage or of the best one found. sentence_right: the answer "
         "stands in a sentence with a right one. recall: the own passage is among the first.")


def beside(run: dict[str, Any], width: int) -> Iterator[str]:
    """The report of a run that was given an index, as `evaluate.answering.score_reader` makes it."""
    rows = [(name, _cells(run, name), _cells(run, f"open_{name}")) for name in _ROWS]
    rows += [(name, "", _cells(run, name)) for name in run if name.startswith("recall_at_")]
    rows.append(("answered", f"{run['answered']:>8,}", f"{run['open_answered']:>8,}"))
    yield f"  open: the {run['k']} best passages of {run['index']}\n"
    lines = [f"  {'':<20}{'closed':>8}   {'95 % interval':<17}{'open':>8}   95 % interval"]
    records = list[tuple[str, list[str]]]()
    for name, closed, opened in rows:
        lines.append(f"  {name:<20}{closed:<28}{opened}".rstrip())
        records.append((name, [f"{kind} {' '.join(cell.split())}"
                               for kind, cell in (("closed", closed), ("open", opened)) if cell]))
    yield from fitted(lines, records, width)
    yield ""
    lines, records = [f"  {'':<30}{'a - b':>8}   {'95 % interval':<17}{'p boot':>8}"], []
    for row in run["beside"]:
        interval = "{:+.2f} to {:+.2f}".format(*row["interval"])
        pair = f"{row['a']} - {row['b']}".replace("open - open floor", "open - floor")
        name = f"{row['score']:<14}  {pair}"
        lines.append(f"  {name:<30}{row['difference']:>+8.2f}   {interval:<17}{row['p']:>8.4f}")
        records.append((f"{row['score']}, {pair}", [f"a - b {row['difference']:+.2f}", f"({interval})",
                                                    f"p boot {row['p']:.4f}"]))
    yield from fitted(lines, records, width)
    for text in filter(None, (run["note"], _WHAT)):
        yield from (f"  {line}" for line in textwrap.wrap(text, min(_MOST, width - 2)))


def _cells(run: dict[str, Any], name: str) -> str:
    if run.get(name) is None:
        return f"{'unknown':>8}" * (name in run)
    low, high = run["interval"][name]
    return f"{run[name]:>8.2f}   {low:.2f} to {high:.2f}"
