"""Documents from files: what is read, what they are called, and what is refused with its place."""

from __future__ import annotations

import gzip
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from pellucid.data import text_lines
from pellucid.errors import DataError, PellucidWarning
from pellucid.retrieve import documents
from pellucid.retrieve.documents import read_documents, read_paragraphs
from pellucid.retrieve.passages import Document

SQUAD = {"data": [{"title": "T", "paragraphs": [{"id": "p", "context": "One.", "qas": [{"question": "?"}]},
                                                {"context": "Two."}]}, {"paragraphs": [{"context": "Three."}]}]}


def test_a_folder_of_texts_at_any_depth(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep/Über.md").write_bytes("\ufeff# Ein\r\nText".encode())
    (tmp_path / "A.TXT").write_text("second", encoding="utf-8")
    (tmp_path / "b.txt.gz").write_bytes(gzip.compress(b"zip"))
    (tmp_path / "blank.txt").write_text(" \n")
    assert list(read_documents([str(tmp_path)])) == [
        Document("A.TXT", "A", "second"), Document("b.txt.gz", "b", "zip"),
        Document("deep/Über.md", "Über", "# Ein\r\nText")]


def test_how_many_files_of_a_folder_are_of_other_kinds_is_told(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one")
    for name in ("deep/one.PDF", "deep/two.pdf", "three.jsonl.gz", "README", ".git/index", ".hidden"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"\xff")
    with pytest.warns(PellucidWarning) as told:
        assert [one.id for one in read_documents([str(tmp_path)])] == ["a.txt"]
    assert [str(one.message) for one in told] == [
        f"{tmp_path} also has files of other kinds, which are passed over: 2 .pdf, 1 .jsonl, 1 no ending"]


def test_what_is_hidden_is_no_document_unless_it_is_given_itself(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one")
    for name in (".git/description.txt", ".venv/lib/LICENSE.md", "deep/.notes.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("not meant")
    (tmp_path / ".link").symlink_to(tmp_path, target_is_directory=True)
    assert [one.id for one in read_documents([str(tmp_path)])] == ["a.txt"]
    assert [one.text for one in read_documents([str(tmp_path / "deep/.notes.md")])] == ["not meant"]
    assert [one.id for one in read_documents([str(tmp_path / ".git")])] == ["description.txt"]


def test_links_to_folders_are_not_followed_and_folders_that_cannot_be_read_are_refused(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep/a.txt").write_text("one")
    (tmp_path / "link").symlink_to(tmp_path / "deep", target_is_directory=True)
    (tmp_path / "up").symlink_to(tmp_path, target_is_directory=True)
    with pytest.warns(PellucidWarning, match="link to a folder") as told:
        assert [one.id for one in read_documents([str(tmp_path)])] == ["deep/a.txt"]
    assert len(told) == 2
    real = os.scandir

    def scandir(place: str) -> Any:
        if Path(place).name == "deep":
            raise PermissionError(13, "Permission denied", place)
        return real(place)

    monkeypatch.setattr(os, "scandir", scandir)
    with pytest.warns(PellucidWarning), pytest.raises(DataError, match="the folder cannot be read") as refused:
        list(read_documents([str(tmp_path)]))
    assert refused.value.where == str(tmp_path / "deep")


def test_what_has_the_name_of_a_text_and_is_no_file_is_told_and_left_out(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one")
    (tmp_path / "b.txt").symlink_to("a.txt")
    (tmp_path / "gone.md").symlink_to("nowhere")
    (tmp_path / "loop.txt.gz").symlink_to("loop.txt.gz")
    os.mkfifo(tmp_path / "pipe.TXT")
    with pytest.warns(PellucidWarning) as told:
        assert [one.id for one in read_documents([str(tmp_path)])] == ["a.txt", "b.txt"]
    assert [str(warning.message) for warning in told] == [
        f"{tmp_path}/gone.md is a link to nothing, and is left out",
        f"{tmp_path}/loop.txt.gz is a link to nothing, and is left out",
        f"{tmp_path}/pipe.TXT is no regular file, and is left out"]


def test_files_of_a_folder_that_cannot_be_read_are_told_and_left_out(tmp_path: Path,
                                                                     monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.txt").write_text("one")
    (tmp_path / "b.txt").write_bytes(b"caf\xe9")
    (tmp_path / "c.md.gz").write_bytes(b"plain")
    with pytest.warns(PellucidWarning) as told:
        assert [one.id for one in read_documents([str(tmp_path)])] == ["a.txt"]
    assert [str(warning.message) for warning in told] == [
        f"{tmp_path} has files that cannot be read, and 2 of 3 are left out: {tmp_path}/b.txt:1: the file is not valid "
        f"UTF-8; {tmp_path}/c.md.gz: the file is not valid gzip"]
    (tmp_path / "a.txt").unlink()
    with pytest.raises(DataError, match="is not valid gzip"):  # no other file is there
        list(read_documents([str(tmp_path)]))

    def fails(path: str) -> str:
        if path.endswith("a.txt"):
            raise DataError("the file cannot be read", where=path) from OSError(5, "Input/output error")
        return "two"

    (tmp_path / "a.txt").write_text("one")
    monkeypatch.setattr(documents, "whole_text", fails)
    with pytest.raises(DataError, match="cannot be read"):
        list(read_documents([str(tmp_path)]))


@pytest.mark.skipif(sys.platform == "darwin", reason="its file systems have text alone for names")
def test_names_are_text_whatever_bytes_they_have(tmp_path: Path) -> None:
    for name in (b"caf\xe9.txt", "İ.md.gz".encode(), b"a.b.TXT", b".txt"):
        content = b"one" if not name.endswith(b"gz") else gzip.compress(b"one")
        Path(os.fsdecode(bytes(tmp_path) + b"/" + name)).write_bytes(content)
    found = {one.id: one.title for one in read_documents([str(tmp_path)])}
    assert found == {r"caf\udce9.txt": r"caf\udce9", "İ.md.gz": "İ", "a.b.TXT": "a.b"}
    assert [one.title for one in read_documents([str(tmp_path / ".txt")])] == [".txt"]


def test_records_of_json(tmp_path: Path) -> None:
    rows = [{"id": 7, "title": "t", "text": "a"}, {"text": "b\r\n"}, {"id": "x", "title": None, "text": "c"}]
    jsonl, as_list = tmp_path / "d.jsonl", tmp_path / "d.json"
    jsonl.write_text("".join(json.dumps(row) + "\n" for row in rows))
    as_list.write_text(json.dumps(rows))
    assert list(read_documents([str(jsonl)])) == [
        Document("7", "t", "a"), Document(f"{jsonl}:2", "", "b\r\n"), Document("x", "", "c")]
    assert [one.id for one in read_documents([str(as_list)])] == ["7", f"{as_list}, record 2", "x"]
    as_list.write_text("\n" * 3 + json.dumps(rows, indent=1))
    assert [one.text for one in read_documents([str(as_list)])] == ["a", "b\r\n", "c"]
    as_list.write_bytes(jsonl.read_bytes())  # lines under the other name
    assert [one.id for one in read_documents([str(as_list)])] == ["7", f"{as_list}:2", "x"]


def test_the_layout_of_squad(tmp_path: Path) -> None:
    path = tmp_path / "q.json.gz"
    path.write_bytes(gzip.compress(json.dumps(SQUAD).encode()))
    expected = [Document("p", "T", "One."), Document(f"{path}#2", "T", "Two."), Document(f"{path}#3", "", "Three.")]
    assert list(read_documents([str(path)])) == expected
    assert list(read_paragraphs(str(path))) == list(zip(expected, [[{"question": "?"}], [], []], strict=True))


@pytest.mark.parametrize(("name", "content", "told"), [
    ("d.jsonl", b'{"text": "a"}\n{"text": ', "d.jsonl:2"), ("d.jsonl", b'{"txt": "a"}', "no field text"),
    ("d.jsonl", b'["a"]', "a JSON object"),
    ("d.jsonl", b'{"text": "a"}\n{"text": "b", "text": "c"}', "d.jsonl:2"),
    ("d.json", b'[{"text": "a", "id": 1, "id": 2}]', "more than one field id"),
    ("d.jsonl", b'{"text": 3}', "text is wanted"),
    ("d.jsonl", b'{"text": "\\ud800"}', "surrogate"), ("d.jsonl", b'{"text": "a", "id": [1]}', "the field id"),
    ("d.jsonl", b'{"id": "a", "text": "1"}\n{"id": "a", "text": "2"}', "two documents have the id 'a'"),
    ("d.jsonl", b"", "empty"), ("d.jsonl", b"\xff\xfe", "UTF-8"), ("d.jsonl", b"[" * 10**5, "JSON"),
    ("d.json", b'{"data": 1}', "no list data"), ("d.json", b'{"data": [1]}', "no list paragraphs"),
    ("d.json", b'{"data": [{"paragraphs": [{"context": null}]}]}', "the field context"),
    ("d.json", b'{"data": [{"paragraphs": [{"context": "a", "qas": 1}]}]}', "no list"),
    ("d.json", b'{"data": [{"paragraphs": [{}]}]}', "no context"), ("d.json", b"{}", "no list data"),
    ("d.json", b'\xef\xbb\xbf{"data":\n["caf\xe9"]}', "0xe9 at offset 17 of the file"),
    ("d.json", b"nothing", "JSON"), ("d.json", b'\x0c[{"text": "a"}]', "JSON"), ("d.json", b'\x0b\n[1]', "JSON"),
     ("d.json", b'{"a":' * 10**5, "JSON"), ("d.json", b'[{"text": "a"}, 2]', "record 2"),
    ("d.txt", b"ok\n\xe9", "d.txt:2"), ("d.txt", b" \n", "no document"), ("d.txt.gz", b"plain", "gzip"),
    ("d.pdf", b"%PDF", "a file of this name")])
def test_what_cannot_be_read_is_told_with_its_place(tmp_path: Path, name: str, content: bytes, told: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError) as error:
        list(read_documents([str(tmp_path / name)]))
    assert told in str(error.value)
    assert name in str(error.value)


@pytest.mark.parametrize(("name", "content", "second", "first"), [
    ("d.jsonl", '{"id": "a", "text": " "}\n\n{"id": "a", "text": "1"}\n{"id": "a", "text": "2"}', ":4", ":3"),
    ("d.jsonl", '{"id": "b", "text": "0"}\n{"id": "a", "text": "1"}\n{"id": "a", "text": "2"}', ":3", ":2"),
    ("d.json", '[{"id": "a", "text": "1"}, {"text": "2"}, {"id": "a", "text": "3"}]', ", record 3", ", record 1"),
    ("d.json", '{"data": [{"paragraphs": [{"id": "a", "context": "1"}, {"id": "a", "context": "2"}]}]}', "#2", "#1")])
def test_of_two_with_the_same_id_both_places_are_told(tmp_path: Path, name: str, content: str, second: str,
                                                      first: str) -> None:
    path = tmp_path / name
    path.write_text(content)
    with pytest.raises(DataError) as error:
        list(read_documents([str(path)]))
    assert (error.value.where, error.value.why) == (f"{path}{second}", f"the first is {path}{first}")


def test_of_two_files_with_the_same_name_both_are_told(tmp_path: Path) -> None:
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a.txt").write_text(folder)
    with pytest.raises(DataError) as error:
        list(read_documents([str(tmp_path / "one"), str(tmp_path / "two")]))
    assert (error.value.where, error.value.why) == (f"{tmp_path}/two/a.txt", f"the first is {tmp_path}/one/a.txt")


def test_nothing_there(tmp_path: Path) -> None:
    for path in (tmp_path / "none.txt", tmp_path / "none.pdf", tmp_path):
        with pytest.raises(DataError, match=r"does not exist|no document"):
            list(read_documents([str(path)]))


def test_a_file_that_is_too_large_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_lines, "MOST_BYTES", 2**20)
    (tmp_path / "d.txt.gz").write_bytes(gzip.compress(b"x" * (2**20 + 1)))
    with pytest.raises(DataError, match="more than 1 MiB"):
        list(read_documents([str(tmp_path / "d.txt.gz")]))
