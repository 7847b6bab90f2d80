"""An index as a collection of Qdrant, in the client's own memory: what a folder finds, it finds."""

from __future__ import annotations

import json
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pellucid.errors import ConfigError, DataError
from pellucid.retrieve import qdrant
from pellucid.retrieve.index import build_index, open_index
from pellucid.retrieve.qdrant import Collection, write_collection

qdrant_client = pytest.importorskip("qdrant_client")

TEXTS = {"a": "猫在睡觉。狗在叫。", "b": "The cat of Dr. Who is asleep. The dog barks.", "c": "天地玄黃，宇宙洪荒。",
         "d": "A dog and a cat, and another dog."}
QUESTIONS = ["cat", "a dog", "猫", "猫和狗", "the cat and the dog sleep", "unheard", "。", "宇宙 dog"]


@pytest.fixture
def data(tmp_path: Path) -> str:
    rows = [json.dumps({"id": name, "title": name * 2, "text": text}) + "\n" for name, text in TEXTS.items()]
    (tmp_path / "data.jsonl").write_text("".join(rows))
    return str(tmp_path / "data.jsonl")


@pytest.fixture
def collection(data: str) -> Collection:
    made = Collection(qdrant_client.QdrantClient(":memory:"), "mine")
    assert write_collection(made, [data], False, 20) == {"documents": 4, "passages": 7}
    return made


def test_it_finds_what_a_folder_finds(collection: Collection, data: str, tmp_path: Path) -> None:
    build_index([data], str(tmp_path / "idx"), longest=20)
    folder = open_index(str(tmp_path / "idx"))
    for question in QUESTIONS:
        ours, theirs = folder.search(question, 10), collection.search(question, 10)
        assert {one.passage for one in theirs} == {one.passage for one in ours}
        assert [one.score for one in theirs] == pytest.approx([one.score for one in ours], rel=1e-5)


def test_how_far_it_is_is_told(collection: Collection, data: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(qdrant, "_AT_ONCE", 4)
    told = list[str]()
    write_collection(collection, [data], False, 20, told.append)
    assert told[3:] == ["4 documents read, 7 passages", "4 passages sent", "7 passages sent"]
    write_collection(collection, [data], True, 20, told.append)
    assert told[6:] == ["4 passages sent", "7 passages sent"]


def test_a_new_one_takes_the_place_of_the_old_and_of_what_was_left(collection: Collection, tmp_path: Path) -> None:
    for name in (f"mine.build-{'0' * 32}", "other", f"mine.build-2.build-{'0' * 32}"):
        collection.client.create_collection(name, vectors_config={})
    (tmp_path / "new.txt").write_text("only this")
    write_collection(collection, [str(tmp_path / "new.txt")], False, 400)
    assert collection.search("cat") == []
    assert collection.search("this")[0].passage.title == "new"
    names = [one.name for one in collection.client.get_collections().collections]
    assert sorted(name.rstrip("0123456789abcdef") for name in names) == ["mine.build-", "mine.build-2.build-", "other"]


def test_what_is_added_replaces_what_has_the_same_id(collection: Collection, tmp_path: Path) -> None:
    (tmp_path / "more.jsonl").write_text('{"id": "d", "text": "A whale."}\n{"id": "e", "text": "A cat."}\n')
    assert write_collection(collection, [str(tmp_path / "more.jsonl")], True, 20) == {"passages": 7}
    assert {one.passage.document for one in collection.search("cat")} == {"b", "e"}
    assert collection.search("whale")[0].passage.document == "d"


def test_what_is_added_blank_is_gone(collection: Collection, tmp_path: Path) -> None:
    two, one = '{"id": "d", "text": ""}\n{"id": "e", "text": "A cat."}', '{"id": "b", "text": " "}'
    for name, text in (("two", two), ("one", one)):
        (tmp_path / f"{name}.jsonl").write_text(f"{text}\n")
        write_collection(collection, [str(tmp_path / f"{name}.jsonl")], True, 20)
    assert {one.passage.document for one in collection.search("a dog and the cat", 20)} == {"e"}


def test_what_is_added_is_cut_as_the_others_are(collection: Collection, tmp_path: Path) -> None:
    (tmp_path / "long.txt").write_text("A horse. " * 10)
    write_collection(collection, [str(tmp_path / "long.txt")], True, 400)
    found = collection.search("horse", 20)
    assert len(found) > 4
    assert max(len(one.passage.text) for one in found) <= 20


def test_a_document_of_many_blocks_replaces_itself_once(collection: Collection, tmp_path: Path,
                                                        monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pellucid.retrieve.qdrant._AT_ONCE", 3)
    rows = [{"id": name, "text": f"A {name} horse. " * count} for name, count in (("d", 1), ("e", 9), ("f", 2))]
    (tmp_path / "more.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for _ in range(2):
        write_collection(collection, [str(tmp_path / "more.jsonl")], True, 400)
        assert [collection.search(name, 50)[0].passage.document for name in "def"] == ["d", "e", "f"]
        assert len(collection.search("horse", 50)) == 12


def test_nothing_is_replaced_where_a_later_file_cannot_be_read(collection: Collection, tmp_path: Path) -> None:
    (tmp_path / "good.jsonl").write_text('{"id": "d", "text": "A whale."}\n')
    (tmp_path / "bad.txt").write_bytes(b"\xe9")
    with pytest.raises(DataError, match="UTF-8"):
        write_collection(collection, [str(tmp_path / name) for name in ("good.jsonl", "bad.txt")], True, 20)
    assert collection.search("another dog")[0].passage.document == "d"


def test_an_alias_of_somebody_elses_is_left_alone(collection: Collection, data: str) -> None:
    client = collection.client
    client.create_collection("theirs_v7", vectors_config={}, metadata={"characters": 20})
    alias = qdrant_client.models.CreateAlias(collection_name="theirs_v7", alias_name="theirs")
    client.update_collection_aliases([qdrant_client.models.CreateAliasOperation(create_alias=alias)])
    for add in (False, True):
        with pytest.raises(ConfigError, match="is no index"):
            write_collection(Collection(client, "theirs"), [data], add, 400)
    assert client.collection_exists("theirs_v7")


def test_what_somebody_else_has_put_in_is_no_passage(collection: Collection) -> None:
    """Others call such a vector bm25, too."""
    everything = qdrant_client.models.Filter(must=[])
    whole = {"document": 5, "title": "", "start": 0, "end": 6, "text": "A cat."}
    for payload in ({"text": "A cat."}, whole):
        collection.client.overwrite_payload(collection.name, payload, points=everything)
        with pytest.raises(ConfigError, match="no passages"):
            collection.search("cat")


def test_what_cannot_be(collection: Collection, data: str) -> None:
    with pytest.raises(ConfigError, match="no such index to add to"):
        write_collection(Collection(collection.client, "none"), [data], True, 400)
    with pytest.raises(ConfigError, match="no such index"):
        Collection(collection.client, "none").search("cat")
    collection.client.create_collection("theirs", vectors_config={})
    with pytest.raises(ConfigError, match="is no index"):
        write_collection(Collection(collection.client, "theirs"), [data], False, 400)
    with pytest.raises(ConfigError, match="empty"):
        collection.search("")


@pytest.mark.parametrize("place", ["qdrant://", "qdrant://host", "qdrant://host/a/b", "qdrant://host:x/a", "qdrant:///a"])
def test_places_that_are_none(place: str) -> None:
    with pytest.raises(ConfigError, match="no place of a collection"):
        open_index(place)


@pytest.mark.parametrize(("place", "port", "https"), [("qdrant://host/a", 6333, False),
                                                      ("qdrant+https://host:443/a", 443, True)])
def test_where_a_place_is(place: str, port: int, https: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(qdrant_client, "QdrantClient", lambda **keys: keys)
    made = Collection.at(place)
    assert made.name == "a"
    assert (made.client["host"], made.client["port"], made.client["https"]) == ("host", port, https)


def test_a_build_that_fails_leaves_the_old_one_in_use(collection: Collection, data: str,
                                                      monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(qdrant, "_send", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        write_collection(collection, [data], False, 20)
    assert collection.search("cat")


def test_a_server_that_does_not_answer(data: str) -> None:
    for ask in (lambda: open_index("qdrant://127.0.0.1:1/a").search("cat"),
                lambda: build_index([data], "qdrant://127.0.0.1:1/a")):
        with pytest.raises(ConfigError, match="does not answer"):
            ask()


def asked_at(scheme: str) -> tuple[bytes, str]:
    """The first bytes that a search sends to a server, which refuses it, and what its error says."""
    with socket.create_server(("127.0.0.1", 0)) as server, ThreadPoolExecutor(1) as pool:
        server.settimeout(20)

        def refuse() -> bytes:
            with server.accept()[0] as asking:
                first = asking.recv(65536)
                asking.sendall(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n")
                return first

        first = pool.submit(refuse)
        with pytest.raises(ConfigError) as error:
            open_index(f"{scheme}://127.0.0.1:{server.getsockname()[1]}/a").search("cat")
        return first.result(), str(error.value)


@pytest.mark.filterwarnings("ignore:Api key is used with an insecure connection")
def test_the_key_is_that_of_the_environment_and_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("QDRANT_API_KEY", raising=False)
    sent, told = asked_at("qdrant")
    assert b"api-key" not in sent.lower()
    assert "QDRANT_API_KEY" in told
    monkeypatch.setenv("QDRANT_API_KEY", "hush-hush")
    sent, told = asked_at("qdrant")
    assert b"api-key: hush-hush" in sent.lower()
    assert "hush" not in told


def test_https_begins_with_a_handshake(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QDRANT_API_KEY", "hush-hush")
    sent, _ = asked_at("qdrant+https")
    assert sent[:1] == b"\x16"
    assert b"hush" not in sent


@pytest.mark.parametrize("place", ["qdrant://name:hush@host/a", "qdrant+https://hush@host/a/b"])
def test_a_place_holds_no_key(place: str) -> None:
    with pytest.raises(ConfigError, match="no name or key") as error:
        open_index(place)
    assert "hush" not in str(error.value)
