"""The writing of an index in a folder: one pass over the documents, by one process at a time, whole or not at all."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
from array import array
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

import numpy as np

from pellucid.cache import is_scratch
from pellucid.errors import ConfigError
from pellucid.files import MANIFEST, make_folder, output_errors, write_folder, write_json
from pellucid.retrieve.folder import ABOUT, DOCUMENTS, FILES, FORMAT, NAMES, TEXTS, WINDOWS
from pellucid.retrieve.passages import Document, cut
from pellucid.retrieve.postings import MOST_CHARACTERS, MOST_PASSAGES, Postings

_SCRATCH = "runs"


def write_index(folder: Path, given: Callable[[], tuple[Iterable[Document], int]],
                progress: Callable[[str], None] = lambda line: None) -> None:
    """Makes an index at `folder`, or where that leads to; an older one stays in use until the new one is whole.

    Args:
        given: what it is made of, and how many characters a passage has; asked for once nobody else writes there, so
            that it may be of the older index.
        progress: told now and then how far it is.

    Raises:
        ConfigError: the folder holds something else, or another process is writing there.
        OutputError: disk full, no permission.
    """
    folder = Path(os.path.realpath(folder))  # a link cannot be replaced by a folder, and is to lead there as before

    def fill(place: Path) -> None:
        documents, longest = given()
        scratch = place / _SCRATCH
        scratch.mkdir()
        about = _Writer(place, Postings(scratch), longest, progress).write(documents)
        shutil.rmtree(scratch)
        write_json(place / ABOUT, {"format": FORMAT, "characters": longest, **about})

    with _alone(folder):
        write_folder(folder, fill)


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Keeps other writers away for as long as this lasts, and removes what one that was killed has left."""
    is_new = not folder.exists()
    make_folder(folder)
    with output_errors(folder):
        handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not os.path.samestat(os.fstat(handle), folder.stat()):
                raise BlockingIOError("it has been replaced meanwhile")
        except OSError as error:
            raise ConfigError("another process is writing this index", where=str(folder),
                              fix="wait for it, or give another --out") from error
        names = {path.name for path in folder.iterdir()}
        others = sorted(names - FILES - {MANIFEST} if {MANIFEST, ABOUT} <= names else names)
        if others:
            raise ConfigError("this folder holds something else than an index", where=str(folder),
                              why=f"it would be replaced, and {others[0]} be lost",
                              fix="give another --out, or move that")
        for path in folder.parent.iterdir():
            if is_scratch(path, of=folder):
                shutil.rmtree(path, ignore_errors=True)
        yield
    finally:
        if is_new:
            with contextlib.suppress(OSError):  # it is there, and not empty
                folder.rmdir()
        os.close(handle)


class _Writer:
    """Writes documents and passages as they come; a run of the postings whenever there are enough."""

    def __init__(self, folder: Path, postings: Postings, longest: int, progress: Callable[[str], None]) -> None:
        self._folder, self._postings, self._longest, self._progress = folder, postings, longest, progress
        self._documents, self._windows = array("q"), array("q")
        self._waiting, self._characters = list[str](), 0

    def write(self, documents: Iterable[Document]) -> dict[str, int]:
        """Returns how many documents, passages and terms there are."""
        with (self._folder / TEXTS).open("wb") as texts, (self._folder / NAMES).open("wb") as names:
            for document in documents:
                self._add(document, texts, names)
            self._flush()
            self._documents.extend((texts.tell(), names.tell()))
        places = np.frombuffer(self._documents, np.int64).reshape(-1, 2)
        windows = np.array(self._windows, np.int64).reshape(-1, 5)
        np.save(self._folder / DOCUMENTS, places)
        np.save(self._folder / WINDOWS, windows)
        terms = self._postings.write(self._folder, self._progress)
        return {"documents": len(places) - 1, "passages": len(windows), "terms": terms}

    def _add(self, document: Document, texts: BinaryIO, names: BinaryIO) -> None:
        number, byte, done = len(self._documents) // 2, texts.tell(), 0
        self._documents.extend((byte, names.tell()))
        for passage in cut(document, self._longest):
            byte += len(document.text[done : passage.start].encode())
            size, done = len(passage.text.encode()), passage.end
            self._windows.extend((number, passage.start, passage.end, byte, byte + size))
            byte += size
            self._waiting.append(passage.text)
            self._characters += len(passage.text)
            if self._characters >= MOST_CHARACTERS or len(self._waiting) == MOST_PASSAGES:
                self._flush()
        texts.write(document.text.encode())
        names.write(json.dumps({"id": document.id, "title": document.title}, ensure_ascii=False).encode() + b"\n")

    def _flush(self) -> None:
        if self._waiting:
            self._postings.add(self._waiting)
            self._progress(f"{len(self._documents) // 2:,} documents read, {self._postings.count:,} passages")
        self._waiting, self._characters = [], 0
