"""What stands around every route, as plain ASGI: whether there is room for what it does, by which name and from which
pages it may be asked, bodies that are bounded and come in time, headers of security on answers, and connections that
are let go by a server that goes."""

from __future__ import annotations

import asyncio
import functools
import ipaddress
from collections.abc import Callable, MutableMapping
from typing import Any

from starlette.types import ASGIApp, Receive, Scope, Send

from pellucid.serve.deadlines import BODY_SECONDS
from pellucid.serve.requests import HttpError, error_response
from pellucid.serve.service import Service

_HEADERS = ((b"x-content-type-options", b"nosniff"), (b"referrer-policy", b"no-referrer"),
            (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
            (b"cross-origin-resource-policy", b"same-origin"), (b"cache-control", b"no-store"))
DECODING = frozenset(("/translate", "/detect", "/v1/translate", "/v1/score", "/v1/classify", "/answer", "/v1/trace",
                      "/v1/attention", "/v1/contributions"))  # what is refused where too much waits
_MOST_HELD = 2**25  # bytes of the bodies of all requests that are under way
_PIECE = 2**17  # bytes of an answer that are sent at one go; more than `Joining` waits with

Headers = dict[bytes, bytes]
Message = MutableMapping[str, Any]


class Guard:
    """The application with its guard.

    Args:
        app: what it stands around.
    """

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self.app, self.service = app, service
        self._held = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        service, headers = self.service, dict(scope["headers"])
        begun = service.metrics.begin()
        status, size, is_cut = 500, 0, False

        async def guarded(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                given = {name for name, _ in message["headers"]}
                message["headers"] = [*message["headers"], *(pair for pair in _HEADERS if pair[0] not in given)]
                if service.is_draining or is_cut:
                    message["headers"].append((b"connection", b"close"))
            await _send_in_pieces(message, send)

        def hold(more: int, claimed: int) -> None:
            nonlocal size
            if 0 < service.limits.body_bytes < max(size + more, claimed):
                raise HttpError(413, f"The request is larger than {service.limits.body_bytes:,} bytes")
            size, self._held = size + more, self._held + more
            if self._held > _MOST_HELD:
                raise HttpError(429, "Too busy: try again in 1 s", 1)

        try:
            if scope["path"] in DECODING and scope["method"] == "POST":
                service.require_room()  # before anything is read: one who is refused costs the others next to nothing
            _check_sender(scope, headers, service.is_private and not service.keys)
            body = await _read(headers, receive, hold)
        except HttpError as error:
            is_cut = error.status == 408 or b"expect" in headers  # what is behind it may be its body, or may not
            await error_response(error.status, error.sentence, error.retry_after)(scope, receive, guarded)
        else:
            await self.app(scope, _first(body, receive), guarded)
        finally:
            self._held -= size
            service.metrics.end(_counted(scope), status, begun)


def _counted(scope: Scope) -> str:
    """The path as which a request is counted, of which there are only so many."""
    if "route" in scope:
        return str(scope["route"].path)
    return scope["path"] if scope["path"] in DECODING else "other"


async def _read(headers: Headers, receive: Receive, hold: Callable[[int, int], None]) -> bytes:
    """All of a body.

    Args:
        hold: called with the size of each part as it comes, and with what is claimed of the whole; raises HttpError
            where it is too much. A claim alone takes no room from others.

    Raises:
        HttpError: what `hold` raises; 408, it comes too slowly; 400, it ends too early.
    """
    if b"content-length" not in headers and b"transfer-encoding" not in headers:
        return b""
    length = int(headers.get(b"content-length", b"0"))
    hold(0, length)
    parts = []
    try:
        async with asyncio.timeout(BODY_SECONDS):
            more = True
            while more:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise HttpError(400, "Invalid request: the body ends too early")
                parts.append(message.get("body", b""))
                hold(len(parts[-1]), length)
                more = message.get("more_body", False)
    except TimeoutError:
        raise HttpError(408, "The request came too slowly") from None
    return b"".join(parts)


async def _send_in_pieces(message: Message, send: Send) -> None:
    """Sends a message, a long body piece by piece as it is read, so that a connection holds a piece, and not a copy of
    an answer that others are given too."""
    body, begin = message.get("body", b""), 0
    while len(body) - begin > _PIECE:
        await send({**message, "body": body[begin : begin + _PIECE], "more_body": True})
        begin += _PIECE
    await send({**message, "body": body[begin:]} if begin else message)


def _first(body: bytes, receive: Receive) -> Receive:
    """The body at once, and then whatever comes."""
    is_given = False

    async def received() -> Message:
        nonlocal is_given
        if is_given:
            return await receive()
        is_given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return received


def _check_sender(scope: Scope, headers: Headers, is_private: bool) -> None:
    """Refuses requests that a browser makes for a page of somebody else, who has it open.

    Such a page may send what a form can send, which `Sec-Fetch-Site` (W3C, Fetch Metadata Request Headers) or `Origin`
    (WHATWG, Fetch) tells; or it has a name of its own lead to this machine (DNS rebinding), which `Host` tells.

    Args:
        is_private: only this machine is to be answered, whoever asks.

    Raises:
        HttpError: 400, there is not one Host; 403, it is a page of somebody else.
    """
    hosts = [value for name, value in scope["headers"] if name == b"host"]
    if len(hosts) > 1 or (not hosts and scope["http_version"] != "1.0"):
        raise HttpError(400, "Invalid request: a request has one Host")
    host = hosts[0].decode("latin-1") if hosts else "localhost"
    if is_private and not is_of_this_machine(_name(host)):
        raise HttpError(403, f"This server is not called {host[:80]!r}: it listens on this machine alone")
    if scope["method"] in ("GET", "HEAD", "OPTIONS"):
        return
    site, origin = headers.get(b"sec-fetch-site"), headers.get(b"origin")
    if site is None and origin is not None:
        site = b"same-origin" if origin.partition(b"://")[2] == host.encode("latin-1") else b"cross-site"
    if site not in (None, b"same-origin", b"none"):
        raise HttpError(403, "A page of another site may not ask this server")


def _name(host: str) -> str:
    """The host without its port."""
    name, _, port = host.rpartition(":")
    return name if name and port.isdecimal() else host


@functools.lru_cache(16)
def is_of_this_machine(host: str) -> bool:
    """Whether this name or address leads to this machine alone."""
    try:
        return ipaddress.ip_address(host.removeprefix("[").removesuffix("]")).is_loopback
    except ValueError:
        return host.lower().rstrip(".").endswith(".localhost") or host.lower().rstrip(".") == "localhost"
