"""Where the two sides of a corpus slipped against each other: from there on, line n belongs to line n + offset.

A hidden Markov model over the lines, with a state for each offset and one for "nothing fits": a state emits the
line's log-likelihood ratio at that offset (see `association`; 0 for the last state), and a change of state costs
CHANGE nats. Its best path (Viterbi 1967) is found by blocks of lines, then each change is placed to the line.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pellucid.data.shards import shard_and_line
from pellucid.doctor.association import REACH, Association, Scores, present_in
from pellucid.doctor.words import Bags

CHANGE = 25.0  # nats: what a change of state must be worth
_BLOCK = 8  # lines
_LEAST = 5  # lines that a slip must last to be told
_WIDE = 2000  # lines: how far a lost line is looked for
_PROBES = 64  # lost lines that are looked for
LOST = 1 << 30  # the offset of lines that nothing fits


@dataclass(frozen=True)
class Stretch:
    """Lines first to last - 1, whose partners stand `offset` lines further on; or LOST."""

    first: int
    last: int
    offset: int


@dataclass
class ShiftDetector:
    """Reads windows of consecutive lines, one after another.

    Attributes:
        stretches: what has been read, by offset, in the numbers of its records.
    """

    association: Association
    stretches: list[Stretch] = field(default_factory=list)

    def add(self, numbers: NDArray[np.int64], source: Bags, target: Bags, told: NDArray[np.bool_]) -> Scores:
        """Takes the next window.

        Args:
            numbers: of its records.
            told: lines that are known to be wrong for another reason, and say nothing here.

        Returns:
            Each line's score with the line of its own number.
        """
        begin = self.stretches[-1].offset if self.stretches and self._goes_on(int(numbers[0])) else 0
        offsets = list(range(-REACH, REACH + 1))
        offsets += [begin] if begin not in offsets and begin != LOST else []
        scores = self.association.scores(source, target, offsets)
        scores[told] = 0
        found = stretches_of(scores, offsets, begin)
        if further := self._further(source, target, [part for part in found if part.offset == LOST], offsets):
            more = self.association.scores(source, target, further)
            more[told] = 0
            found = stretches_of(np.hstack([scores, more]), [*offsets, *further], begin)
        for part in found:
            self._append(Stretch(int(numbers[part.first]), int(numbers[part.last - 1]) + 1, part.offset))
        return scores[:, REACH]

    def _goes_on(self, number: int) -> bool:
        """Whether this record stands in the same file as the last one."""
        return shard_and_line(number)[0] == shard_and_line(self.stretches[-1].last)[0]

    def _append(self, part: Stretch) -> None:
        before = self.stretches[-1] if self.stretches else None
        if before is not None and before.offset == part.offset and self._goes_on(part.first):
            self.stretches[-1] = Stretch(before.first, part.last, part.offset)
        else:
            self.stretches.append(part)

    def _further(self, source: Bags, target: Bags, lost: Sequence[Stretch], known: Sequence[int]) -> list[int]:
        """Offsets beyond REACH at which lost lines fit."""
        found: list[int] = []
        for part in lost:
            lines = np.arange(part.first, part.last)[:: max(1, (part.last - part.first) // _PROBES)]
            if len(lines) < _LEAST:
                continue
            offset, score = best_offset(self.association, source, target, lines)
            if score > 2 * CHANGE and offset not in known and offset not in found:
                found.append(offset)
        return found


def best_offset(association: Association, source: Bags, target: Bags, lines: NDArray[np.int64]) -> tuple[int, float]:
    """The offset within _WIDE lines at which these source lines fit best, and their score there, in nats."""
    totals = np.zeros(2 * _WIDE + 1)
    present = present_in(target)
    for line in lines:
        low, high = max(0, line - _WIDE), min(len(target), line + _WIDE + 1)
        ids = source.ids[source.starts[line] : source.starts[line + 1]]
        there = present[low:high][:, association.partner[ids]]
        scores = there @ (association.hit - association.miss)[ids] + association.miss[ids].sum()
        totals[low - line + _WIDE : high - line + _WIDE] += np.clip(scores, -15, 15)
    best = int(totals.argmax())
    return best - _WIDE, float(totals[best])


def stretches_of(scores: Scores, offsets: Sequence[int], begin: int) -> list[Stretch]:
    """The best path through [lines, offsets] of scores, which begins with the offset `begin` (another one costs)."""
    count = len(scores)
    states = np.hstack([scores, np.zeros((count, 1), dtype=scores.dtype)]).astype(np.float64)
    names = [*offsets, LOST]
    starts = np.arange(0, count, _BLOCK)
    path = _viterbi(np.add.reduceat(states, starts), names.index(begin))
    sums = np.vstack([np.zeros(len(names)), np.cumsum(states, axis=0)])
    changes = np.flatnonzero(np.diff(path)) + 1
    places, kinds = [0], [int(path[0])]
    for block in changes:
        before, after = int(path[block - 1]), int(path[block])
        low, high = max(places[-1], starts[block] - _BLOCK), min(count, starts[block] + _BLOCK)
        worth = sums[low : high + 1, before] - sums[low : high + 1, after]
        places.append(int(low + worth.argmax()))
        kinds.append(after)
    parts = [Stretch(a, b, names[kind]) for a, b, kind in zip(places, [*places[1:], count], kinds, strict=True)]
    return _without_short(parts)


def _viterbi(blocks: NDArray[np.float64], begin: int) -> NDArray[np.int64]:
    """The best state of each block."""
    best = blocks[0] - CHANGE
    best[begin] += CHANGE
    came_from = np.zeros(blocks.shape, dtype=np.int64)
    own = np.arange(blocks.shape[1])
    for i in range(1, len(blocks)):
        top = int(best.argmax())
        changes = best[top] - CHANGE > best
        came_from[i] = np.where(changes, top, own)
        best = np.where(changes, best[top] - CHANGE, best) + blocks[i]
    path = np.zeros(len(blocks), dtype=np.int64)
    path[-1] = int(best.argmax())
    for i in range(len(blocks) - 1, 0, -1):
        path[i - 1] = came_from[i][path[i]]
    return path


def _without_short(parts: list[Stretch]) -> list[Stretch]:
    """Stretches of fewer than _LEAST lines go to the one before; equal neighbours become one."""
    kept = parts[:1]
    for part in parts[1:]:
        last = kept[-1]
        if part.offset == last.offset or part.last - part.first < _LEAST:
            kept[-1] = Stretch(last.first, part.last, last.offset)
        else:
            kept.append(part)
    return kept
