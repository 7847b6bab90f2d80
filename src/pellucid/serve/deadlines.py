"""Connections that come to nothing are closed, and there are only so many: uvicorn has no limit on how long a request
may take to come, or on how long its answer may take to be read."""

from __future__ import annotations

import asyncio
import select
import time
from collections.abc import Iterable
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEAD_SECONDS = 10.0  # from a connection, or from the first byte of a request, to the end of its headers
HURRIED_SECONDS = 1.0  # the same, where half of all connections that there may be are there, or the server is to go
BODY_SECONDS = 10.0  # from there to the end of its body
READING_SECONDS = 20.0  # in which a client reads what it was sent
MOST_CONNECTIONS = 4096
MOST_HEAD_BYTES = 65_536
_LARGE = 65_536  # bytes that are sent without waiting for more
MOST_AHEAD = 32  # requests that wait on their connection for one before them

_FULL = b'{"error":"Too many connections"}'
_FULL = b"\r\n".join([b"HTTP/1.1 503 Service Unavailable", b"content-type: application/json", b"retry-after: 1",
                      b"connection: close", b"content-length: %d" % len(_FULL), b"", _FULL])


class Joining:
    """A transport that sends the head of an answer together with its body, which uvicorn writes one by one: what is
    written at one go is sent when the loop comes round, or before it closes. All else is the transport's own."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport, self._loop = transport, asyncio.get_running_loop()
        self._parts: list[bytes] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Sends it with what else is written at this go."""
        if not self._parts:
            self._loop.call_soon(self.flush)
        self._parts.append(data)
        if len(data) > _LARGE:
            self.flush()

    def flush(self) -> None:
        """Sends what was written."""
        if self._parts:
            data, self._parts = b"".join(self._parts), []
            self._transport.write(data)

    def close(self) -> None:
        """Sends what was written, and closes."""
        self.flush()
        self._transport.close()

    def get_write_buffer_size(self) -> int:
        """Bytes that are still to be sent."""
        return self._transport.get_write_buffer_size() + sum(map(len, self._parts))


class Protocol(HttpToolsProtocol):
    """HTTP/1.1 whose requests must come in time."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._joining = Joining(transport)
        super().connection_made(cast(asyncio.Transport, self._joining))
        self._head_bytes, self._is_in_head, self._is_idle = 0, True, False
        self._since = time.monotonic()  # it waits for the rest of a request
        self._unread_since: float | None = None
        if len(self.connections) > MOST_CONNECTIONS:
            self.transport.write(_FULL)
            self.transport.close()

    def eof_received(self) -> None:
        """The client says no more, and its connection is closed behind what it has been answered."""
        self._joining.flush()

    def data_received(self, data: bytes) -> None:
        if self._is_idle:  # empty lines before a request begin nothing, and take time
            self._is_in_head, self._is_idle, self._since = True, False, time.monotonic()
        if self._is_in_head:
            self._head_bytes += len(data)
        super().data_received(data)
        if self._is_in_head and self._head_bytes > MOST_HEAD_BYTES and not self.transport.is_closing():
            self.send_400_response("The headers are too long.")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._is_in_head, self._is_idle, self._since, self._header_bytes = True, False, time.monotonic(), 0

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._is_in_head:  # what stands behind a body is no header: a proxy has not looked at it
            self._header_bytes += len(name) + len(value) + 4
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._is_in_head, self._head_bytes, self._since = False, 0, time.monotonic()
        if self._header_bytes > MOST_HEAD_BYTES:  # that came all at once
            raise ValueError("the headers are too long")
        if len(self.pipeline) >= MOST_AHEAD:
            raise ValueError("too many requests wait for the one before them")  # uvicorn answers with 400
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._is_idle = True
        super().on_message_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        for cycle, _ in self.pipeline:
            cycle.disconnected = True
        self.pipeline.clear()
        super().connection_lost(exc)

    def shutdown(self) -> None:
        """The server goes: a connection that has been answered is closed; over others the rest of a request may come,
        whose answer closes it, or `check` does."""
        if self._is_idle and not self._has_unread():
            super().shutdown()

    def _has_unread(self) -> bool:
        """Whether something has come that has not been looked at."""
        poll = select.poll()
        poll.register(self.transport.get_extra_info("socket").fileno(), select.POLLIN)
        return bool(poll.poll(0))

    def check(self, now: float, head_seconds: float) -> None:
        """Closes the connection, if its client has had its time."""
        if not self.transport.get_write_buffer_size():
            self._unread_since = None
        elif self._unread_since is None:
            self._unread_since = now
        elif now - self._unread_since > READING_SECONDS:
            self.transport.abort()
        if self._is_idle:
            return
        if self.flow.read_paused:  # it is we who let it wait
            self._since = now
            return
        waited = now - self._since
        is_answered = not self._is_in_head and self.cycle.response_complete  # before that, the guard says 408 in time
        if (self._is_in_head and waited > head_seconds) or (is_answered and waited > BODY_SECONDS + 1):
            self.transport.close()


def close_idlers(connections: Iterable[Protocol], is_hurried: bool) -> None:
    """Closes those connections that have had their time."""
    there, now = list(connections), time.monotonic()
    seconds = HURRIED_SECONDS if is_hurried or len(there) > MOST_CONNECTIONS / 2 else HEAD_SECONDS
    for connection in there:
        connection.check(now, seconds)
