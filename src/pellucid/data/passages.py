"""Passages beside a source: one row of ids for each, which are encoded apart (model/fusion.py).

A row is the source, bos, the passage and eos. The rows of a source stand one behind the other, so that they travel as
one sequence; no tokenizer makes an eos or bos of text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from pellucid.data.tokenizers.interface import BOS, EOS


class Fused(str):
    """A source and the passages found for it; that source alone to everybody who knows nothing of passages."""

    passages: tuple[str, ...]

    def __new__(cls, source: str, passages: Sequence[str]) -> Fused:
        made = super().__new__(cls, source)
        made.passages = tuple(passages)
        return made

    def __getnewargs__(self) -> tuple[str, tuple[str, ...]]:  # type: ignore[override]  # for copies in other processes
        return str(self), self.passages


class Finder(Protocol):
    """What finds passages for a source."""

    @property
    def about(self) -> dict[str, Any]:
        """Where they lie, their digest, and what else decides which are found, as plain data."""

    def fused(self, source: str, target: str | None) -> tuple[Fused, int]:
        """The source with its passages, and how many near-duplicates of the target were left out; without a target
        none is."""


def rows_of(source: list[int], passages: Sequence[list[int]], limit: int) -> list[int]:
    """The rows, one behind the other, for a source and its passages without ends; passages are cut so that no row has
    more than `limit` ids. Without a passage there is one row, the source and eos."""
    if not passages:
        return [*source, EOS]
    room = max(0, limit - len(source) - 2)
    return [id for passage in passages for id in (*source, BOS, *passage[:room], EOS)]


def rows_in(ids: list[int]) -> Iterator[list[int]]:
    """The rows that stand one behind the other: each ends with eos, but the last one of what has no eos."""
    start = 0
    for end in (i + 1 for i, id in enumerate(ids) if id == EOS or i + 1 == len(ids)):
        yield ids[start:end]
        start = end


def passages_in(ids: list[int]) -> list[list[int]]:
    """The passages that `rows_of` put into the rows, as far as they were not cut."""
    return [[id for id in row[row.index(BOS) + 1 :] if id != EOS] for row in rows_in(ids) if BOS in row]
