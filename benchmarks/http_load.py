"""So many connections to a server at once, each of which asks again as soon as it is answered.

Raw sockets in one thread: what it takes of the machine is taken from the server's.
"""

from __future__ import annotations

import contextlib
import json
import selectors
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass
class Answers:
    """What came.

    Attributes:
        bodies: by the place of what was asked.
        seconds: that each took, likewise.
        elapsed: seconds in all.
    """

    bodies: list[bytes]
    seconds: list[float]
    elapsed: float


def post(path: str, body: object) -> bytes:
    """A request as it goes over the wire."""
    data = json.dumps(body, ensure_ascii=False).encode()
    return (f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(data)}\r\n\r\n").encode() + data


def ask(port: int, requests: Sequence[bytes], connections: int) -> Answers:
    """Asks all of the server on this port of the loopback address.

    Raises:
        ValueError: an answer is not 200, or cannot be read.
        ConnectionError: the server ended a connection before it had answered, or there is none.
    """
    with contextlib.ExitStack() as lines:
        return _ask(port, requests, connections, lines)


def _ask(port: int, requests: Sequence[bytes], connections: int, lines: contextlib.ExitStack) -> Answers:
    chosen = lines.enter_context(selectors.DefaultSelector())
    bodies, seconds, begun = [b""] * len(requests), [0.0] * len(requests), [0.0] * len(requests)
    left = iter(range(len(requests)))
    under_way = 0
    start = time.perf_counter()
    for _ in range(min(connections, len(requests))):
        line = lines.enter_context(socket.create_connection(("127.0.0.1", port)))
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        place = next(left)
        chosen.register(line, selectors.EVENT_READ, [place, b""])
        begun[place] = time.perf_counter()
        line.sendall(requests[place])
        under_way += 1
    while under_way:
        for key, _ in chosen.select():
            line, state = key.fileobj, key.data
            assert isinstance(line, socket.socket)
            came = line.recv(65_536)
            if not came:
                raise ConnectionError(f"the server ended a connection after {len(state[1])} bytes of an answer")
            state[1] += came
            body = _body(state[1])
            if body is None:
                continue
            place = state[0]
            bodies[place], seconds[place] = body, time.perf_counter() - begun[place]
            following = next(left, None)
            if following is None:
                chosen.unregister(line)
                line.close()
                under_way -= 1
                continue
            state[:] = [following, b""]
            begun[following] = time.perf_counter()
            line.sendall(requests[following])
    return Answers(bodies, seconds, time.perf_counter() - start)


def _body(data: bytes) -> bytes | None:
    """The body of an answer; None while some of it is to come."""
    head, end, body = data.partition(b"\r\n\r\n")
    if not end:
        return None
    if not head.startswith(b"HTTP/1.1 200"):
        raise ValueError(f"the server answers {head[:40]!r} {body[:200]!r}")
    size = head.lower().partition(b"content-length:")[2].split(b"\r\n", 1)[0]
    return body if len(body) >= int(size) else None
