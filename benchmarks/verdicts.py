"""Numbers that were made again beside those of the text: which moved, which fell out of their band, the new text."""

from __future__ import annotations

import difflib
from collections import Counter
from dataclasses import dataclass
from typing import Any, Literal

from benchmarks.claims import Band, Line
from benchmarks.places import Spot, within

State = Literal["as it was", "moved", "made", "outside", "lacking", "failed"]


@dataclass(frozen=True)
class Verdict:
    """What became of one number of a line.

    Args:
        spot: where it stands in the text; None for a figure that stands nowhere.
        new: as the text would write it.
        message: in words, where there is more to say.
    """

    line: str
    name: str
    state: State
    spot: Spot | None = None
    new: str = ""
    message: str = ""

    @property
    def is_wrong(self) -> bool:
        """Whether `make results` fails because of it."""
        return self.state in ("outside", "lacking", "failed")

    def __str__(self) -> str:
        old = f"{self.spot.number.text} in the text," if self.spot else ""
        return " ".join(filter(None, [f"{self.state:9} {self.name}:", old, self.new, self.message]))


def judge(line: Line, outcome: dict[str, Any], spots: list[Spot], is_quick: bool) -> list[Verdict]:
    """A verdict for each number of the line that was made, and for each that was not and has a band or, unless
    `is_quick`, stands in a table."""
    bands = line.bands(is_quick)
    values: dict[str, list[float]] = outcome["values"]
    verdicts: list[Verdict] = []
    where = f"(text: {line.measured}; here: {outcome['machine']['processor']}, {outcome['date']})"
    own = [spot for spot in spots if spot.line == line.name]
    for spot in own:
        made, band = values.get(spot.name, []), spot.band(bands)
        if spot.order >= len(made):
            if spot.column and not is_quick:
                verdicts.append(Verdict(line.name, spot.name, "lacking", spot, message="and was not printed"))
            continue
        new = spot.number.styled(made[spot.order])
        if not within(made[spot.order], band):
            verdicts.append(Verdict(line.name, spot.name, "outside", spot, new, f"{_missed(band)} {where}"))
        elif is_quick or new == spot.number.text:
            verdicts.append(Verdict(line.name, spot.name, "made" if is_quick else "as it was", spot, new))
        else:
            verdicts.append(Verdict(line.name, spot.name, "moved", spot, new, where))
    seen = {(spot.name, spot.order) for spot in own}
    for name, numbers in values.items():  # what stands nowhere in the text has its band, too
        band = bands.get(name, bands.get(name.rpartition(" > ")[2]))
        for number in (numbers[order] for order in range(len(numbers)) if band and (name, order) not in seen):
            verdicts.append(Verdict(line.name, name, "made", None, f"{number:,.6g}") if within(number, band) else
                            Verdict(line.name, name, "outside", None, f"{number:,.6g}", _missed(band)))
    return verdicts + [Verdict(line.name, name, "lacking", message="has a band and was not made") for name in bands
                       if not any(made == name or made.endswith(f" > {name}") for made in values)]


def _missed(band: Band | None) -> str:
    assert band is not None
    return f"is outside of its band {band[0]:g} to {band[1]:g}"


def told(verdicts: list[Verdict], faults: list[str], is_quick: bool) -> str:
    """The end of the report: how many numbers of each state, and every one that moved or is wrong."""
    counts = Counter(verdict.state for verdict in verdicts)
    lines = [", ".join(f"{count} {state}" for state, count in counts.items()) or "nothing was made"]
    shown = [verdict for verdict in verdicts if verdict.is_wrong or (verdict.state == "moved" and not is_quick)]
    lines += dict.fromkeys(f"{verdict.line}: {verdict}" for verdict in shown)
    return "\n".join([*lines, *faults])


def rewritten(pages: dict[str, str], verdicts: list[Verdict]) -> dict[str, str]:
    """The pages with the numbers that moved within their bands."""
    new = dict(pages)
    moved = {(v.spot.page, v.spot.number.start): v for v in verdicts if v.state == "moved" and v.spot}
    for (page, start), verdict in sorted(moved.items(), reverse=True):
        assert verdict.spot is not None
        end = start + len(verdict.spot.number.text)
        new[page] = new[page][:start] + verdict.new + new[page][end:]
    return new


def difference(old: dict[str, str], new: dict[str, str]) -> str:
    """Both as a patch for `git apply`."""
    return "".join(line for page in old for line in difflib.unified_diff(
        old[page].splitlines(keepends=True), new[page].splitlines(keepends=True), f"a/{page}", f"b/{page}"))
