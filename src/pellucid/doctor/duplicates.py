"""Pairs that stand twice in a split, or in two splits: compared by hashes, exactly and after normalisation.

Normalised is the canonical form, by which data is divided, too (data/canonical.py). What is held is bounded: beyond
MOST pairs, only those whose source hashes into a shrinking part of the range are kept, and counts are scaled up by what
that part is of the whole. All pairs of equal sources are kept or left out together, in every split.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pellucid.data.canonical import canonical

MOST = 4_000_000  # pairs held for a split

Hashes = NDArray[np.uint64]


def hashes(texts: Sequence[str]) -> Hashes:
    """64 bits of each."""
    digests = [hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest() for text in texts]
    return np.frombuffer(b"".join(digests), dtype=np.uint64)


@dataclass
class Seen:
    """The hashes of a split's pairs: columns number, exact pair, normalised pair, normalised source."""

    most: int = MOST
    rate: float = 1.0  # the part of all pairs that is held
    _held: list[NDArray[np.uint64]] = field(default_factory=list)
    _count: int = 0

    def add(self, numbers: Sequence[int], sources: Sequence[str], targets: Sequence[str]) -> None:
        """Takes in pairs with their numbers."""
        source = hashes([canonical(text) for text in sources])
        target = hashes([canonical(text) for text in targets])
        exact = hashes([f"{a}\n{b}" for a, b in zip(sources, targets, strict=True)])
        rows = np.stack([np.asarray(numbers, dtype=np.uint64), exact, source * np.uint64(0x9E3779B97F4A7C15) ^ target,
                         source])
        self._keep(rows)
        while self._count > self.most:
            self.rate /= 2
            rows, self._held, self._count = self.rows, [], 0
            self._keep(rows)

    def _keep(self, rows: NDArray[np.uint64]) -> None:
        if self.rate < 1:
            rows = rows[:, rows[3] < np.uint64(int(self.rate * 2**64))]
        self._held.append(rows)
        self._count += rows.shape[1]

    @property
    def rows(self) -> NDArray[np.uint64]:
        """[4, held]"""
        self._held = [np.concatenate(self._held, axis=1)] if self._held else [np.zeros((4, 0), dtype=np.uint64)]
        return self._held[0]

    def repeated(self) -> tuple[list[int], list[int], float]:
        """Numbers of pairs that repeat an earlier one: exactly, and only after normalisation; and the rate."""
        numbers, exact, normal, _ = self.rows
        is_exact, is_normal = _repeats(exact), _repeats(normal)
        return numbers[is_exact].tolist(), numbers[is_normal & ~is_exact].tolist(), self.rate


def _repeats(keys: Hashes) -> NDArray[np.bool_]:
    """Which keys stand earlier already."""
    order = np.argsort(keys, kind="stable")
    again = np.zeros(len(keys), dtype=np.bool_)
    again[order[1:]] = keys[order[1:]] == keys[order[:-1]]
    return again


@dataclass(frozen=True)
class Leaks:
    """Numbers of held-out pairs that stand in another split: exactly, after normalisation only, and those of which only
    the source does; and the rate at which they were looked at."""

    exact: list[int]
    normalised: list[int]
    source: list[int]
    rate: float


def leaks(held_out: Seen, training: Seen) -> Leaks:
    """What of `held_out` stands in `training`."""
    rate = min(held_out.rate, training.rate)
    rows, others = held_out.rows, training.rows
    if rate < 1:
        rows = rows[:, rows[3] < np.uint64(int(rate * 2**64))]
    found = [np.isin(rows[i], others[i]) for i in (1, 2, 3)]
    numbers = rows[0]
    return Leaks(numbers[found[0]].tolist(), numbers[found[1] & ~found[0]].tolist(),
                 numbers[found[2] & ~found[1] & ~found[0]].tolist(), rate)
