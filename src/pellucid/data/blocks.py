"""A corpus in blocks of neighbouring pairs: what is larger than memory is planned, checked and read part by part.

Of each block, blocks.json has the totals and a digest, written when the ids are. At most `WINDOW` blocks are looked at
together: a window, the part of an epoch that is sorted, cut and shuffled at once (batching.py).
"""

import contextlib
import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pellucid.errors import CheckpointError, DataError
from pellucid.files import MANIFEST, checked_sha256, read_json

BLOCK = 250_000  # pairs
WINDOW = 16  # blocks
SIDES = ("source", "target")
_ABOUT = "blocks.json"

Side = tuple[NDArray[np.integer[Any]], NDArray[np.int64]]  # the ids of all sequences, and where each begins and ends


def count_blocks(pairs: int) -> int:
    """Blocks of so many pairs; the last one may be smaller."""
    return -(-pairs // BLOCK)


def windows_of(blocks: int) -> list[range]:
    """The windows of so many blocks: as few as there can be, of about one size.

    A window has every k-th block: neighbours are often of one origin, and each window is to have some of all.
    """
    count = max(1, -(-blocks // WINDOW))
    return [range(first, blocks, count) for first in range(count)]


def rows_in(blocks: Iterable[int], pairs: int) -> NDArray[np.int64]:
    """The places of the pairs of these blocks in a corpus of so many pairs."""
    return np.concatenate([np.arange(block * BLOCK, min((block + 1) * BLOCK, pairs)) for block in blocks])


def totals_of(offsets: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Of each block its pairs, source tokens and target tokens: [blocks, 3], from the offsets of both sides."""
    pairs = len(offsets[0]) - 1
    edges = np.append(np.arange(0, pairs, BLOCK), pairs)
    return np.stack([np.diff(edges), *(np.diff(side[edges]) for side in offsets)], axis=1)


@dataclass(frozen=True)
class Blocks:
    """What is known of the blocks of the ids in a folder.

    Attributes:
        totals: [blocks, 3], as of `totals_of`.
        sha256: of each, that of its part of both sides' offsets and ids.
    """

    folder: Path
    totals: NDArray[np.int64]
    sha256: tuple[str, ...]

    @property
    def is_one_window(self) -> bool:
        """Whether all of them are looked at together."""
        return len(self.totals) <= WINDOW

    def check(self, blocks: Iterable[int], sides: Sequence[Side]) -> None:
        """Makes sure that these blocks are what was written.

        Raises:
            DataError: one is not; the folder is not a whole one from then on, so that it is made anew when next opened.
        """
        for block in blocks:
            if _digest(self.totals, block, sides) != self.sha256[block]:
                with contextlib.suppress(OSError):
                    (self.folder / MANIFEST).unlink()
                first = block * BLOCK
                raise DataError("the token ids that were kept are damaged", where=str(self.folder),
                                why=f"those of the pairs {first + 1:,} to {first + int(self.totals[block, 0]):,} are "
                                    "not what was written",
                                fix="run the same command again: they are made anew, and training goes on from its "
                                    "last checkpoint")


def _digest(totals: NDArray[np.int64], block: int, sides: Sequence[Side]) -> str:
    found = hashlib.sha256()
    before, (pairs, *tokens) = totals[:block].sum(axis=0).tolist(), totals[block].tolist()
    for (ids, offsets), first, count in zip(sides, before[1:], tokens, strict=True):
        found.update(offsets[before[0] : before[0] + pairs + 1].data)
        found.update(ids[first : first + count].data)
    return found.hexdigest()


def write_blocks(folder: Path, sides: Sequence[Side]) -> None:
    """Writes what is to be known of the blocks of these ids."""
    totals = totals_of([offsets for _, offsets in sides])
    about = {"pairs": BLOCK, "totals": totals.tolist(),
             "sha256": [_digest(totals, block, sides) for block in range(len(totals))]}
    (folder / _ABOUT).write_text(json.dumps(about), encoding="utf-8")


def read_blocks(folder: Path) -> Blocks:
    """What is known of the blocks of the ids in `folder`.

    Raises:
        CheckpointError: it is missing or damaged, or of blocks of another size.
    """
    checked_sha256(folder, _ABOUT)
    about = read_json(folder / _ABOUT)
    if about["pairs"] != BLOCK:
        raise CheckpointError("token ids are kept in blocks of another size", where=str(folder / _ABOUT))
    totals = np.asarray(about["totals"], dtype=np.int64).reshape(-1, 3)
    return Blocks(folder, totals, tuple(about["sha256"]))
