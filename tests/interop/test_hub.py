"""Models of the hub: out of its cache, or from a server of the test's own, of which nothing is believed."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

from pellucid.errors import UserError
from pellucid.interop.hub import read_address, snapshot

COMMIT = "0123456789abcdef0123456789abcdef01234567"
BIG = bytes(range(256)) * 400
FILES = {"config.json": b"{}", "tokenizer.json": b'{"model": {}}', "model.safetensors": BIG,
         "pytorch_model.bin": b"never", "README.md": b"no", "run.py": b"no", "onnx/config.json": b"no"}


class Hub:
    """What the server has, how it behaves, and what it was asked for.

    Attributes:
        files: by their names.
        refuse: the status and X-Error-Code of every answer below this path.
        cut: after how many bytes of a body the connection ends; None for never.
        listed: changes what the list of files says.
        lead: where a file's address leads to.
        size: the Content-Length of a file, if not its own; "" for none.
        ranged: whether it answers with a part of a file.
    """

    def __init__(self) -> None:
        self.files = dict(FILES)
        self.refuse: tuple[str, int, str] | None = None
        self.cut: int | None = None
        self.listed: dict[str, Any] = {}
        self.lead, self.size = "", None  # type: tuple[str, str | None]
        self.longer, self.ranged = b"", True
        self.asked: list[tuple[str, str | None, str | None]] = []

    def listing(self) -> dict[str, Any]:
        siblings = [{"rfilename": name, "size": len(body), "blobId": hashlib.sha1(
            b"blob %d\0" % len(body) + body).hexdigest()} for name, body in self.files.items()]
        for one in siblings:
            if str(one["rfilename"]).endswith(".safetensors"):
                one["lfs"] = {"sha256": hashlib.sha256(self.files[str(one["rfilename"])]).hexdigest()}  # type: ignore
        return {"sha": COMMIT, "siblings": siblings} | self.listed

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        path = unquote(urlsplit(request.path).path)
        self.asked.append((path, request.headers.get("Range"), request.headers.get("Authorization")))
        if self.refuse is not None and path.startswith(self.refuse[0]):
            request.send_response(self.refuse[1])
            request.send_header("X-Error-Code", self.refuse[2])
            request.send_header("Content-Length", "0")
            return request.end_headers()
        if path.startswith("/api/"):
            body = json.dumps(self.listing()).encode()
            request.send_response(200)
            request.send_header("Content-Length", str(len(body)))
            request.end_headers()
            request.wfile.write(body)
            return None
        if self.lead and not path.startswith("/elsewhere"):
            request.send_response(302)
            request.send_header("Location", self.lead + path)
            request.send_header("Content-Length", "0")
            return request.end_headers()
        return self.send(request, self.files[path.partition(f"{COMMIT}/")[2]])

    def send(self, request: BaseHTTPRequestHandler, body: bytes) -> None:
        wanted, whole = request.headers.get("Range"), len(body)
        first = int(wanted[6:-1]) if wanted and self.ranged else 0
        body = body[first:] + self.longer
        request.send_response(206 if first else 200)
        if first:
            request.send_header("Content-Range", f"bytes {first}-{whole - 1}/{whole}")
        if self.size != "":
            request.send_header("Content-Length", self.size or str(whole - first))
        request.end_headers()
        request.wfile.write(body[:self.cut])
        request.close_connection = True


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Hub]:
    """A server that HF_ENDPOINT names, and an empty cache."""
    hub = Hub()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            hub.answer(self)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    for name in ("HF_HOME", "HF_TOKEN", "HF_HUB_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "cache"))
    yield hub
    server.shutdown()
    server.server_close()
    thread.join()


def get(text: str = "hub:owner/name", told: list[str] | None = None) -> Path:
    return snapshot(read_address(text), (told if told is not None else []).append)


def read(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


NEEDED = {name: FILES[name] for name in ("config.json", "tokenizer.json", "model.safetensors")}


def cached(root: Path, revision: str = "main", files: dict[str, bytes] = NEEDED) -> Path:
    """A folder as the hub's own library lays it out."""
    home = root / "models--owner--name"
    folder = home / "snapshots" / COMMIT
    folder.mkdir(parents=True)
    (home / "refs" / revision).parent.mkdir(parents=True)
    (home / "refs" / revision).write_text(COMMIT)
    for name, body in files.items():
        (folder / name).write_bytes(body)
    return folder


@pytest.mark.parametrize("text", ["hub:", "hub:name", "hub:../x", "hub:x/..", "hub:a/../b", "hub:/a/b", "hub:a/b/c",
                                  "hub:a/b@", "hub:a/b@../c", "hub:a/b@c/../../d", "hub:.a/b", "hub:a/b--c", "hub:a/b?c",
                                  "hub:a/b\n", "hub:a/b@/c", "hub:a\\b/c", "hub:" + "a" * 500 + "/b"])
def test_a_name_that_is_none(text: str) -> None:
    with pytest.raises(UserError, match="no address"):
        read_address(text)


def test_addresses() -> None:
    assert read_address("hub:Helsinki-NLP/opus-mt-en-fr").revision == "main"
    assert read_address("hub:a/b_1.5-c@refs/pr/1").revision == "refs/pr/1"


@pytest.mark.parametrize("text", ["hub:owner/name", f"hub:owner/name@{COMMIT}", "hub:owner/name@refs/pr/1"])
def test_the_cache_is_read_first(text: str, hub: Hub, tmp_path: Path) -> None:
    folder = cached(tmp_path / "cache", "refs/pr/1" if "pr" in text else "main")
    assert get(text) == folder
    assert hub.asked == []


def test_where_the_cache_is(hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HF_HUB_CACHE")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    assert get() == tmp_path / "home" / "hub" / "models--owner--name" / "snapshots" / COMMIT
    monkeypatch.delenv("HF_HOME")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    folder = cached(tmp_path / ".cache" / "huggingface" / "hub")
    assert get() == folder


def test_what_is_needed_is_downloaded_once(hub: Hub) -> None:
    folder = get()
    assert read(folder) == NEEDED
    assert not any("pytorch_model" in path or path.endswith(".py") for path, _, _ in hub.asked)
    count = len(hub.asked)
    assert get() == folder
    assert len(hub.asked) == count


def test_parts_are_those_that_the_index_names(hub: Hub) -> None:
    index = json.dumps({"weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}})
    del hub.files["model.safetensors"]
    hub.files |= {"model.safetensors.index.json": index.encode(), "other.safetensors": b"no",
                  "model-00001-of-00002.safetensors": b"1", "model-00002-of-00002.safetensors": b"2"}
    assert sorted(name for name in read(get()) if name.endswith(".safetensors")) == [
        "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]


@pytest.mark.parametrize("name", ["../../x.safetensors", "run.py", "missing.safetensors"])
def test_an_index_that_lies(name: str, hub: Hub) -> None:
    del hub.files["model.safetensors"]
    hub.files["model.safetensors.index.json"] = json.dumps({"weight_map": {"a": name}}).encode()
    with pytest.raises(UserError, match="index of the weights is damaged"):
        get()


def test_what_was_interrupted_goes_on(hub: Hub) -> None:
    hub.cut = 30_000
    with pytest.raises(UserError, match="connection broke") as caught:
        get()
    assert f"30,000 of {len(BIG):,} bytes" in str(caught.value)
    hub.cut = None
    assert read(get()) == NEEDED
    assert hub.asked[-1][1] == "bytes=30000-"


def test_a_server_that_begins_anew(hub: Hub) -> None:
    hub.cut = 30_000
    with pytest.raises(UserError, match="connection broke"):
        get()
    hub.cut, hub.ranged = None, False
    assert read(get()) == NEEDED


def test_another_file_than_was_announced(hub: Hub, tmp_path: Path) -> None:
    told = hub.listing()
    hub.listed = {"siblings": told["siblings"]}
    hub.files["model.safetensors"] = BIG[::-1]
    with pytest.raises(UserError, match="not what the server announced"):
        get()
    assert not list(tmp_path.rglob("*model.safetensors*"))
    hub.files["model.safetensors"] = BIG
    assert read(get()) == NEEDED


def test_lengths_that_lie(hub: Hub, tmp_path: Path) -> None:
    hub.longer = b"and more"
    assert read(get()) == NEEDED  # what is behind Content-Length is not read
    for folder in (tmp_path / "cache").iterdir():
        folder.rename(tmp_path / "aside")
    hub.size = ""
    with pytest.raises(UserError, match="longer than the server announced"):
        get()
    hub.longer, hub.size = b"", str(2**62)
    with pytest.raises(UserError, match="another size than the server announced"):
        get()


@pytest.mark.parametrize("siblings", [3, [3], [{}], [{"rfilename": "config.json", "size": -1}], [
    {"rfilename": "config.json", "size": "9"}], [{"rfilename": "config.json", "size": 1, "blobId": "../x"}]])
def test_a_list_that_is_damaged(siblings: object, hub: Hub) -> None:
    hub.listed = {"siblings": siblings}
    with pytest.raises(UserError, match="list of files is damaged"):
        get()


@pytest.mark.parametrize("sha", [None, "../../..", "", 3])
def test_a_commit_that_climbs(sha: object, hub: Hub) -> None:
    hub.listed = {"sha": sha}
    with pytest.raises(UserError, match="list of files is damaged"):
        get()


def test_more_than_fits(hub: Hub) -> None:
    hub.listed = {"siblings": [one | {"size": 2**62} for one in hub.listing()["siblings"]]}
    with pytest.raises(UserError, match=r"has 4,611,686,018,427,387,904 bytes"):
        get()


def test_redirects(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "secret")
    hub.lead = "/elsewhere"
    assert read(get()) == NEEDED
    assert {(path.startswith("/elsewhere"), token) for path, _, token in hub.asked} == {
        (False, "Bearer secret"), (True, None)}


@pytest.mark.parametrize("lead", ["http://example.invalid", "ftp://127.0.0.1", "file:///etc"])
def test_redirects_lead_to_https_alone(lead: str, hub: Hub) -> None:
    hub.lead = lead
    with pytest.raises(UserError, match="not https|answers 302"):
        get()


@pytest.mark.parametrize("endpoint", ["http://example.invalid", "ftp://127.0.0.1", "127.0.0.1:80", "http://127.0.0.1.x"])
def test_only_https_is_asked(endpoint: str, hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", endpoint)
    with pytest.raises(UserError, match="not https"):
        get()
