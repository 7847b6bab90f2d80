"""A client that asks a server of this machine as often as it is told to, whether or not it is answered.

Each request has a moment at which it is to depart, and its time counts from there: a client that waits for a slow
server before it asks again would measure nothing of what those see who come meanwhile.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field


class Lost(Exception):
    """A connection was made, something was asked over it, and no whole answer came."""


@dataclass
class Answer:
    """What came.

    Attributes:
        seconds: from the moment at which it was to be asked.
        end: when it came, on the clock of `time.perf_counter`.
    """

    status: int
    headers: dict[str, str]
    body: bytes
    seconds: float = 0.0
    end: float = 0.0

    def json(self) -> dict[str, object]:
        """The object that the body is."""
        found: dict[str, object] = json.loads(self.body)
        return found


def post(path: str, body: object, close: bool = False) -> bytes:
    """A request as it goes over the wire."""
    data = json.dumps(body).encode()
    return (f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(data)}\r\n{'Connection: close' if close else 'Accept: */*'}\r\n\r\n").encode() + data


def get(path: str) -> bytes:
    """The same without a body."""
    return f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()


def translate(text: str, close: bool = False) -> bytes:
    """A request for a translation."""
    return post("/translate", {"q": text, "source": "en", "target": "fr"}, close)


class Line(asyncio.Protocol):
    """A connection, over which one thing is asked at a time.

    Attributes:
        stray: bytes that came when nothing was asked.
    """

    def __init__(self) -> None:
        self._data, self.stray, self.is_open = b"", b"", False
        self._answer: asyncio.Future[Answer] | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self.transport, self.is_open = transport, True

    def data_received(self, data: bytes) -> None:
        if self._answer is None or self._answer.done():
            self.stray += data
            return
        self._data += data
        head, end, body = self._data.partition(b"\r\n\r\n")
        if not end:
            return
        first, *lines = head.decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        size = int(headers["content-length"])
        if len(body) >= size:
            self._data, self.stray = b"", self.stray + body[size:]
            self.is_open = headers.get("connection") != "close"
            self._answer.set_result(Answer(int(first.split()[1]), headers, body[:size], end=time.perf_counter()))

    def connection_lost(self, error: Exception | None) -> None:
        self.is_open = False
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(Lost(f"{len(self._data)} bytes of an answer, {error}"))

    async def ask(self, request: bytes) -> Answer:
        """The answer. Raises Lost."""
        self._answer = asyncio.get_running_loop().create_future()
        self.transport.write(request)
        return await self._answer


@dataclass
class Client:
    """Asks over as many connections as it takes, each of which is used again.

    Attributes:
        stray: bytes that came behind answers.
    """

    port: int
    stray: int = 0
    _free: list[Line] = field(default_factory=list)

    async def ask(self, request: bytes, departure: float | None = None) -> Answer:
        """The answer to a request.

        Raises:
            OSError: nobody listens.  Lost: there is none.
        """
        departure = time.perf_counter() if departure is None else departure
        line = None
        while self._free and line is None:
            line = self._free.pop()
            line = line if line.is_open else None
        if line is None:
            _, line = await asyncio.get_running_loop().create_connection(Line, "127.0.0.1", self.port)
        answer = await line.ask(request)
        answer.seconds = answer.end - departure
        self.stray += len(line.stray)
        line.stray = b""
        if line.is_open:
            self._free.append(line)
        else:
            line.transport.close()
        return answer

    async def at_rate(self, requests: Sequence[bytes], rate: float) -> list[Answer | BaseException]:
        """Answers to all, each asked in its time, so many a second, or why there is none."""
        begun = time.perf_counter()
        asked: list[asyncio.Task[Answer]] = []
        for number, request in enumerate(requests):
            departure = begun + number / rate
            if (wait := departure - time.perf_counter()) > 0:
                await asyncio.sleep(wait)
            asked.append(asyncio.ensure_future(self.ask(request, departure)))
        return await asyncio.gather(*asked, return_exceptions=True)

    async def in_turn(self, requests: Sequence[bytes], connections: int) -> list[Answer]:
        """Answers to all, asked by so many, each of whom asks again when it is answered."""
        left, answers = iter(requests), []

        async def one() -> None:
            for request in left:
                answers.append(await self.ask(request))

        await asyncio.gather(*(one() for _ in range(connections)))
        return answers

    def close(self) -> None:
        """Closes its connections."""
        for line in self._free:
            line.transport.close()
