"""How often what was wanted is among what was found."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

Name = TypeVar("Name")


def recall_at(k: int, wanted: Sequence[Name], found: Sequence[Sequence[Name]]) -> float:
    """The share of questions, from 0 to 1, whose wanted document is among the first `k` of those found for it.

    Raises:
        ValueError: no question, or not as many lists as questions.
    """
    if not wanted or len(wanted) != len(found):
        raise ValueError(f"there are {len(wanted)} questions and {len(found)} lists of what was found")
    return sum(one in list(names)[:k] for one, names in zip(wanted, found, strict=True)) / len(wanted)
