"""An index in a folder: what was put in comes out, add is build anew, damage is told, nobody writes over another."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

import numpy as np
import pytest

from pellucid.errors import CheckpointError, ConfigError, DataError, OutputError
from pellucid.files import MANIFEST, sha256
from pellucid.retrieve import building
from pellucid.retrieve.documents import read_added
from pellucid.retrieve.folder import ABOUT, FILES, NAMES, FolderIndex
from pellucid.retrieve.index import build_index, open_index
from pellucid.retrieve.passages import Document

DOCUMENTS = [{"id": "a", "title": "猫", "text": "猫在睡觉。\r\n狗在叫 👩‍👧！"},
             {"id": "b", "text": "The ﬁle of Dr. Who. It is long."}, {"id": "c", "text": "天地玄黃。"}]


def lines(path: Path, documents: list[dict[str, str]]) -> str:
    path.write_text("".join(json.dumps(one, ensure_ascii=False) + "\n" for one in documents), encoding="utf-8")
    return str(path)


@pytest.fixture
def data(tmp_path: Path) -> str:
    return lines(tmp_path / "data.jsonl", DOCUMENTS)


@pytest.fixture
def idx(tmp_path: Path, data: str) -> Path:
    build_index([data], str(tmp_path / "idx"), longest=20)
    return tmp_path / "idx"


def bytes_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_what_was_put_in_comes_out(idx: Path) -> None:
    index = FolderIndex(idx)
    assert [(one.id, one.title, one.text) for one in index.documents()] == [
        (one["id"], one.get("title", ""), one["text"]) for one in DOCUMENTS]
    texts = {one["id"]: one["text"] for one in DOCUMENTS}
    passages = [index.passage(number) for number in range(index.scores.count)]
    assert all(texts[one.document][one.start : one.end] == one.text for one in passages)
    assert index.about["passages"] == len(passages) == 4
    assert {path.name for path in idx.iterdir()} == FILES | {MANIFEST}


def test_the_passage_that_fits_is_found(idx: Path) -> None:
    index = open_index(str(idx))
    assert [one.passage.document for one in index.search("FILE")] == ["b"]
    assert [one.passage.document for one in index.search("狗叫了吗？")] == ["a"]
    assert [index.search(question) for question in ("unheard", "。", "👩‍👧")] == [[], [], []]


@pytest.mark.parametrize(("question", "k"), [("", 1), (" \n", 1), ("x" * 10_001, 1), ("猫" * 10**7, 1), ("cat", 0),
                                             ("cat", 1001)])
def test_questions_that_are_refused(idx: Path, question: str, k: int) -> None:
    with pytest.raises(ConfigError):
        FolderIndex(idx).search(question, k)


def test_questions_of_one_character_and_of_the_most(idx: Path) -> None:
    index = FolderIndex(idx)
    assert index.search("猫")[0].passage.document == "a"
    assert index.search("猫狗" * 5000)[0].passage.document == "a"
    assert index.search("\ud800 file")[0].passage.document == "b"  # half of a character


def test_add_gives_what_building_at_once_gives(tmp_path: Path) -> None:
    changed = {"id": "b", "text": "Another text."}
    first, more = lines(tmp_path / "1.jsonl", DOCUMENTS[:2]), lines(tmp_path / "2.jsonl", [DOCUMENTS[2], changed])
    whole = lines(tmp_path / "3.jsonl", [DOCUMENTS[0], DOCUMENTS[2], changed])
    build_index([first], str(tmp_path / "added"), longest=20)
    assert build_index([more], str(tmp_path / "added"), add=True) == {"documents": 3, "passages": 3, "terms": 20}
    build_index([whole], str(tmp_path / "whole"), longest=20)
    assert bytes_of(tmp_path / "added") == bytes_of(tmp_path / "whole")


def test_how_far_it_is_is_told(tmp_path: Path, data: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(building, "MOST_PASSAGES", 2)
    told = list[str]()
    build_index([data], str(tmp_path / "idx"), longest=20, progress=told.append)
    assert told == ["2 documents read, 2 passages", "3 documents read, 4 passages", "26 of 26 terms scored"]


def test_what_waits_in_memory_is_bounded_by_its_characters_too(tmp_path: Path, data: str,
                                                               monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(building, "MOST_CHARACTERS", 20)
    told = list[str]()
    build_index([data], str(tmp_path / "idx"), longest=20, progress=told.append)
    assert told[:2] == ["2 documents read, 2 passages", "3 documents read, 4 passages"]


def test_what_is_added_blank_is_gone(tmp_path: Path) -> None:
    folder = tmp_path / "texts"
    folder.mkdir()
    for name, text in (("a.txt", "the giraffe"), ("b.txt", "the cat")):
        (folder / name).write_text(text)
    build_index([str(folder)], str(tmp_path / "idx"))
    (folder / "a.txt").write_text(" \n")
    build_index([str(folder)], str(tmp_path / "idx"), add=True)
    assert not FolderIndex(tmp_path / "idx").search("giraffe")
    assert [one.id for one in FolderIndex(tmp_path / "idx").documents()] == ["b.txt"]


def test_a_document_can_go_alone_and_the_last_one_too(tmp_path: Path) -> None:
    idx = str(tmp_path / "idx")
    build_index([lines(tmp_path / "d.jsonl", [{"id": name, "text": f"the {name}"} for name in ("cat", "dog")])], idx)
    for left, name in ((1, "cat"), (0, "dog")):
        blank = lines(tmp_path / f"{name}.jsonl", [{"id": name, "text": " "}])
        assert build_index([blank], idx, add=True)["documents"] == left
        assert open_index(idx).search(name) == []
        with pytest.raises(DataError, match="no document in it"):
            build_index([blank], str(tmp_path / "new"))
    (tmp_path / "nothing").mkdir()
    with pytest.raises(DataError, match="no document in it"):
        build_index([str(tmp_path / "nothing")], idx, add=True)


def test_a_document_without_a_term_can_be_indexed(tmp_path: Path) -> None:
    data = lines(tmp_path / "d.jsonl", [{"id": "a", "text": "！！"}])
    assert build_index([data], str(tmp_path / "idx")) == {"documents": 1, "passages": 1, "terms": 0}
    assert open_index(str(tmp_path / "idx")).search("a") == []


@pytest.mark.parametrize("name", sorted(FILES | {MANIFEST}))
@pytest.mark.parametrize("how", ["cut", "flipped", "emptied", "gone", "a folder"])
def test_every_damage_is_one_clear_error(idx: Path, name: str, how: str) -> None:
    path, content = idx / name, (idx / name).read_bytes()
    path.unlink()
    if how == "a folder":
        path.mkdir()
    elif how != "gone":
        flipped = content[: len(content) // 2] + bytes([content[len(content) // 2] ^ 0x40]) + content[
            len(content) // 2 + 1 :]
        path.write_bytes({"cut": content[:-2], "flipped": flipped, "emptied": b""}[how])
    is_manifest_gone = name == MANIFEST and how == "gone"
    with pytest.raises(ConfigError if is_manifest_gone else DataError, match=r"damaged|no index") as told:
        FolderIndex(idx)
    assert "checkpoint" not in f"{told.value.why}{told.value.fix}"


@pytest.mark.parametrize("name", [MANIFEST, ABOUT, NAMES])
def test_what_is_no_plain_file_is_damage(idx: Path, name: str) -> None:
    """Others than this one never end."""
    (idx / name).unlink()
    (idx / name).symlink_to("/dev/null")
    with pytest.raises(DataError, match="no plain file"):
        FolderIndex(idx)


def forge(idx: Path, name: str) -> None:
    """Makes the manifest say what the file is now."""
    manifest = json.loads((idx / MANIFEST).read_text())
    manifest["files"][name] = {"bytes": (idx / name).stat().st_size, "sha256": sha256(idx / name)}
    (idx / MANIFEST).write_text(json.dumps(manifest))


@pytest.mark.parametrize("name", ["bounds", "passages", "windows", "documents"])
def test_arrays_that_do_not_belong_together_are_damage(idx: Path, name: str) -> None:
    """Whole by the manifest, and yet not what this made."""
    np.save(idx / f"{name}.npy", np.load(idx / f"{name}.npy") + 10**8)
    forge(idx, f"{name}.npy")
    with pytest.raises(DataError, match="damaged"):
        FolderIndex(idx).search("猫")


@pytest.mark.parametrize("name", ["bounds", "passages", "windows", "documents"])
@pytest.mark.parametrize("content", [b"", b"PK\x03\x04xx", "tables", "a number", "text", "a huge shape", "no header"])
def test_whatever_stands_in_the_place_of_an_array_is_damage(content: bytes | str, name: str, idx: Path) -> None:
    path = idx / f"{name}.npy"
    if content == "tables":
        with path.open("wb") as file:
            np.savez(file, a=np.zeros(3))
    elif isinstance(content, str):
        whole = path.read_bytes()
        np.save(path, {"a number": np.int64(1), "text": np.array(["a"])}.get(content, np.zeros(0)))
        if content == "a huge shape":
            path.write_bytes(whole.replace(b"'shape': (", b"'shape': (99999999999,", 1))
        elif content == "no header":
            path.write_bytes(whole[:12] + b"{(" + whole[14:])
    else:
        path.write_bytes(content)
    forge(idx, path.name)
    with pytest.raises(DataError, match="damaged"):
        FolderIndex(idx)


def test_documents_that_are_none_are_damage(idx: Path) -> None:
    (idx / "names.jsonl").write_bytes(b"?" * (idx / "names.jsonl").stat().st_size)
    forge(idx, "names.jsonl")
    for read in (FolderIndex(idx).documents, lambda: [FolderIndex(idx).passage(0)]):
        with pytest.raises(DataError, match="damaged"):
            list(read())


@pytest.mark.parametrize("changed", [{"id": 5}, {"id": ["a"], "title": ["b"]}, {"title": None}, {"id": "\ud800"}])
def test_names_that_are_no_text_are_damage(idx: Path, changed: dict[str, object]) -> None:
    names = [json.dumps(json.loads(line) | changed).encode() + b"\n" for line in (idx / NAMES).open("rb")]
    documents = np.load(idx / "documents.npy")
    documents[:, 1] = np.cumsum([0, *map(len, names)])
    (idx / NAMES).write_bytes(b"".join(names))
    np.save(idx / "documents.npy", documents)
    for name in (NAMES, "documents.npy"):
        forge(idx, name)
    for read in (FolderIndex(idx).documents, lambda: FolderIndex(idx).search("猫")):
        with pytest.raises(DataError, match="damaged"):
            list(read())


@pytest.mark.parametrize(("name", "change"), [("windows", lambda old: -old), ("scores", lambda old: old * np.inf)])
def test_numbers_that_cannot_be_are_damage_told_once(idx: Path, name: str,
                                                     change: Callable[[np.ndarray], np.ndarray]) -> None:
    np.save(idx / f"{name}.npy", change(np.load(idx / f"{name}.npy")))
    forge(idx, f"{name}.npy")
    with pytest.raises(DataError) as told:
        FolderIndex(idx).search("猫")
    assert str(told.value).count("damaged") == 1


@pytest.mark.parametrize("changed", [{"characters": "20"}, {"characters": 0}, {"characters": 10**9}, {"terms": [1]}])
def test_what_the_index_says_of_itself_is_checked(idx: Path, changed: dict[str, object]) -> None:
    (idx / ABOUT).write_text(json.dumps(json.loads((idx / ABOUT).read_text()) | changed))
    forge(idx, ABOUT)
    with pytest.raises(DataError, match="damaged"):
        FolderIndex(idx)


def test_what_a_newer_version_made_is_refused(idx: Path) -> None:
    about = json.loads((idx / ABOUT).read_text()) | {"format": 99}
    (idx / ABOUT).write_text(json.dumps(about))
    forge(idx, ABOUT)
    with pytest.raises(CheckpointError, match="newer version"):
        FolderIndex(idx)


def test_a_build_that_fails_leaves_the_old_index_as_it_was(idx: Path, data: str,
                                                           monkeypatch: pytest.MonkeyPatch) -> None:
    before = bytes_of(idx)
    monkeypatch.setattr(building.Postings, "write", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        build_index([data], str(idx))
    assert bytes_of(idx) == before
    assert sorted(path.name for path in idx.parent.iterdir()) == ["data.jsonl", "idx"]
    monkeypatch.undo()
    build_index([data], str(idx))  # nothing is locked


def test_a_first_build_that_fails_leaves_nothing(tmp_path: Path) -> None:
    bad = lines(tmp_path / "bad.jsonl", [*DOCUMENTS, {"id": "a", "text": "again"}])
    with pytest.raises(DataError, match="id 'a'"):
        build_index([bad], str(tmp_path / "idx"))
    assert [path.name for path in tmp_path.iterdir()] == ["bad.jsonl"]


def test_what_a_killed_build_left_is_removed(idx: Path, data: str) -> None:
    left, other = (idx.with_name(f".tmp-{'0' * 32}-{name}") for name in ("idx", "idx2"))
    for folder in (left, other):
        shutil.copytree(idx, folder / "runs")
    build_index([data], str(idx))
    assert not left.exists()
    assert other.exists()


def test_two_writers_are_told_apart(idx: Path, data: str) -> None:
    handle = os.open(idx, os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    with pytest.raises(ConfigError, match="another process is writing"):
        build_index([data], str(idx))
    os.close(handle)
    build_index([data], str(idx))


def test_a_lock_on_what_has_been_replaced_is_none(idx: Path, data: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another writer ends between the opening of the folder and the lock, and a third one may have begun."""
    real = fcntl.flock

    def flock(handle: int, how: int) -> None:
        idx.rename(idx.with_name("old"))
        shutil.copytree(idx.with_name("old"), idx)
        real(handle, how)

    monkeypatch.setattr(fcntl, "flock", flock)
    with pytest.raises(ConfigError, match="another process is writing"):
        build_index([data], str(idx))


def test_what_is_added_to_is_read_when_nobody_else_writes(idx: Path, tmp_path: Path,
                                                          monkeypatch: pytest.MonkeyPatch) -> None:
    """Else what another process has written meanwhile would be lost."""
    one, two = (lines(tmp_path / f"{name}.jsonl", [{"id": name, "text": f"new {name}"}]) for name in ("one", "two"))
    tried = list[str]()

    def read(paths: Sequence[str]) -> Iterator[Document]:
        if not tried:
            tried.append("once")
            with pytest.raises(ConfigError, match="another process is writing"):
                build_index([two], str(idx), add=True)
            tried.append("refused")
        return read_added(paths)

    monkeypatch.setattr("pellucid.retrieve.index.read_added", read)
    build_index([one], str(idx), add=True)
    build_index([two], str(idx), add=True)
    assert tried == ["once", "refused"]
    assert [FolderIndex(idx).search(name)[0].passage.document for name in ("one", "two", "猫")] == ["one", "two", "a"]


@pytest.mark.parametrize("is_seen", [False, True], ids=["damage", "both"])
def test_an_index_that_is_replaced_while_it_is_opened_is_opened_again(is_seen: bool, idx: Path, tmp_path: Path,
                                                                      monkeypatch: pytest.MonkeyPatch) -> None:
    """It seems damaged, or its files are of two indexes."""
    new, real, calls = lines(tmp_path / "new.jsonl", [{"id": "n", "text": "new 猫"}]), FolderIndex._open, list[int]()

    def opened(self: FolderIndex, folder: Path) -> None:
        calls.append(1)
        if len(calls) == 1:
            real(self, folder)
            monkeypatch.undo()
            build_index([new], str(idx))
            monkeypatch.setattr(FolderIndex, "_open", opened)
            if not is_seen:
                raise DataError("the index is damaged")
        else:
            real(self, folder)

    monkeypatch.setattr(FolderIndex, "_open", opened)
    assert [one.passage.document for one in FolderIndex(idx).search("猫")] == ["n"]
    assert len(calls) == 2


def test_an_open_index_goes_on_while_it_is_replaced(idx: Path, tmp_path: Path) -> None:
    old = FolderIndex(idx)
    build_index([lines(tmp_path / "new.jsonl", [{"id": "n", "text": "new 猫"}])], str(idx))
    assert old.search("猫")[0].passage.document == "a"
    assert FolderIndex(idx).search("猫")[0].passage.document == "n"


def test_an_index_is_built_where_a_link_leads(idx: Path, tmp_path: Path, data: str) -> None:
    link = tmp_path / "current"
    link.symlink_to(idx, target_is_directory=True)
    build_index([lines(tmp_path / "new.jsonl", [{"id": "n", "text": "new 猫"}])], str(link))
    assert link.is_symlink()
    assert FolderIndex(idx).search("猫")[0].passage.document == "n"
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    with pytest.raises(OutputError):
        build_index([data], str(loop))


def test_a_folder_of_something_else_is_not_replaced(tmp_path: Path, data: str) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/thesis.txt").write_text("x")
    (tmp_path / "yours").mkdir()
    (tmp_path / "yours" / NAMES).write_text("x")  # such a name makes no index
    for folder in ("mine", "yours"):
        with pytest.raises(ConfigError, match="something else"):
            build_index([data], str(tmp_path / folder))
    assert (tmp_path / "mine/thesis.txt").read_text() == (tmp_path / "yours" / NAMES).read_text() == "x"
    for add in (False, True):  # beside an index, too
        build_index([data], str(tmp_path / "idx"))
        build_index([data], str(tmp_path / "idx/inner"))
        with pytest.raises(ConfigError, match="something else") as refused:
            build_index([data], str(tmp_path / "idx"), add=add)
        assert "inner" in refused.value.why
        assert open_index(str(tmp_path / "idx/inner")).search("猫")
        shutil.rmtree(tmp_path / "idx")


def test_places_and_lengths_that_cannot_be(tmp_path: Path, data: str) -> None:
    with pytest.raises(ConfigError, match="no such index"):
        open_index(str(tmp_path / "nothing"))
    with pytest.raises(ConfigError, match="no index"):
        open_index(str(tmp_path))
    with pytest.raises(ConfigError, match="no such index"):
        build_index([data], str(tmp_path / "nothing"), add=True)
    for longest in (19, 10_001):
        with pytest.raises(ConfigError, match="cannot have"):
            build_index([data], str(tmp_path / "idx"), longest=longest)


def test_an_index_that_this_user_may_not_read_is_told_as_that_and_not_as_damaged(
        idx: Path, closed: Callable[[Path], AbstractContextManager[None]], monkeypatch: pytest.MonkeyPatch) -> None:
    with closed(idx), pytest.raises(DataError, match="the index cannot be read") as told:
        FolderIndex(idx)
    assert told.value.where == str(idx / MANIFEST)
    real = Path.read_bytes

    def read_bytes(path: Path) -> bytes:
        if path == idx / MANIFEST:
            raise PermissionError(13, "Permission denied", str(path))
        return real(path)

    monkeypatch.setattr(Path, "read_bytes", read_bytes)
    with pytest.raises(DataError, match="the index cannot be read") as told:
        FolderIndex(idx)
    assert (told.value.where, told.value.fix) == (str(idx / MANIFEST), "check its permissions")
