"""Documents from files: a folder of texts, JSON lines, or the layout of SQuAD."""

from __future__ import annotations

import codecs
import gzip
import json
import os
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from pellucid.data.json_array import Repeated, is_array, object_of, values_of
from pellucid.data.tables import checked_text, refuse_repeated
from pellucid.data.text_lines import MAX_LINE_BYTES, open_data, read_lines, whole_text
from pellucid.errors import DataError, PellucidWarning
from pellucid.retrieve.passages import Document

_TEXTS = (".txt", ".md")
_OF_ONE_FILE = (PermissionError, gzip.BadGzipFile)  # among the errors of a system
_LAYOUTS = "a folder of .txt and .md files, .txt, .md, .jsonl, or .json in SQuAD's layout or as a list (.gz too)"


def read_documents(paths: Sequence[str]) -> Iterator[Document]:
    """The documents of files and folders, one after the other; blank ones are passed over.

    A text file is one document, known by its path (inside of the folder that was given). A record of JSON has ``text``
    and may have ``id`` and ``title``; without an ``id`` its place is one. A paragraph of SQuAD's layout is a document.

    Raises:
        DataError: missing, of another kind, no UTF-8, damaged (where it is not one file of a folder), a field that is
            absent or no text, the same id twice, nothing to read.
    """
    seen: dict[str, str] = {}
    for path in paths:
        before = len(seen)
        yield from _filled(path, seen)
        if len(seen) == before:
            raise _nothing(path)


def read_added(paths: Sequence[str]) -> Iterator[Document]:
    """The same for an index that has others: a file or folder may hold blank ones alone, whose namesakes are to go."""
    seen: dict[str, str] = {}
    for path in paths:
        before = len(seen)
        yield from _filled(path, seen)
        if len(seen) == before and not ids_in([path]):
            raise _nothing(path)


def ids_in(paths: Sequence[str]) -> set[str]:
    """The ids of all documents, also of blank ones. Raises DataError as `read_documents`."""
    return {document.id for path in paths for _, document in _of_path(path)}


def read_paragraphs(path: str) -> Iterator[tuple[Document, list[Any]]]:
    """The paragraphs of a file in SQuAD's layout, each with its questions, ``qas``, which are not looked into.

    A paragraph's id is its own, or ``path#n`` where it has none; n counts the file's paragraphs from 1.

    Raises:
        DataError: no file of this layout.
    """
    yield from _paragraphs(_json(whole_text(path), path), path)


def _filled(path: str, seen: dict[str, str]) -> Iterator[Document]:
    """Those that are not blank; each is noted in `seen`, where no other may have its id."""
    for where, document in _of_path(path):
        if not document.text.strip():
            continue
        if document.id in seen:
            raise DataError(f"two documents have the id {document.id[:200]!r}", where=where,
                            why=f"the first is {_place(document.id, seen[document.id])}",
                            fix="give each an id of its own")
        seen[document.id] = path
        yield document


def _place(name: str, path: str) -> str:
    """Where the document of this id stands first in a file or folder."""
    return next((where for where, one in _of_path(path) if one.id == name and one.text.strip()), path)


def _nothing(path: str) -> DataError:
    return DataError("there is no document in it", where=path, fix=f"give {_LAYOUTS}")


def _of_path(path: str) -> Iterator[tuple[str, Document]]:
    """Each with its place."""
    if Path(path).is_dir():
        yield from _of_folder(path)
        return
    name = _plain(path)
    if name.endswith(_TEXTS):
        yield path, Document(_written(Path(path).as_posix()), _stem(Path(path)), whole_text(path))
    elif name.endswith(".jsonl"):
        yield from _of_lines(path)
    elif name.endswith(".json"):
        yield from _of_json(path)
    else:
        with open_data(path):  # what is missing is told first
            raise DataError("documents cannot be read from a file of this name", where=path, fix=f"give {_LAYOUTS}")


def _of_folder(folder: str) -> Iterator[tuple[str, Document]]:
    """One of each text file. One that cannot be read is left out, with a warning, where others can.

    Raises:
        DataError: no file can be read; the disk or the network fails, and would leave out files that are whole.
    """
    files, broken = _texts_in(folder), list[str]()
    for file in files:
        try:
            text = whole_text(str(file))
        except DataError as error:
            cause = error.__cause__
            if len(broken) + 1 == len(files) or (isinstance(cause, OSError) and not isinstance(cause, _OF_ONE_FILE)):
                raise
            broken.append(f"{error.where}: {error.what}")
        else:
            yield str(file), Document(_written(file.relative_to(folder).as_posix()), _stem(file), text)
    if broken:
        _warn(Path(folder), f"has files that cannot be read, and {len(broken):,} of {len(files):,} are left out: "
                            f"{_written('; '.join(broken[:5]))}{'; …' * (len(broken) > 5)}")


def _texts_in(folder: str) -> list[Path]:
    """The text files of a folder at any depth, in order.

    What is hidden (its name begins with a dot: .git, .venv) is passed over. Links to folders are not followed, and what
    has the name of a text and is no file (a broken link, a pipe) is left out, with a warning of each; and one says how
    many files of which other kinds there are.

    Raises:
        DataError: a folder inside cannot be read.
    """
    def refuse(error: OSError) -> None:
        raise DataError("the folder cannot be read", where=error.filename, why=error.strerror or "") from error

    found, others = [], Counter[str]()
    try:
        for place, folders, names in os.walk(folder, onerror=refuse):
            folders[:] = [name for name in folders if not name.startswith(".")]  # those that are walked into
            for link in (Path(place, name) for name in sorted(folders)):
                if link.is_symlink():
                    _warn(link, "is a link to a folder, and is not followed")
            for file in (Path(place, name) for name in sorted(names) if not name.startswith(".")):
                if not _plain(file.name).endswith(_TEXTS):
                    others[Path(_plain(file.name)).suffix or "no ending"] += 1
                elif file.is_file():
                    found.append(file)
                else:
                    _warn(file, "is no regular file, and is left out" if file.exists()
                          else "is a link to nothing, and is left out")
    except PermissionError as error:
        refuse(error)
    if others:
        ranked = sorted(others.items(), key=lambda one: (-one[1], one[0]))
        kinds = [f"{count:,} {_written(kind)}" for kind, count in ranked]
        _warn(Path(folder), f"also has files of other kinds, which are passed over: {', '.join(kinds[:5])}"
                            f"{', …' * (len(kinds) > 5)}")
    return sorted(found)


def _warn(path: Path, what: str) -> None:
    warnings.warn(f"{_written(str(path))} {what}", PellucidWarning, stacklevel=4)


def _plain(name: str) -> str:
    return name.lower().removesuffix(".gz")


def _stem(file: Path) -> str:
    """The name without what says of which kind it is."""
    packed = file.suffix.lower() == ".gz"
    return _written(Path(file.stem).stem if packed else file.stem)


def _written(name: str) -> str:
    """A name of the file system, which may have bytes that are no UTF-8, as text."""
    return name.encode("utf-8", "backslashreplace").decode()


def _of_lines(path: str) -> Iterator[tuple[str, Document]]:
    yield from _records((f"{path}:{number}", _json(line, f"{path}:{number}"))
                        for number, line in enumerate(read_lines(path), start=1) if line.strip())


def _of_json(path: str) -> Iterator[tuple[str, Document]]:
    """A list of records, one a line under this name, or SQuAD's layout: the first line that is not blank tells."""
    with open_data(path) as file:
        head = next(filter(_is_filled, iter(lambda: file.readline(MAX_LINE_BYTES), b"")), b"")
    if is_array(head):
        with open_data(path) as file:
            yield from _records((f"{path}, record {number}", value)
                                for number, value in enumerate(values_of(file, path), start=1))
    elif _is_record(head):
        yield from _of_lines(path)
    else:
        yield from ((f"{path}#{number}", document)
                    for number, (document, _) in enumerate(read_paragraphs(path), start=1))


def _is_filled(line: bytes) -> bool:
    return bool(line.strip(b" \t\n\r"))  # JSON has no other spaces


def _is_record(line: bytes) -> bool:
    try:
        value = json.loads(line.removeprefix(codecs.BOM_UTF8))
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict) and "text" in value


def _records(values: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, Document]]:
    for where, value in values:
        if not isinstance(value, dict):
            raise DataError("a JSON object is wanted", where=where, fix='such as {"id": …, "title": …, "text": …}')
        if isinstance(value, Repeated):
            for name in ("id", "title", "text"):
                refuse_repeated(name, value.names, where)
        if "text" not in value:
            present = ", ".join(str(name)[:40] for name in list(value)[:20])
            raise DataError("there is no field text", where=where, why=f"the fields here are {present or 'none'}")
        yield where, Document(_id(value.get("id"), where),
                              checked_text(value.get("title") or "", "title", False, where),
                              checked_text(value["text"], "text", False, where))


def _id(value: Any, where: str) -> str:
    return where if value in (None, "") else checked_text(value, "id", True, where)


def _paragraphs(value: Any, path: str) -> Iterator[tuple[Document, list[Any]]]:
    number = 0
    for entry in _list(value, "data", path):
        title = entry.get("title") or "" if isinstance(entry, dict) else ""
        for paragraph in _list(entry, "paragraphs", path):
            number += 1
            where = f"{path}#{number}"
            if not isinstance(paragraph, dict) or "context" not in paragraph:
                raise DataError("a paragraph has no context", where=where, why="SQuAD's layout has one in each")
            text = checked_text(paragraph["context"], "context", False, where)
            questions = paragraph.get("qas", [])
            if not isinstance(questions, list):
                raise DataError("the questions of a paragraph, qas, are no list", where=where)
            yield Document(_id(paragraph.get("id"), where), checked_text(title, "title", False, where), text), questions


def _list(value: Any, name: str, path: str) -> list[Any]:
    if not isinstance(value, dict) or not isinstance(value.get(name), list):
        raise DataError(f"there is no list {name} where SQuAD's layout has one", where=path,
                        why='that is {"data": [{"title": …, "paragraphs": [{"context": …}]}]}', fix=f"give {_LAYOUTS}")
    found: list[Any] = value[name]
    return found


def _json(text: str, where: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=object_of)
    except (ValueError, RecursionError) as error:  # no JSON, nesting without end
        raise DataError("this is no whole JSON value", where=where, why=str(error)) from error
