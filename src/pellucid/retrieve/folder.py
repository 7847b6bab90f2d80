"""An index in a folder: documents, passages and scores, memory-mapped, found whole or refused."""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Iterator
from pathlib import Path
from tokenize import TokenError
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pellucid.errors import CheckpointError, ConfigError, DataError, check_format
from pellucid.files import MANIFEST, checked_sha256, read_json
from pellucid.retrieve.bm25 import Scores
from pellucid.retrieve.passages import LENGTHS, Document, Passage
from pellucid.retrieve.retriever import Found, check_question
from pellucid.retrieve.terms import distinct_terms

FORMAT = 1
ABOUT = "index.json"
TEXTS, NAMES = "texts.bin", "names.jsonl"  # UTF-8, one document behind the other; an id and a title a line
DOCUMENTS, WINDOWS = "documents.npy", "windows.npy"  # [documents + 1, 2], [passages, 5]
# The attributes of bm25.Scores, and their types.
ARRAYS = {"terms": "uint64", "bounds": "int64", "passages": "int32", "scores": "float32", "peaks": "float32"}
FILES = {ABOUT, TEXTS, NAMES, DOCUMENTS, WINDOWS, *(f"{name}.npy" for name in ARRAYS)}
_REPAIR = "copy it again, or build it again: pellucid index DATA --out IDX"


class FolderIndex:
    """What `pellucid index` wrote, open. Many can have the same one open, also while it is replaced.

    Attributes:
        about: documents, passages, terms; how many there are, and the length of a passage.

    Raises:
        ConfigError: no such folder, or no index.
        DataError: a file is missing, cut short or changed.
        CheckpointError: a newer version made it.
    """

    def __init__(self, folder: Path) -> None:
        with _damage_told(folder):
            is_there = (folder / MANIFEST).exists()
        if not is_there:
            what = "this is no index" if folder.exists() else "there is no such index"
            raise ConfigError(what, where=str(folder), fix="build one: pellucid index DATA --out IDX")
        self._folder = folder
        while not self._is_open(folder):
            pass

    def _is_open(self, folder: Path) -> bool:
        """Opens all files; false where the index was replaced meanwhile, and they may be of both."""
        made = _bytes_of(folder / MANIFEST)
        try:
            self._open(folder)
        except DataError:
            if _bytes_of(folder / MANIFEST) == made:
                raise
            return False
        return _bytes_of(folder / MANIFEST) == made

    def _open(self, folder: Path) -> None:
        with _damage_told(folder):
            for name in sorted(FILES):
                checked_sha256(folder, name)  # of all of it once, then for as long as nobody touches it
            self.about = _about(folder / ABOUT)
            arrays: dict[str, Any] = {name: _array(folder / f"{name}.npy", kind, 1) for name, kind in ARRAYS.items()}
            self._documents, self._windows = (_array(folder / name, "int64", 2) for name in (DOCUMENTS, WINDOWS))
            self._texts, self._names = (_mapped(folder / name) for name in (TEXTS, NAMES))
            self.scores = Scores(**arrays, count=len(self._windows))
            self.scores.check()

    def search(self, question: str, k: int = 5) -> list[Found]:
        """The passages that fit best (see `Retriever`)."""
        check_question(question, k)
        with _damage_told(self._folder):
            best = self.scores.best(distinct_terms(question), k)
            if not all(math.isfinite(score) for _, score in best):
                raise ValueError("its scores are not finite")
            return [Found(self.passage(number), score) for number, score in best]

    def passage(self, number: int) -> Passage:
        """A passage by its number, from 0."""
        with _damage_told(self._folder):
            document, start, end, begin, stop = self._windows[number].tolist()
            one, text = self._name(document), bytes(self._texts[begin:stop]).decode("utf-8")
            if start < 0 or end - start != len(text):
                raise ValueError("its passages are not those of its documents")
            return Passage(one["id"], one["title"], start, end, text)

    def documents(self) -> Iterator[Document]:
        """All of them, in the order in which they were read, with their whole texts."""
        for number in range(len(self._documents) - 1):
            with _damage_told(self._folder):
                begin, end = self._documents[number : number + 2, 0]
                one = self._name(number)
                document = Document(one["id"], one["title"], bytes(self._texts[begin:end]).decode("utf-8"))
            yield document

    def _name(self, document: int) -> dict[str, str]:
        begin, end = self._documents[document : document + 2, 1]
        found: dict[str, str] = json.loads(bytes(self._names[begin:end]))
        for name in ("id", "title"):
            str.encode(found[name])  # it is text, and all of it can be written
        return found


def _about(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = read_json(path)
    check_format(found["format"], FORMAT, str(path))
    counts = [found[name] for name in ("documents", "passages", "terms", "characters")]
    if not all(type(count) is int for count in counts) or not LENGTHS[0] <= counts[-1] <= LENGTHS[1]:
        raise ValueError(f"{path.name} does not tell what is in it")
    return found


@contextlib.contextmanager
def _damage_told(folder: Path) -> Iterator[None]:
    """Of an index that is damaged, or whole by its manifest and yet not ours, people hear that, and what to do."""
    try:
        yield
    except DataError:  # it is told already
        raise
    except CheckpointError as error:
        if "newer version" in error.what:
            raise
        if isinstance(error.__cause__, PermissionError):
            raise _unreadable(folder, error.__cause__) from error
        place = error.where or str(folder)
        raise DataError("the index is damaged", where=place, why=error.why or error.what, fix=_REPAIR) from error
    except PermissionError as error:
        raise _unreadable(folder, error) from error
    except (OSError, ValueError, ArithmeticError, LookupError, TypeError, SyntaxError, TokenError) as error:
        raise DataError("the index is damaged", where=str(folder), why=str(error), fix=_REPAIR) from error


def _unreadable(folder: Path, error: PermissionError) -> DataError:
    return DataError("the index cannot be read", where=str(error.filename or folder), why=error.strerror or "",
                     fix="check its permissions")


def _bytes_of(path: Path) -> bytes:
    """What a file holds; nothing, where it cannot be read, or is a pipe or device, which might never end."""
    with contextlib.suppress(OSError):
        return path.read_bytes() if path.is_file() else b""
    return b""


def _array(path: Path, kind: str, dimensions: int) -> NDArray[Any]:
    """An array of this type, memory-mapped; of the plain kind, of which a row is taken in a thirtieth of the time."""
    mapped: NDArray[Any] = np.lib.format.open_memmap(path, mode="r").view(np.ndarray)
    if (mapped.dtype.name, mapped.ndim) != (kind, dimensions):
        raise ValueError(f"{path.name} holds {mapped.dtype.name} in {mapped.ndim} dimensions")
    return mapped


def _mapped(path: Path) -> NDArray[np.uint8]:
    """The bytes of a file; an empty one cannot be mapped."""
    if path.stat().st_size == 0:
        return np.zeros(0, np.uint8)
    return np.memmap(path, np.uint8, mode="r").view(np.ndarray)
