"""Models of the Hub: `pellucid import hub:owner/name` from a server of the test's own, and from the cache."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from tests.interop.conftest import MakeRun

from pellucid.errors import ConfigError
from pellucid.interop.hub import snapshot
from pellucid.interop.huggingface import export

pytest.importorskip("huggingface_hub")
COMMIT = "0123456789abcdef0123456789abcdef01234567"
Import = Callable[..., subprocess.CompletedProcess[str]]


class Hub:
    """A repository owner/name.

    Attributes:
        files: by their names.
        refuse: the status and the X-Error-Code that every answer has.
        cut: after how many bytes of a file the connection ends.
        asked: the files that were.
    """

    def __init__(self, folder: Path) -> None:
        self.files = {path.name: path.read_bytes() for path in folder.iterdir()}
        self.refuse: tuple[int, str] | None = None
        self.cut: int | None = None
        self.asked: list[str] = []

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        path, status, headers, body = unquote(urlsplit(request.path).path), 200, {}, b""
        if self.refuse is not None:
            status, headers = self.refuse[0], {"X-Error-Code": self.refuse[1]}
        elif "/tree/" in path:
            body = json.dumps([{"type": "file", "path": name, "size": len(content), "oid": _digest(content)}
                               for name, content in self.files.items()]).encode()
        elif path.startswith("/api/models/owner/name"):
            body = json.dumps({"id": "owner/name", "sha": COMMIT, "siblings": []}).encode()
        else:
            name = path.rpartition("/")[2]
            body = self.files[name]
            headers = {"ETag": f'"{_digest(body)}"', "X-Repo-Commit": COMMIT, "Accept-Ranges": "bytes"}
            if request.command == "GET":
                self.asked.append(name)
            if wanted := re.fullmatch(r"bytes=(\d+)-", request.headers.get("Range") or ""):
                headers["Content-Range"] = f"bytes {wanted[1]}-{len(body) - 1}/{len(body)}"
                status, body = 206, body[int(wanted[1]):]
        request.send_response(status)
        for key, value in headers.items() | {"Content-Length": str(len(body))}.items():
            request.send_header(key, value)
        request.end_headers()
        if request.command == "GET":
            request.wfile.write(body[:self.cut])
        request.close_connection = True


def _digest(body: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(body) + body).hexdigest()


@pytest.fixture
def hub(random_run: MakeRun, tmp_path: Path) -> Iterator[tuple[Hub, Import]]:
    """The repository of an exported run, and a way to import from it, the cache empty at first."""
    export(random_run(), tmp_path / "theirs")
    hub = Hub(tmp_path / "theirs")
    hub.files["pytorch_model.bin"] = hub.files["run.py"] = hub.files["onnx/config.json"] = b"never"

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            hub.answer(self)

        do_HEAD = do_GET

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    own = {key: value for key, value in os.environ.items() if not key.startswith("HF_") and "proxy" not in key.lower()}
    settings = own | {"HF_ENDPOINT": f"http://127.0.0.1:{server.server_port}", "HF_HUB_CACHE": str(tmp_path / "cache")}

    def run(address: str, out: str, **changed: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, "-m", "pellucid", "import", address, "--out", str(tmp_path / out)],
                              env=settings | changed, capture_output=True, text=True)

    yield hub, run
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_model_is_downloaded_once_and_no_more_of_it_than_is_needed(hub: tuple[Hub, Import], tmp_path: Path) -> None:
    server, run = hub
    done = run("hub:owner/name", "run")
    assert done.returncode == 0, done.stderr
    assert "BlenderbotForConditionalGeneration" in done.stdout
    assert {"config.json", "model.safetensors", "tokenizer.json"} <= set(server.asked)
    assert not {"pytorch_model.bin", "run.py", "onnx/config.json", "README.md"} & set(server.asked)
    assert json.loads((tmp_path / "run" / "imported.json").read_text())["from"] == f"hub:owner/name@{COMMIT}"
    assert f"imported from `hub:owner/name@{COMMIT}`" in (tmp_path / "run" / "README.md").read_text()
    server.asked.clear()
    for address in ("hub:owner/name", f"hub:owner/name@{COMMIT}"):  # from the cache alone
        assert run(address, f"run-{len(address)}", HF_HUB_OFFLINE="1").returncode == 0
        assert (tmp_path / f"run-{len(address)}" / "config.yaml").read_bytes() == (
            tmp_path / "run" / "config.yaml").read_bytes()
    assert server.asked == []


def test_what_was_interrupted_is_asked_for_again(hub: tuple[Hub, Import], tmp_path: Path) -> None:
    server, run = hub
    server.cut = 3000
    done = run("hub:owner/name", "run", HF_HUB_DOWNLOAD_TIMEOUT="1")
    assert done.returncode == 3
    assert "cannot be downloaded" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "run").exists()
    server.cut = None
    assert run("hub:owner/name", "run").returncode == 0


@pytest.mark.parametrize(("status", "code", "said"), [
    (401, "RepoNotFound", "there is no such model, or it is private"), (403, "GatedRepo", "this model is gated"),
    (404, "RevisionNotFound", "the model has no such revision"), (503, "", "the model cannot be downloaded")])
def test_what_a_server_refuses(status: int, code: str, said: str, hub: tuple[Hub, Import]) -> None:
    server, run = hub
    server.refuse = status, code
    done = run("hub:owner/name@v2", "run")
    assert done.returncode == 3
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_a_repository_without_safetensors(hub: tuple[Hub, Import]) -> None:
    server, run = hub
    del server.files["model.safetensors"]
    done = run("hub:owner/name", "run")
    assert done.returncode == 4
    assert "no safetensors" in done.stderr
    assert "@refs/pr/1" in done.stderr


def test_no_network_and_nothing_in_the_cache(hub: tuple[Hub, Import]) -> None:
    done = hub[1]("hub:owner/name", "run", HF_HUB_OFFLINE="1")
    assert done.returncode == 3
    assert "check the network" in done.stderr


@pytest.mark.parametrize("address", ["hub:", "hub:name", "hub:../x", "hub:a/../b", "hub:/a/b", "hub:a/b/c", "hub:a/b@",
                                     "hub:a/b@../c", "hub:a/b@c/../../d", "hub:.a/b", "hub:a/b--c", "hub:a/b?c",
                                     "hub:a/b\n", "hub:a/b@/c", "hub:a\\b/c", "hub:" + "a" * 500 + "/b"])
def test_a_name_that_is_none(address: str) -> None:
    with pytest.raises(ConfigError, match="no address"):
        snapshot(address)
