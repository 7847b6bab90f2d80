"""A server without a network: its application is called as a server calls it."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any

from starlette.types import ASGIApp

from pellucid.retrieve.retriever import Retriever
from pellucid.runs.run import Run
from pellucid.serve.app import make_app
from pellucid.serve.catalogue import Catalogue, Served
from pellucid.serve.keys import Keys
from pellucid.serve.limits import Limits
from pellucid.serve.service import Service


@dataclass(frozen=True)
class Answer:
    """What came back, its body in the parts in which it was sent."""

    status: int
    headers: dict[str, str]
    parts: list[bytes]

    @property
    def body(self) -> bytes:
        return b"".join(self.parts)

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def events(self) -> list[tuple[str, Any]]:
        """Kind and data of each server-sent event."""
        blocks = [block.split("\n") for block in self.body.decode().split("\n\n") if block]
        return [(kind.removeprefix("event: "), json.loads(data.removeprefix("data: "))) for kind, data in blocks]


async def call(app: ASGIApp, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None,
               leave_after: int | None = None, is_silent: bool = False) -> Answer:
    """What an application answers.

    Args:
        body: of a POST; None asks with a GET.
        leave_after: the client goes when it has so many parts of the body; None stays.
        is_silent: it sends no body, whatever the headers say of one.
    """
    gone, sent, is_given = asyncio.Event(), list[MutableMapping[str, Any]](), False
    given = {"host": "127.0.0.1:5000", "content-type": "application/json"} | dict(headers or {})
    if body is not None and not is_silent:
        given["content-length"] = str(len(body))

    async def receive() -> MutableMapping[str, Any]:
        nonlocal is_given
        if not (is_given or is_silent):
            is_given = True
            return {"type": "http.request", "body": body or b"", "more_body": False}
        await gone.wait()
        return {"type": "http.disconnect"}

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)
        if leave_after is not None and len(sent) > leave_after:
            gone.set()

    if leave_after == 0:
        gone.set()
    await app({"type": "http", "asgi": {"version": "3.0", "spec_version": "2.3"}, "http_version": "1.1",
               "method": "GET" if body is None else "POST", "path": path, "raw_path": path.encode(), "root_path": "",
               "query_string": b"", "scheme": "http", "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 5000),
               "headers": [(name.encode(), value.encode()) for name, value in given.items()]}, receive, send)
    start, *rest = sent
    return Answer(start["status"], {name.decode(): value.decode() for name, value in start["headers"]},
                  [message["body"] for message in rest if message.get("body")])


@dataclass(frozen=True)
class Server:
    """A service and its application."""

    service: Service
    app: ASGIApp

    def get(self, path: str) -> Answer:
        return asyncio.run(call(self.app, path))

    def post(self, path: str, body: Any, headers: Mapping[str, str] | None = None) -> Answer:
        return asyncio.run(call(self.app, path, json.dumps(body).encode(), headers))


@contextlib.contextmanager
def serving(runs: Mapping[str, Run], pairs: Sequence[tuple[str, str]] = (), limits: Limits | None = None,
            keys: Keys | None = None, index: Retriever | None = None) -> Iterator[Server]:
    """A server of runs by name, while this lasts.

    Args:
        pairs: their languages.
    """
    languages = pairs or [("", "")] * len(runs)
    served = tuple(Served(name, run, *pair) for (name, run), pair in zip(runs.items(), languages, strict=True))
    catalogue = Catalogue(served, index)
    service = Service(lambda: catalogue, limits or Limits(), keys or Keys(), catalogue)
    service.scheduler.start()
    try:
        yield Server(service, make_app(service, False))
    finally:
        service.scheduler.close()
