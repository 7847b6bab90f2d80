"""The numbers of a page: cells of its Markdown tables, by heading, row and column, and sentences below a heading.

A row is named by its first column, or by as many as tell the rows apart ("short-tiny | nn.Transformer, fp32"; an empty
cell says what the one above it says). Of columns with the same name the second is "NAME 2". Code blocks are not read,
nor digits that are part of a name: `code`, links, fp32, AVX-512, 5-gram.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

NUMBER = r"[+\-−]?\d+(?:,\d{3})*(?:\.\d+)?"
_NUMBER = re.compile(rf"(?<![A-Za-z\d_.])(?<![A-Za-z\d]-){NUMBER}(?![A-Za-z\d_])(?!-[A-Za-z])(?!\.\d)")
_UNREAD = re.compile(r"`[^`]*`|\]\([^)]*\)")
_FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_CELL = re.compile(r"(?:[^|\\\n]|\\.)+|(?<=\|)(?=\|)")
_PARAGRAPH = re.compile(r"^(?:- +)?(?!\||- |\s).*(?:\n(?!\||- |\s*$).+)*", re.MULTILINE)  # or an item of a list
_RULE = re.compile(r"[|\s:-]+")


@dataclass(frozen=True)
class Number:
    """A number as it is written, and where in its page."""

    text: str
    start: int

    @property
    def value(self) -> float:
        """What it says."""
        return float(self.text.replace(",", "").replace("−", "-"))

    def styled(self, value: float) -> str:
        """Another value, written as this one is: as many decimals, thousands apart unless it has them together."""
        whole, _, decimals = self.text.partition(".")
        sign = "+" if self.text[0] == "+" else "-"
        apart = "" if re.search(r"\d{4}", whole) else ","
        written = f"{value:{sign}{apart}.{len(decimals)}f}"
        return written.replace("-", "−") if "−" in self.text else written


@dataclass(frozen=True)
class Cell:
    """One cell, without the spaces around it.

    Args:
        start: its place in the page.
        corner: how the first column of its table is headed.
        width: how many columns name its row.
    """

    page: str
    heading: str
    row: str
    column: str
    text: str
    start: int
    corner: str
    width: int

    @property
    def place(self) -> str:
        """As claims.yaml writes it."""
        return " > ".join([self.page, self.heading, self.row, self.column])

    @property
    def numbers(self) -> list[Number]:
        """In order."""
        return numbers(self.text, self.start)


def numbers(text: str, start: int = 0) -> list[Number]:
    """The numbers of a text that begins at `start` of its page."""
    plain = _UNREAD.sub(lambda unread: "~" * len(unread[0]), text)
    return [Number(found[0], start + found.start()) for found in _NUMBER.finditer(plain)]


def sections(text: str) -> Iterator[tuple[str, int, str]]:
    """Heading (without its signs), where its text begins, and that text, code blanked out, in order."""
    plain = _FENCE.sub(lambda fence: re.sub(r"[^\n]", " ", fence[0]), text)
    heads = list(re.finditer(r"^#+ +(.*)$", plain, re.MULTILINE))
    for head, following in zip(heads, [*heads[1:], None]):
        end = following.start() if following else len(plain)
        yield re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", head[1]).strip(), head.end(), plain[head.end():end]


def cells(page: str, text: str) -> list[Cell]:
    """The cells of every table of a page; names of rows, and heads, are none."""
    return [cell for heading, start, body in sections(text)
            for table in re.finditer(r"(?:^\|.*\n?)+", body, re.MULTILINE)
            for cell in _cells_of(page, heading, table[0], start + table.start())]


def paragraphs(text: str) -> Iterator[tuple[str, list[Number]]]:
    """The heading and the numbers of every paragraph, and item of a list, of a page."""
    for heading, start, body in sections(text):
        for found in _PARAGRAPH.finditer(body):
            yield heading, numbers(found[0], start + found.start())


def printed(output: str, widths: dict[str, int]) -> dict[tuple[str, str], Cell]:
    """The tables that a program printed: (row, column) → cell.

    Args:
        widths: the corner of a table → how many columns name its rows, which few rows would not show.
    """
    return {(cell.row, cell.column): cell for table in re.finditer(r"(?:^\|.*\n?)+", output, re.MULTILINE)
            for cell in _cells_of("", "", table[0], table.start(), widths)}


def _cells_of(page: str, heading: str, table: str, start: int, widths: dict[str, int] | None = None) -> Iterator[Cell]:
    rows: list[list[tuple[str, int]]] = []
    for line in re.finditer(r"^\|.*\|[ \t]*$", table, re.MULTILINE):
        if not _RULE.fullmatch(line[0]):
            rows.append([(cell[0].strip(), start + line.start() + cell.start() + len(cell[0]) - len(cell[0].lstrip()))
                         for cell in _CELL.finditer(line[0].rstrip(), 1)])
    if len(rows) < 2:
        return
    head, *body = rows
    columns = _numbered([name.replace("*", "") for name, _ in head])
    labels = _labels([[text for text, _ in row] for row in body], (widths or {}).get(columns[0], 1))
    width = labels[0].count(" | ") + 1
    for label, row in zip(labels, body):
        for column, (text, place) in list(zip(columns, row))[width:]:
            yield Cell(page, heading, label, column, text, place, columns[0], width)


def _numbered(names: list[str]) -> list[str]:
    seen: Counter[str] = Counter()
    found = []
    for name in names:
        seen[name] += 1
        found.append(f"{name} {seen[name]}".strip() if seen[name] > 1 else name)
    return found


def _labels(rows: list[list[str]], least: int) -> list[str]:
    """As many leading cells of each row as tell the rows apart, and `least` of them."""
    names: list[str] = [""] * len(rows)
    for width in range(1, max(map(len, rows)) + 1):
        above = ""
        for i, row in enumerate(rows):
            above = re.sub(r"[*]{2}|\[([^]]*)\]\([^)]*\)", r"\1", row[width - 1]) or (above if width == 1 else "")
            names[i] = above if width == 1 else f"{names[i]} | {above}"
        if width >= least and len(set(names)) == len(names):
            break
    return names
