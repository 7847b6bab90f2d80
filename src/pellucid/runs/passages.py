"""The passages that a run reads beside its sources: found in an index, without those that say what the target says."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

from pellucid.config import RetrievalConfig, RunConfig
from pellucid.data.passages import Fused
from pellucid.data.splits import RECORD, Pairs
from pellucid.errors import CheckpointError, DataError
from pellucid.files import MANIFEST, read_json
from pellucid.retrieve.building import write_index
from pellucid.retrieve.folder import FolderIndex
from pellucid.retrieve.near_duplicates import Pair
from pellucid.retrieve.passages import LONGEST, Document, Passage
from pellucid.retrieve.retriever import LONGEST_QUESTION

FOLDER = "passages"  # in a run folder: the index of its training pairs, where the configuration names no index
_SPARE = 20  # passages that are looked at besides those wanted, should some be near-duplicates


class Passages:
    """Finds the passages of a source in an index, the same ones for the same source and target.

    Args:
        index: open.
        retrieval: how many, and how they are found. Random ones are drawn by the source itself, alike in all runs.
        place: where the index lies.
    """

    def __init__(self, index: FolderIndex, retrieval: RetrievalConfig, place: Path) -> None:
        self._index, self._retrieval = index, retrieval
        digest = hashlib.sha256((place / MANIFEST).read_bytes()).hexdigest()
        self.about: dict[str, Any] = {"index": str(place.absolute()), "sha256": digest, "k": retrieval.k,
                                      "from": retrieval.from_}

    def fused(self, source: str, target: str | None) -> tuple[Fused, int]:
        """See `data.passages.Finder`."""
        pair, found, left_out = None if target is None else Pair(source, target), list[str](), 0
        for passage in self._candidates(source):
            if len(found) == self._retrieval.k:
                break
            if pair is not None and pair.is_given_away(passage.text):
                left_out += 1
            else:
                found.append(" ".join(passage.text.split()))
        return Fused(source, found), left_out

    def _candidates(self, source: str) -> Iterator[Passage]:
        """The best ones first, or some in any order."""
        most = 2 * self._retrieval.k + _SPARE
        if self._retrieval.from_ == "bm25":
            question = source[:LONGEST_QUESTION]
            yield from (one.passage for one in (self._index.search(question, most) if question.strip() else ()))
        else:
            count = self._index.scores.count
            yield from map(self._index.passage, Random(source).sample(range(count), min(most, count)))


def with_passages(splits: dict[str, Pairs], config: RunConfig, folder: Path,
                  progress: Callable[[str], None] = lambda line: None) -> dict[str, Pairs]:
    """The splits of a run, their sources with passages where the configuration wants any. Where it names no index, one
    of the training pairs is made in the run folder, once.

    Args:
        progress: told now and then how far that is.

    Raises:
        ConfigError, DataError: see `open_passages`; what reading the training pairs says.
        OutputError: the index cannot be written.
    """
    if not config.retrieval.is_on:
        return splits
    if config.retrieval.index is None and not (folder / FOLDER / MANIFEST).exists() and _known(folder) is None:
        documents = (Document(str(number), source, f"{source}\n{target}")
                     for number, source, target in splits["train"].records())
        write_index(folder / FOLDER, lambda: (documents, LONGEST), progress)
    passages = open_passages(config, folder)
    return {name: dataclasses.replace(pairs, passages=passages) for name, pairs in splits.items()}


def open_passages(config: RunConfig, folder: Path) -> Passages:
    """The passages of the run in `folder`, from the index that it had if it has begun.

    Raises:
        ConfigError: there is no index.
        DataError: it is damaged, or not the one that the run had.
    """
    given, known = config.retrieval.index, _known(folder)
    place = folder / FOLDER if given is None else Path(given)
    if given is not None and known is not None and not place.exists():
        place = Path(known["index"])  # as it was seen from another folder
    if given is None and not place.exists():
        raise DataError("the passages of this run are gone", where=str(place), why="it reads them beside each source",
                        fix="copy the run folder with all that it had")
    passages = Passages(FolderIndex(place), config.retrieval, place)
    if known is not None and known["sha256"] != passages.about["sha256"]:
        raise DataError("this index is not the one that the run had", where=str(place),
                        why=f"{RECORD} of {folder} has another SHA-256",
                        fix="put that one back, or train anew with another --out")
    return passages


def _known(folder: Path) -> dict[str, str] | None:
    """What the run in `folder` remembers of its index, if it has begun."""
    try:
        found = read_json(folder / RECORD)["train"]["retrieval"]
        return {name: str(found[name]) for name in ("index", "sha256")}
    except (CheckpointError, KeyError, TypeError):
        return None
