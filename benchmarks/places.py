"""Where the figures of claims.yaml stand in the text, and whether every number of a table stands there.

What is wrong is told in sentences: a number that no line holds, a place that is not there any more, a cell that reads
otherwise than its line says, a number outside of its own band, one that is written differently in two places. Pages in
Chinese repeat the figures of their English ones, by cell and by paragraph, and need no lines of their own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from benchmarks.claims import ROOT, Band, Claims, Line
from benchmarks.tables import NUMBER, Cell, Number, cells, paragraphs, sections

_NAME = re.compile(r"\{(?:([\w-]+)[.])?(\w+)\}")  # a figure, or another line's


@dataclass(frozen=True)
class Spot:
    """A number of the text that a line makes again: a figure, or a number of a cell of a table that is printed.

    Args:
        name: of the figure; of a cell ``row > column``.
        column: of such a cell, which has the band.
        order: which number of the cell, from 0.
    """

    line: str
    name: str
    page: str
    place: str
    number: Number
    column: str = ""
    order: int = 0

    def band(self, bands: dict[str, Band]) -> Band | None:
        """Its own, or that of its column."""
        return bands.get(self.name, bands.get(self.column))


def read_pages(root: Path = ROOT) -> dict[str, str]:
    """README and docs in each language, without the studies, whose reports are written by `pellucid ablate`."""
    paths = sorted([*root.glob("README*.md"), *root.glob("docs/*.md"), *root.glob("docs/zh-CN/*.md")])
    return {path.relative_to(root).as_posix(): path.read_text(encoding="utf-8") for path in paths}


def english(page: str) -> str:
    """The page that one in Chinese repeats (X.md of X.zh-CN.md and of zh-CN/X.md); empty for any other."""
    original = re.sub(r"(?:[.]zh-CN(?=[.]md$)|(?<=/)zh-CN/(?=[^/]+$))", "", page)
    return original if original != page else ""


def find(claims: Claims, pages: dict[str, str]) -> tuple[list[Spot], list[str]]:
    """Every spot, and every fault."""
    table = [cell for page, text in pages.items() for cell in cells(page, text)]
    spots: list[Spot] = []
    faults: list[str] = []
    for line in claims.lines.values():
        for place, template in line.text.items():
            _add(spots, faults, _spots_of_text(claims, line, place, template, pages, table))
        for place in line.tables:
            _add(spots, faults, _spots_of_table(line, place, table))
    for page in filter(english, pages):
        _add(spots, faults, _mirrored(page, pages, spots))
    faults += _unheld(claims, table, spots)
    faults += [fault for line in claims.lines.values() for fault in _outside(line, spots)]
    return spots, [*faults, *_disagreements(spots)]


def within(value: float, band: Band | None) -> bool:
    """Whether a number is in its band; any is where there is none."""
    return band is None or band[0] - 1e-9 <= value <= band[1] + 1e-9


def _add(spots: list[Spot], faults: list[str], found: Iterable[Spot | str]) -> None:
    for one in found:
        if isinstance(one, Spot):
            spots.append(one)
        else:
            faults.append(one)


def _spots_of_text(claims: Claims, line: Line, place: str, template: str, pages: dict[str, str],
                   table: list[Cell]) -> Iterator[Spot | str]:
    names = [(owner or line.name, name) for owner, name in _NAME.findall(template)]
    for owner, name in names:
        if owner not in claims.lines or name not in claims.lines[owner].figures:
            yield f"{line.name}: {place} has {{{name}}}, which is no figure of {owner}"
            return
    pattern = _pattern(template)
    page, heading, *rest = place.split(" > ", 3)
    if rest:
        near = [cell for cell in table if (cell.page, cell.heading, cell.column) == (page, heading, rest[-1])
                and cell.row.startswith(rest[0])]
        bodies = [(cell.text, cell.start) for cell in [cell for cell in near if cell.row == rest[0]] or near]
        found = [(re.fullmatch(pattern, text), start) for text, start in bodies]
    else:
        bodies = [(body, start) for name, start, body in sections(pages.get(page, "")) if name == heading]
        found = [(re.search(pattern, body), start) for body, start in bodies]
    if len(bodies) != 1:
        yield f"{line.name}: {place} is in the text {len(bodies)} times"
        return
    (match, start), = found
    if match is None:
        told = f"the text says: {bodies[0][0]}" if rest else "it is not there"
        yield f"{line.name}: {place} should read: {template}\n  {told}"
        return
    for i, (owner, name) in enumerate(names, start=1):
        yield Spot(owner, name, page, place, Number(match[i], start + match.start(i)))


def _pattern(template: str) -> str:
    pieces = _NAME.sub("\0", template).split("\0")
    return f"({NUMBER})".join(r"\s+".join(map(re.escape, re.split(r"\s+", piece))) for piece in pieces)


def _spots_of_table(line: Line, place: str, table: list[Cell]) -> Iterator[Spot | str]:
    held = [cell for cell in table if fnmatchcase(cell.place, place)]
    if not any(cell.numbers for cell in held):
        yield f"{line.name}: {place} is not in the text"
    known = {name for cell in held for name in (cell.column, f"{cell.row} > {cell.column}")}
    for column in set(line.tables[place]) - known:
        yield f"{line.name}: {place} has no {column}"
    for cell in held:
        for order, number in enumerate(cell.numbers):
            yield Spot(line.name, f"{cell.row} > {cell.column}", cell.page, cell.place, number, cell.column, order)


def _mirrored(page: str, pages: dict[str, str], spots: list[Spot]) -> Iterator[Spot | str]:
    """The figures of a page in Chinese: those of the same cell or paragraph in English, in any order."""
    copies, originals = _pieces(page, pages[page]), _pieces(english(page), pages.get(english(page), ""))
    if len(copies) != len(originals):
        yield f"{page} has {len(copies)} cells and paragraphs, {english(page)} {len(originals)}"
        return
    by_start = {spot.number.start: spot for spot in spots if spot.page == english(page)}
    for (place, left), (place_of_original, held) in zip(copies, originals):
        for spot in [by_start[number.start] for number in held if number.start in by_start]:
            twin = next((one for one in left if one.text == spot.number.text), None)
            if twin is None:
                yield f"{place} has no {spot.number.text}, as {place_of_original} has"
            else:
                left.remove(twin)
                yield Spot(spot.line, spot.name, page, place, twin, spot.column, spot.order)


def _pieces(page: str, text: str) -> list[tuple[str, list[Number]]]:
    """Each cell, then each paragraph that has a number, with its numbers."""
    return ([(cell.place, cell.numbers) for cell in cells(page, text)]
            + [(f"{page} > {heading}", found) for heading, found in paragraphs(text) if found])


def _unheld(claims: Claims, table: list[Cell], spots: list[Spot]) -> Iterator[str]:
    """Cells with a number that no line makes and that is no setting; and settings that are nowhere."""
    held = {(spot.page, spot.place) for spot in spots}
    starts = {(spot.page, spot.number.start) for spot in spots}
    for cell in table:
        of_line = any((cell.page, number.start) in starts for number in cell.numbers) or (cell.page, cell.place) in held
        is_setting = any(fnmatchcase(cell.place, place) for place in claims.settings)
        if cell.numbers and not (of_line or is_setting or english(cell.page)):
            yield f"no line of claims.yaml holds {cell.place}: {cell.text}"
    for place in claims.settings:
        if not any(cell.numbers and fnmatchcase(cell.place, place) for cell in table):
            yield f"settings: {place} is not in the text"


def _outside(line: Line, spots: list[Spot]) -> Iterator[str]:
    bands = line.bands(is_quick=False)
    for spot in spots:
        band = spot.band(bands)
        if spot.line == line.name and not within(spot.number.value, band):
            assert band is not None
            yield f"{line.name}: {spot.place} says {spot.number.text}, outside of its band {band[0]:g} to {band[1]:g}"


def _disagreements(spots: list[Spot]) -> Iterator[str]:
    """One figure is the same in every place, but for its rounding."""
    first: dict[tuple[str, str, int], Spot] = {}
    for spot in spots:
        other = first.setdefault((spot.line, spot.name, spot.order), spot)
        coarser = min(spot, other, key=lambda one: len(one.number.text.partition(".")[2])).number
        decimals = len(coarser.text.partition(".")[2])
        if abs(spot.number.value - other.number.value) > 0.51 * 10 ** -decimals:
            yield (f"{spot.line}: {spot.name} is {other.number.text} in {other.place}, "
                   f"{spot.number.text} in {spot.place}")


