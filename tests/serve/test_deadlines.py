"""Connections that misbehave: each is answered as it deserves, or not, and has its time."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send
from tests.promises.misbehaviour import HEALTH, Misbehaviour, fault_of, misbehaviours
from tests.serve.asgi import serving
from uvicorn.server import ServerState

import pellucid
from pellucid.serve import deadlines, guard
from pellucid.serve.deadlines import Protocol, close_idlers

KEPT = Path(__file__).parents[1] / "runs" / "kept" / "0.1.0" / "run"


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Deadlines that a test can wait for."""
    monkeypatch.setattr(deadlines, "HEAD_SECONDS", 1.0)
    monkeypatch.setattr(deadlines, "BODY_SECONDS", 0.0)  # and a second for the answer
    monkeypatch.setattr(guard, "BODY_SECONDS", 1.0)
    monkeypatch.setattr(deadlines, "READING_SECONDS", 0.5)


@pytest.fixture(scope="module")
def app() -> Iterator[ASGIApp]:
    with serving({"run": pellucid.load(KEPT)}, [("en", "fr")]) as server:
        server.service.is_private = True
        yield server.app


@contextlib.asynccontextmanager
async def listening(app: ASGIApp) -> AsyncIterator[tuple[int, ServerState]]:
    """A port where an application is asked, and who asks it."""
    config = uvicorn.Config(app, http=Protocol, ws="none", lifespan="off", log_config=None, access_log=False,
                            timeout_keep_alive=1)
    state, loop = ServerState(), asyncio.get_running_loop()
    door = await loop.create_server(lambda: Protocol(config, state, {}, loop), "127.0.0.1", 0)

    async def check() -> None:
        while True:
            await asyncio.sleep(0.05)
            close_idlers(state.connections, False)  # type: ignore[arg-type]

    checking = asyncio.ensure_future(check())
    try:
        yield door.sockets[0].getsockname()[1], state
    finally:
        checking.cancel()
        door.close()


async def faults(app: ASGIApp, all_of_them: list[Misbehaviour]) -> list[str]:
    """What is wrong with how they are met; and whether anybody is left."""
    async with listening(app) as (port, state):
        found = await asyncio.gather(*(fault_of(port, one) for one in all_of_them))
        for _ in range(200):
            if not state.connections and not state.tasks:
                break
            await asyncio.sleep(0.01)
        assert not state.connections
        assert not state.tasks
    return [fault for fault in found if fault]


@pytest.mark.usefixtures("short")
def test_everybody_is_met_as_they_deserve(app: ASGIApp) -> None:
    shorter = [replace(one, pause=min(one.pause, 0.1)) for one in misbehaviours(random.Random(1))]
    assert asyncio.run(faults(app, shorter)) == []


@pytest.mark.usefixtures("short")
def test_a_server_that_was_held_up_still_says_what_it_waited_for(app: ASGIApp) -> None:
    async def held_up() -> list[str]:
        asyncio.get_running_loop().call_later(0.5, time.sleep, 2.0)  # past every deadline
        return await faults(app, [one for one in misbehaviours(random.Random(1)) if one.name == "a body that stops"])

    assert asyncio.run(held_up()) == []


def test_the_rest_of_a_request_that_was_refused_is_not_the_next(app: ASGIApp) -> None:
    body = HEALTH + b"\r\n"
    head = b"POST /languages HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body)
    assert asyncio.run(faults(app, [Misbehaviour("405 before its body", (head, body), "405", 0.1, stays=True)])) == []


def test_headers_that_are_too_long_are_refused_though_they_come_at_once() -> None:
    asked = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        asked.append(scope["path"])
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body", "body": b""})

    for size, status in ((65_000, "200"), (66_000, "400")):
        head = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nX-Long: " + b"a" * size + b"\r\n\r\n"
        assert asyncio.run(faults(app, [Misbehaviour("a long head", (head,), status, ends=True)])) == []
    assert asked == ["/"]


def test_headers_behind_a_body_are_none() -> None:
    seen: list[list[bytes]] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        while (await receive())["more_body"]:
            pass
        seen.append([name for name, _ in scope["headers"]])
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body", "body": b""})

    request = (b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nX-API-Key: b\r\n\r\n")
    assert asyncio.run(faults(app, [Misbehaviour("trailers", (request,), "200", ends=True)])) == []
    assert seen == [[b"host", b"transfer-encoding"]]


@pytest.mark.usefixtures("short")
def test_there_are_only_so_many(app: ASGIApp, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deadlines, "MOST_CONNECTIONS", 20)

    async def many() -> None:
        async with listening(app) as (port, state):
            lines = [await asyncio.open_connection("127.0.0.1", port) for _ in range(30)]
            answers = [await reader.read() for reader, _ in lines[20:]]
            assert all(answer.startswith(b"HTTP/1.1 503 ") and b"too many" in answer.lower() for answer in answers)
            assert len(state.connections) == 20
            assert [await reader.read() for reader, _ in lines[:20]] == [b""] * 20  # they have had their time
            assert await fault_of(port, Misbehaviour("good", (HEALTH + b"\r\n",), "200", stays=True)) is None
            for _, writer in lines:
                writer.close()

    asyncio.run(many())


@pytest.mark.usefixtures("short")
def test_who_does_not_read_is_let_go() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for _ in range(1000):
            await send({"type": "http.response.body", "body": b"a" * 65_536, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    async def ask() -> None:
        async with listening(app) as (port, state):
            _, writer = await asyncio.open_connection("127.0.0.1", port, limit=1)
            writer.write(HEALTH + b"\r\n")
            await asyncio.sleep(0.2)
            assert state.tasks  # it waits
            for _ in range(500):
                await asyncio.sleep(0.01)
                if not state.tasks:
                    break
            assert not state.connections
            assert not state.tasks
            writer.close()

    asyncio.run(ask())


def test_a_long_answer_is_held_by_nobody_who_does_not_read_it() -> None:
    """Kept answers are told again at no cost: copies of them would fill the memory."""
    whole = random.Random(1).randbytes(2**24)

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200,
                    "headers": [(b"content-length", b"%d" % len(whole))]})
        await send({"type": "http.response.body", "body": whole})

    async def ask(guarded: ASGIApp) -> None:
        async with listening(guarded) as (port, state):
            lines = [await asyncio.open_connection("127.0.0.1", port, limit=1) for _ in range(4)]
            for _, writer in lines:
                writer.write(HEALTH + b"Connection: close\r\n\r\n")
            for _ in range(500):
                await asyncio.sleep(0.01)
                if len(state.connections) == 4 and all(one.flow.write_paused for one in state.connections):
                    break
            held = [one.transport.get_write_buffer_size() for one in state.connections]
            assert len(held) == 4
            assert 0 < max(held) < 2**20
            for _, writer in lines:
                writer.close()
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(HEALTH + b"Connection: close\r\n\r\n")
            assert (await reader.read()).endswith(b"\r\n\r\n" + whole)
            writer.close()

    with serving({"run": pellucid.load(KEPT)}) as server:
        asyncio.run(ask(guard.Guard(app, server.service)))


def test_who_closes_its_side_behind_a_request_has_gone() -> None:
    """As a client that vanishes does: its turn is for others."""
    gone = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        while (message := await receive())["type"] != "http.disconnect":
            pass
        gone.append(message["type"])
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body", "body": b""})

    assert asyncio.run(faults(app, [Misbehaviour("half closed", (HEALTH + b"\r\n",), "", ends=True)])) == []
    assert gone == ["http.disconnect"]
