"""A reader's scores on its own passages and on those of an index, beside each other, for a terminal of 80 columns."""

import textwrap
from collections.abc import Iterator
from typing import Any

_ROWS = ("em", "f1", "sentence_right", "floor_em", "floor_f1", "floor_sentence_right")
_WIDTH = 78
_WHAT = ("closed: from each question's own passage. open: from the passages of the index. floor: the sentence that "
         "shares most terms with the question, of its own passage or of the best one found. sentence_right: the answer "
         "stands in a sentence with a right one. recall: the own passage is among the first.")


def beside(run: dict[str, Any]) -> Iterator[str]:
    """The report of a run that was given an index, as `evaluate.answering.score_reader` makes it."""
    yield f"  open: the {run['k']} best passages of {run['index']}"
    yield f"\n  {'':<20}{'closed':>8}   {'95 % interval':<17}{'open':>8}   95 % interval"
    for name in _ROWS:
        yield _line(name, _cells(run, name), _cells(run, f"open_{name}"))
    for name in (name for name in run if name.startswith("recall_at_")):
        yield _line(name, "", _cells(run, name))
    yield _line("answered", f"{run['answered']:>8,}", f"{run['open_answered']:>8,}")
    yield f"\n  {'':<30}{'a - b':>8}   {'95 % interval':<17}{'p boot':>8}"
    for row in run["beside"]:
        low, high = row["interval"]
        name = f"{row['score']:<14}  {row['a']} - {row['b']}".replace("open - open floor", "open - floor")
        yield f"  {name:<30}{row['difference']:>+8.2f}   {f'{low:+.2f} to {high:+.2f}':<17}{row['p']:>8.4f}"
    for text in filter(None, (run["note"], _WHAT)):
        yield from (f"  {line}" for line in textwrap.wrap(text, _WIDTH))


def _line(name: str, closed: str, opened: str) -> str:
    return f"  {name:<20}{closed:<28}{opened}".rstrip()


def _cells(run: dict[str, Any], name: str) -> str:
    if run.get(name) is None:
        return f"{'unknown':>8}" * (name in run)
    low, high = run["interval"][name]
    return f"{run[name]:>8.2f}   {low:.2f} to {high:.2f}"
