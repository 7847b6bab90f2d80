"""An index, wherever it lies: a folder of this machine, or a collection of a Qdrant server."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path

from pellucid.errors import ConfigError
from pellucid.retrieve.building import write_index
from pellucid.retrieve.documents import ids_in, read_added, read_documents
from pellucid.retrieve.folder import FolderIndex
from pellucid.retrieve.passages import LENGTHS, LONGEST, Document
from pellucid.retrieve.retriever import Retriever

_REMOTE = ("qdrant://", "qdrant+https://")


def open_index(place: str) -> Retriever:
    """The index in a folder, or at ``qdrant[+https]://host[:port]/collection``.

    Raises:
        ConfigError: there is none.
        DataError: it is damaged.
    """
    if place.startswith(_REMOTE):
        from pellucid.retrieve.qdrant import Collection

        return Collection.at(place)
    return FolderIndex(Path(place))


def build_index(paths: Sequence[str], place: str, add: bool = False, longest: int = LONGEST,
                progress: Callable[[str], None] = lambda line: None) -> dict[str, int]:
    """Makes the index of the documents in these files and folders (see `read_documents`), in the place of an older
    one; or adds them to that, where they take the places of documents of the same ids. In a folder both give the same
    index as one that is built of all at once. Returns how many documents, passages and terms the index has; `progress`
    is told now and then how far it is.

    Raises:
        ConfigError: see `write_index`; no index to add to; a length out of range; no server.
        DataError: what `read_documents` says.
        OutputError: disk full, no permission.
    """
    if not LENGTHS[0] <= longest <= LENGTHS[1]:
        raise ConfigError(f"a passage cannot have {longest:,} characters", where="--characters",
                          fix=f"give {LENGTHS[0]} to {LENGTHS[1]:,}")
    if place.startswith(_REMOTE):
        from pellucid.retrieve.qdrant import Collection, write_collection

        return write_collection(Collection.at(place), paths, add, longest, progress)
    folder = Path(place)
    if add:
        FolderIndex(folder)  # there is one; it is opened again when nobody else writes to it
    write_index(folder, lambda: _with(FolderIndex(folder), paths) if add else (read_documents(paths), longest),
                progress)
    about = FolderIndex(folder).about
    return {name: about[name] for name in ("documents", "passages", "terms")}


def _with(old: FolderIndex, paths: Sequence[str]) -> tuple[Iterator[Document], int]:
    """The documents of an index without those that are given anew, and then these; how long its passages are."""
    new = ids_in(paths)  # what is blank now is to go, too
    kept = (document for document in old.documents() if document.id not in new)
    return chain(kept, read_added(paths)), old.about["characters"]
