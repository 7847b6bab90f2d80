"""The scores of an index, for any number of passages in little memory: sorted runs on the disk, then merged.

A run holds the terms of some passages, each with the passages that have it and how often. When all are written it is
known how rare each term is, and the scores are made for one range of terms after the other.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from pellucid.retrieve.bm25 import idf, saturation
from pellucid.retrieve.terms import terms_of

MOST_CHARACTERS, MOST_PASSAGES = 2**22, 2**16  # of a run
_AT_ONCE = 2**24  # scores that are made at once
_PLACE = np.uint64(16)  # bits of a passage's number within its run


@dataclass(frozen=True)
class _Run:
    """Terms in ascending order, how many passages have each, and the file with those and their frequencies."""

    terms: NDArray[np.uint64]
    counts: NDArray[np.int64]
    path: Path

    def write(self, passages: NDArray[np.int32], frequencies: NDArray[np.uint16]) -> None:
        with self.path.open("wb") as file:
            passages.tofile(file)
            frequencies.tofile(file)

    def read(self, begin: int, end: int) -> tuple[NDArray[np.int32], NDArray[np.uint16]]:
        """Those from one place to another."""
        behind = 4 * int(self.counts.sum())
        return (np.fromfile(self.path, np.int32, end - begin, offset=4 * begin),
                np.fromfile(self.path, np.uint16, end - begin, offset=behind + 2 * begin))


class Postings:
    """Takes passages, and writes terms.npy, bounds.npy, passages.npy, scores.npy and peaks.npy when all are there.

    Args:
        scratch: an empty folder for the runs.
    """

    def __init__(self, scratch: Path) -> None:
        self._scratch, self._runs, self._lengths = scratch, list[_Run](), list[NDArray[np.int64]]()
        self.count = 0  # of passages

    def add(self, texts: Sequence[str]) -> None:
        """A run of these passages, of which there are at most MOST_PASSAGES."""
        terms, places = terms_of(texts)
        self._lengths.append(np.bincount(places, minlength=len(texts)))
        both = np.sort(terms << _PLACE | places.astype(np.uint64))
        first = np.flatnonzero(np.diff(both, prepend=~both[:1]))  # of each term in each passage
        frequencies = np.minimum(np.diff(first, append=len(both)), 2**16 - 1).astype(np.uint16)
        terms, counts = np.unique(both[first] >> _PLACE, return_counts=True)
        passages = (both[first] & np.uint64(2**16 - 1)).astype(np.int32) + np.int32(self.count)
        run = _Run(terms, counts, self._scratch / str(len(self._runs)))
        run.write(passages, frequencies)
        self._runs.append(run)
        self.count += len(texts)

    def write(self, folder: Path, progress: Callable[[str], None] = lambda line: None) -> int:
        """Writes the files into `folder`, tells how far that is, and returns how many terms there are."""
        terms = np.sort(np.concatenate([*(run.terms for run in self._runs), np.zeros(0, np.uint64)]))
        terms = terms[np.diff(terms, prepend=~terms[:1]) != 0]
        holders = np.zeros(len(terms), np.int64)
        for run in self._runs:
            holders[np.searchsorted(terms, run.terms)] += run.counts
        bounds = np.append(0, np.cumsum(holders))
        lengths = np.concatenate([*self._lengths, np.zeros(0, np.int64)])
        weights, halves = idf(holders, self.count), saturation(lengths, lengths.sum() / max(self.count, 1))
        peaks = np.zeros(len(terms), np.float32)
        cuts = np.unique([*np.searchsorted(bounds, np.arange(0, bounds[-1], _AT_ONCE)), len(terms)])
        with (folder / "passages.npy").open("wb") as first, (folder / "scores.npy").open("wb") as second:
            _head(first, np.int32, int(bounds[-1]))
            _head(second, np.float32, int(bounds[-1]))
            for begin, end in itertools.pairwise(cuts.tolist()):
                passages, frequencies = self._merged(terms[begin:end], bounds[begin : end + 1] - bounds[begin])
                scores = np.repeat(weights[begin:end], holders[begin:end])
                scores *= frequencies / (frequencies + halves[passages])
                peaks[begin:end] = np.maximum.reduceat(scores, bounds[begin:end] - bounds[begin])
                passages.tofile(first)
                scores.tofile(second)
                progress(f"{end:,} of {len(terms):,} terms scored")
        for name, values in (("terms", terms), ("bounds", bounds), ("peaks", peaks)):
            np.save(folder / f"{name}.npy", values)
        return len(terms)

    def _merged(self, terms: NDArray[np.uint64],
                bounds: NDArray[np.int64]) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """The passages of these terms, ascending within each, and the frequencies; runs follow one another."""
        passages, frequencies = np.empty(bounds[-1], np.int32), np.empty(bounds[-1], np.float32)
        free = bounds[:-1].copy()  # where the next of a term goes
        for run in self._runs:
            begin, end = np.searchsorted(run.terms, terms[0]), np.searchsorted(run.terms, terms[-1], side="right")
            counts = run.counts[begin:end]
            starts = np.append(0, np.cumsum(counts))
            before = int(run.counts[:begin].sum())
            own, often = run.read(before, before + int(starts[-1]))
            which = np.searchsorted(terms, run.terms[begin:end])
            places = np.repeat(free[which] - starts[:-1], counts) + np.arange(starts[-1])
            passages[places], frequencies[places] = own, often
            free[which] += counts
        return passages, frequencies


def _head(file: BinaryIO, kind: Any, length: int) -> None:
    """The head of a .npy file, whose values follow."""
    about = {"descr": np.dtype(kind).str, "fortran_order": False, "shape": (length,)}
    np.lib.format.write_array_header_1_0(file, about)
