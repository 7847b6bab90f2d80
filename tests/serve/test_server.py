"""A server in a process of its own: signals, and what becomes of those who ask meanwhile."""

from __future__ import annotations

import asyncio
import gc
import json
import shutil
import signal
import socket
import sys
import time
import weakref
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.promises.load import Client, Lost, get, post
from tests.promises.serving import Server, start

from pellucid.cli import main
from pellucid.errors import ConfigError, OutputError
from pellucid.serve.catalogue import Catalogue
from pellucid.serve.door import let_nobody_in, open_door
from pellucid.serve.keys import Keys
from pellucid.serve.limits import Limits
from pellucid.serve.requests import HttpError, _pairs
from pellucid.serve.service import Service, free_earlier

KEPT = Path(__file__).parents[1] / "runs" / "kept" / "0.1.0" / "run"


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    path = tmp_path / "keys"
    path.write_text("one\n")
    return path


@pytest.fixture
def server(tmp_path: Path, keys: Path) -> Iterator[Server]:
    shutil.copytree(KEPT, tmp_path / "run")
    made = start(tmp_path / "run", ["--languages", "en-fr", "--api-keys", str(keys)])
    yield made
    made.process.kill()
    made.process.wait()


def await_line(server: Server, begins: str) -> str:
    """The line that the server tells next that begins so."""
    while True:
        for line in server.log.read_text().splitlines():
            if line.startswith(begins):
                return line
        assert server.process.poll() is None, server.log.read_text()
        time.sleep(0.01)


def asked(key: str) -> bytes:
    return post("/translate", {"q": "the cat", "source": "en", "target": "fr", "api_key": key})


def test_a_run_without_languages_is_told_of(monkeypatch: pytest.MonkeyPatch,
                                            capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("pellucid.serve.server.serve", lambda opens, *others: opens())
    assert main(["serve", str(KEPT)]) == 0
    assert "run names no languages, so that /v1/translate alone offers it" in capsys.readouterr().err
    assert main(["serve", str(KEPT), "--languages", "en-fr"]) == 0
    assert "languages" not in capsys.readouterr().err


def test_what_was_accepted_is_answered_before_it_goes(server: Server) -> None:
    counts = {"answered": 0, "lost": 0}

    async def keep_asking(client: Client) -> None:
        while True:
            try:
                answer = await client.ask(asked("one"))
            except Lost:
                counts["lost"] += 1
            except OSError:  # nobody is let in any more
                return
            assert answer.status == 200
            counts["answered"] += 1

    async def leave() -> None:
        client = Client(server.port)
        silent = socket.create_connection(("127.0.0.1", server.port))  # has asked nothing
        asking = [asyncio.ensure_future(keep_asking(client)) for _ in range(8)]
        await asyncio.sleep(0.2)
        server.process.send_signal(signal.SIGTERM)
        while (await Client(server.port).ask(get("/ready"))).status != 503:
            await asyncio.sleep(0)
        await asyncio.wait_for(asyncio.gather(*asking), 60)
        silent.close()

    asyncio.run(leave())
    assert server.process.wait(30) == 0
    assert counts["lost"] == 0
    assert counts["answered"] > 8


def test_it_changes_over_or_stays_what_it_was(server: Server, keys: Path, tmp_path: Path) -> None:
    def status(key: str) -> int:
        return asyncio.run(Client(server.port).ask(asked(key))).status

    assert (status("one"), status("two")) == (200, 403)
    keys.write_text("two\n")
    server.process.send_signal(signal.SIGHUP)
    await_line(server, "now serving run")
    assert (status("one"), status("two")) == (403, 200)
    best = tmp_path / "run" / "best.json"
    weights = tmp_path / "run" / "checkpoints" / json.loads(best.read_text())["checkpoint"] / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1])
    keys.write_text("three\n")
    server.process.send_signal(signal.SIGHUP)
    await_line(server, "the runs or keys cannot be opened, and those before stay")
    assert (status("two"), status("three")) == (200, 403)  # neither has changed
    answer = asyncio.run(Client(server.port).ask(post("/v1/reload", {"api_key": "two"})))
    assert answer.status == 409
    assert "those before stay" in str(answer.json()["error"])


def test_what_an_earlier_opening_has_left_goes_with_a_change() -> None:
    """Runs lie in cycles, which the collector is told to leave alone as long as they are served."""
    opened: list[weakref.ref[Catalogue]] = []

    def opens() -> Catalogue:
        made = Catalogue(())
        vars(made)["itself"] = made
        opened.append(weakref.ref(made))
        return made

    service = Service(opens, Limits(), Keys(), opens())
    try:
        free_earlier()
        for number in range(1, 4):
            asyncio.run(service.reload())
            assert [one() is not None for one in opened] == [False] * number + [True]
    finally:
        gc.unfreeze()


def test_a_second_signal_ends_it_at_once(tmp_path: Path) -> None:
    """Whatever it is at: here a search that takes a minute."""
    shutil.copytree(KEPT, tmp_path / "run")
    server = start(tmp_path / "run", ["--languages", "en-fr", "--timeout", "300"])
    try:
        with socket.create_connection(("127.0.0.1", server.port)) as asking:
            body = json.dumps({"text": ["the cat sleeps . " * 60] * 32, "options": {
                "beam_size": 32, "max_length": 1024, "min_length": 1000}})
            asking.sendall(f"POST /v1/translate HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
                           f"{body}".encode())
            time.sleep(0.5)
            for _ in range(2):
                server.process.send_signal(signal.SIGTERM)
                time.sleep(0.3)
            server.process.wait(timeout=5)
    finally:
        server.process.kill()
        server.process.wait()


def test_a_form_may_be_utf_8_as_it_is() -> None:
    expected = {"q": "a café", "source": "en"}
    assert _pairs("q=a café&source=en".encode(), "form") == _pairs(b"q=a%20caf%C3%A9&source=en", "form") == expected
    with pytest.raises(HttpError, match="percent-encoded text or UTF-8"):
        _pairs(b"q=\xe9", "form")


def test_an_address_that_cannot_be_had_is_told() -> None:
    with open_door("127.0.0.1", 0) as door:
        door.listen()
        taken = door.getsockname()[1]
        for host, port in (("127.0.0.1", 70_000), ("a" * 300, 0), ("256.0.0.1", 0)):
            with pytest.raises(ConfigError, match="cannot listen on"):
                open_door(host, port)
        for host, port, flag in (("127.0.0.1", taken, "--port"), ("192.0.2.1", 0, "--host")):  # of nobody: RFC 5737
            with pytest.raises(OutputError, match="cannot listen on") as told:  # it may be had later: a start is tried
                open_door(host, port)                                           # again, see deploy/pellucid.service
            assert told.value.where == flag


def test_a_door_opens_again_where_a_connection_was_closed_just_now() -> None:
    """Its port is not free for a minute: a server that is started again would not come up."""
    with open_door("127.0.0.1", 0) as door:
        door.listen()
        address = door.getsockname()
        with socket.create_connection(address) as client:
            door.accept()[0].close()  # we first, so that it is our side that waits
            assert client.recv(1) == b""
    open_door(*address).close()


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no filter on a socket that listens")
def test_behind_a_door_that_lets_nobody_in_those_wait_who_were_there() -> None:
    with open_door("127.0.0.1", 0) as door:
        door.listen()
        before = socket.create_connection(door.getsockname())
        let_nobody_in(door)
        with socket.socket() as behind:
            behind.settimeout(0.2)
            with pytest.raises(TimeoutError):
                behind.connect(door.getsockname())
        inside, _ = door.accept()
        before.sendall(b"a")
        assert inside.recv(1) == b"a"
        inside.sendall(b"b")
        assert before.recv(1) == b"b"
        inside.close()
        before.close()
