"""Their vocabulary in our order: padding, unknown, beginning and end come first, and every other piece keeps its place.

Rows that nothing of theirs stands for, or that stand twice, are told to the output bias, so that they have no
probability.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from pellucid.data.tokenizers.interface import SPECIALS
from pellucid.nn.embeddings import SILENT


@dataclass(frozen=True)
class Rows:
    """Where each of our rows lies in their matrices; None where nothing does."""

    order: tuple[int | None, ...]

    def of(self, matrix: Tensor) -> Tensor:
        """Their rows [V, …] in our order; zeros where there is none."""
        index = torch.tensor([0 if row is None else row for row in self.order])
        taken = matrix[index]
        taken[[row is None for row in self.order]] = 0
        return taken

    def bias(self, theirs: Tensor) -> Tensor:
        """Their output bias [V] in ours, what must not be said at `SILENT`."""
        bias, seen = self.of(theirs), set[int | None]([None])
        for place in self._places():
            row = self.order[place]
            if row in seen:
                bias[place] = SILENT
            seen.add(row)
        return bias

    def back(self, ours: Tensor) -> Tensor:
        """Our rows [V, …] in their order: the way back of `of`, and of `bias`."""
        places: dict[int, int] = {}
        for place in self._places():
            row = self.order[place]
            if row is not None:
                places.setdefault(row, place)
        return ours[torch.tensor([places[row] for row in range(len(places))])]

    def _places(self) -> tuple[int, ...]:
        """Ours, one of the two that a row may have first: an end goes before the start that it is."""
        return (3, 1, 0, 2, *range(len(SPECIALS), len(self.order)))


def rows_of(size: int, pad: int | None, unknown: int | None, start: int | None, end: int | None) -> Rows:
    """The order of a vocabulary of `size` rows, whose special ones are these."""
    return rows_with(size, (None if pad == start else pad, unknown, start, end))


def rows_with(size: int, specials: Sequence[int | None]) -> Rows:
    """The order of a vocabulary of `size` rows, whose first ones of ours are `specials`."""
    taken = set(specials)
    return Rows((*specials, *(row for row in range(size) if row not in taken)))


def in_our_order(pieces: Sequence[str], rows: Rows) -> list[str]:
    """Their pieces, each under our id; our names for the special ones."""
    named = [pieces[row] if row is not None and row < len(pieces) else f"<unused {row}>" for row in rows.order]
    return [*SPECIALS, *named[len(SPECIALS):]]
