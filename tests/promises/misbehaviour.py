"""What no client should send, or send so slowly: what a server is to answer to it, if anything, and that it then closes
the connection, or goes on to answer well."""

from __future__ import annotations

import asyncio
import random
import re
import socket
from collections.abc import Iterator
from dataclasses import dataclass

HOST = b"Host: localhost\r\n"
POST = b"POST /translate HTTP/1.1\r\n" + HOST
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"
FORM = POST + b"Content-Type: application/x-www-form-urlencoded\r\n"
HEALTH = b"GET /health HTTP/1.1\r\n" + HOST
SMUGGLED = b"GET /smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n"  # would be answered with 404
JSON = b'{"q": "the cat", "source": "en", "target": "fr"}'
GOOD = POST + b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(JSON) + JSON
LONGEST = 30.0  # seconds until a connection that comes to nothing is closed, whatever it does


@dataclass(frozen=True)
class Misbehaviour:
    """What is sent, and what may come back.

    Attributes:
        parts: sent one behind the other, a pause before each but the first.
        statuses: a regular expression for those of all answers.
        stays: the connection may stay open, and must then answer /health.
        reads: no, it never looks at what it is sent.
        ends: it says that nothing more comes.
    """

    name: str
    parts: tuple[bytes, ...]
    statuses: str
    pause: float = 0.0
    stays: bool = False
    reads: bool = True
    ends: bool = False


def misbehaviours(draw: random.Random) -> Iterator[Misbehaviour]:
    """All of them, with what is drawn."""
    yield from _slow(draw)
    yield from _cut(draw)
    yield from _smuggled()
    yield from _malformed(draw)
    yield from _huge(draw)
    yield from _odd()


def _slow(draw: random.Random) -> Iterator[Misbehaviour]:
    whole = GOOD
    head = whole[: whole.index(b"\r\n\r\n")]
    yield Misbehaviour("silent", (b"",), "")
    yield Misbehaviour("a slow head", tuple(head[i : i + 1] for i in range(60)), "", 0.5)
    yield Misbehaviour("a head that stops", (head[: draw.randrange(1, len(head))],), "")
    yield Misbehaviour("empty lines for ever", (b"\r\n",) * 60, "", 0.5)
    yield Misbehaviour("empty lines between requests", (HEALTH + b"\r\n", *(b"\r\n",) * 60), "200", 0.5)
    yield Misbehaviour("a body that stops", (POST + b"Content-Length: 1000\r\n\r\n", JSON), "408", 0.1)
    yield Misbehaviour("a slow body", (POST + b"Content-Length: 1000\r\n\r\n", *(b" ",) * 60), "408", 0.5)
    yield Misbehaviour("slow chunks", (CHUNKED, *(b"1\r\na\r\n",) * 60), "408", 0.5)
    yield Misbehaviour("slow extensions of a chunk", (CHUNKED + b"1;", *(b"a" * 100,) * 60), "408|400|", 0.5)
    yield Misbehaviour("slow trailers", (CHUNKED + b"0\r\n", *(b"a: b\r\n",) * 60), "408", 0.5)
    yield Misbehaviour("a body that was refused, and comes for ever",
                       (POST + b"Content-Length: 100000000\r\n\r\n", *(b"a" * 1000,) * 60), "413", 0.5)
    yield Misbehaviour("asks to go on, and does not", (POST + b"Expect: 100-continue\r\nContent-Length: 9\r\n\r\n",),
                       "100 408")
    document = b"GET /openapi.json HTTP/1.1\r\n" + HOST + b"\r\n"
    yield Misbehaviour("never reads", (document * 30,) * 3, ".*", 0.1, reads=False)


def _cut(draw: random.Random) -> Iterator[Misbehaviour]:
    whole = GOOD
    for _ in range(6):
        yield Misbehaviour("cut", (whole[: draw.randrange(1, len(whole))],), "400|", ends=True)
    chunked = CHUNKED + b"30\r\n" + JSON
    for _ in range(4):
        yield Misbehaviour("cut in a chunk", (chunked[: draw.randrange(60, len(chunked))],), "400|", ends=True)


def _smuggled() -> Iterator[Misbehaviour]:
    length = b"Content-Length: %d\r\n" % len(SMUGGLED)
    for name, lines in {
            "two ways to say how long": length + b"Transfer-Encoding: chunked\r\n",
            "the other way round": b"Transfer-Encoding: chunked\r\n" + length,
            "two lengths": length + b"Content-Length: 0\r\n", "two lengths in one": b"Content-Length: 0, 40\r\n",
            "a length with a sign": b"Content-Length: +40\r\n", "a length below nothing": b"Content-Length: -1\r\n",
            "a length in hexadecimal": b"Content-Length: 0x28\r\n", "a length of nothing": b"Content-Length: \r\n",
            "a length without end": b"Content-Length: " + b"9" * 40 + b"\r\n",
            "an unknown coding": b"Transfer-Encoding: xchunked\r\n",
            "chunked, then more": b"Transfer-Encoding: chunked, identity\r\n",
            "a space before the colon": b"Transfer-Encoding : chunked\r\n",
            "a folded line": b"Transfer-Encoding:\r\n chunked\r\n", "a null": b"Content-Length: 0\x00\r\n",
            "a lone carriage return": b"X: a\rContent-Length: 0\r\n"}.items():
        yield Misbehaviour(name, (POST + lines + b"\r\n0\r\n\r\n" + SMUGGLED,), "400")
    for name, size in {"no number": b"zz", "below nothing": b"-1", "too large": b"f" * 17, "a space": b"1 2",
                       "0x": b"0x1", "nothing": b""}.items():
        yield Misbehaviour(f"a chunk of {name}", (CHUNKED + size + b"\r\na\r\n0\r\n\r\n" + SMUGGLED,), "400")
    yield Misbehaviour("two hosts", (b"GET /health HTTP/1.1\r\n" + HOST * 2 + b"\r\n",), "400", stays=True)
    yield Misbehaviour("no host", (b"GET /health HTTP/1.1\r\n\r\n",), "400", stays=True)
    yield Misbehaviour("another host", (b"GET /health HTTP/1.1\r\nHost: a.example\r\n\r\n",), "403", stays=True)
    for host in (b"[", b"[::", b"a b", b"@", b"localhost@a.example", b"localhost.a.example", b"\xff", b"127.0.0.1.a"):
        yield Misbehaviour(f"the host {host!r}", (b"GET /health HTTP/1.1\r\nHost: " + host + b"\r\n\r\n",), "40[03]",
                           stays=True)
    for name in (b"Origin: http://a.example", b"Origin: null", b"Sec-Fetch-Site: cross-site"):
        yield Misbehaviour(f"a page of {name!r}", (POST + name + b"\r\nContent-Length: 0\r\n\r\n",), "403", stays=True)


def _malformed(draw: random.Random) -> Iterator[Misbehaviour]:
    for line in (b"", b"GET", b"GET /", b"GET / HTTP", b"GET / HTTP/9.9", b"GET  / HTTP/1.1", b"GET / / HTTP/1.1",
                 b"get /health HTTP/1.1", b"G\x00T / HTTP/1.1", b"GET /\xff HTTP/1.1", b"GET http:// HTTP/1.1",
                 b"GET http://[/ HTTP/1.1", b"CONNECT localhost:1 HTTP/1.1", b"OPTIONS * HTTP/1.1",
                 b"PRI * HTTP/2.0", b"GET //health HTTP/1.1", b"GET ?a HTTP/1.1", b"GET #a HTTP/1.1"):
        yield Misbehaviour(f"the line {line!r}", (line + b"\r\n" + HOST + b"\r\n",), "200|40[0345]|", stays=True)
    yield Misbehaviour("no carriage returns", (b"GET /health HTTP/1.1\nHost: localhost\n\n",), "400")
    yield Misbehaviour("TLS", (bytes.fromhex("16030100c8010000c40303") + draw.randbytes(200),), "400|", ends=True)
    for size in (1, 10, 100, 1000, 10_000, 50_000):
        yield Misbehaviour("noise", (draw.randbytes(size),), "400|", ends=True)
    for value in (b"\x01", b"\x7f", b"\x00"):
        yield Misbehaviour("a header with a control", (HEALTH + b"X: " + value + b"\r\n\r\n",), "400|200", stays=True)
    for path in (b"/%", b"/%00", b"/%ff", b"/..%2f..%2fetc/passwd", b"/../../etc/passwd", b"/static/..%2f..%2fapp.py",
                 b"/download_file/..%2f..%2fetc%2fpasswd", b"/\xc3\xa9", b"/translate%0d%0aX:%20a", b"//a.example/.."):
        yield Misbehaviour(f"the path {path!r}", (b"GET " + path + b" HTTP/1.1\r\n" + HOST + b"\r\n",), "40[0345]",
                           stays=True)
    for query in (b"%", b"%ff", b"q=%", b"q=%ff", b"q", b"=", b"&" * 5000, b"q=a&" * 5000, b"q[]=a", b"q=a&q=b"):
        yield Misbehaviour("a query", (b"POST /translate?" + query + b" HTTP/1.1\r\n" + HOST
                                       + b"Content-Length: 0\r\n\r\n",), "400", stays=True)
    for body in (b"{", b"[" * 100_000, b'{"q":' * 50_000, b"nul", b"\xff", b"\xef\xbb\xbf{}", b'{"q": NaN}', b'"q"',
                 b'{"q": "\\ud800", "source": "en", "target": "fr"}', b'{"q": ' + b"9" * 5000 + b"}"):
        yield Misbehaviour("a body", (POST + b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
                                      + body,), "400", stays=True)
    for body in (b"%", b"q=%ff", b"\xff", b"&" * 9000, b"q=a&" * 9000):
        yield Misbehaviour("a form", (FORM + b"Content-Length: %d\r\n\r\n" % len(body) + body,), "400", stays=True)


def _huge(draw: random.Random) -> Iterator[Misbehaviour]:
    yield Misbehaviour("a long path", (b"GET /" + b"a" * 500_000 + b" HTTP/1.1\r\n" + HOST + b"\r\n",), "400|414|")
    yield Misbehaviour("a long header", (HEALTH + b"X: " + b"a" * 500_000 + b"\r\n\r\n",), "400|431|")
    yield Misbehaviour("many headers", (HEALTH + b"X: a\r\n" * 100_000 + b"\r\n",), "400|431|")
    yield Misbehaviour("headers for ever", (HEALTH, *(b"X: a\r\n" * 200,) * 80), "400|431|", 0.01)
    yield Misbehaviour("a long body", (POST + b"Content-Length: 2000000\r\n\r\n" + b"a" * 2_000_000,), "413",
                       stays=True)
    yield Misbehaviour("a length that is huge", (POST + b"Content-Length: 1000000000000\r\n\r\n",), "413")
    yield Misbehaviour("chunks for ever", (CHUNKED, *(b"10000\r\n" + b"a" * 65_536 + b"\r\n",) * 40), "413|", 0.001)
    yield Misbehaviour("asks to go on with too much",
                       (POST + b"Expect: 100-continue\r\nContent-Length: 2000000\r\n\r\n",), "413")
    yield Misbehaviour("many requests in one piece", ((HEALTH + b"\r\n") * 5000,), "(200 )*(400|200)|")
    yield Misbehaviour("trailers", (CHUNKED + b"30\r\n" + JSON + b"\r\n0\r\n" + b"X-API-Key: a\r\n" * 1000
                                    + b"\r\n",), "200|400", stays=True)


def _odd() -> Iterator[Misbehaviour]:
    for lines in (b"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: YQ==\r\n",
                  b"Upgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: a\r\n",
                  b"Expect: 100-continue\r\n", b"Expect: everything\r\n", b"Connection: close, keep-alive\r\n",
                  b"Content-Length: 0\r\n", b"Accept-Encoding: gzip\r\n", b"Range: bytes=0-\r\n"):
        yield Misbehaviour(f"{lines!r}", (HEALTH + lines + b"\r\n",), "(100 )?200", stays=True)
    yield Misbehaviour("HTTP/1.0", (b"GET /health HTTP/1.0\r\n\r\n",), "200")
    yield Misbehaviour("HTTP/1.0 that stays", (b"GET /health HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",), "200")
    yield Misbehaviour("an address in full", (b"GET http://localhost/health HTTP/1.1\r\n" + HOST + b"\r\n",), "200",
                       stays=True)
    yield Misbehaviour("HEAD", (b"HEAD /health HTTP/1.1\r\n" + HOST + b"\r\n",), "200", stays=True)
    for method in (b"PUT", b"DELETE", b"PATCH", b"OPTIONS", b"TRACE", b"PROPFIND"):
        yield Misbehaviour(method.decode(), (method + b" /translate HTTP/1.1\r\n" + HOST + b"\r\n",), "40[05]",
                           stays=True)


async def fault_of(port: int, one: Misbehaviour) -> str | None:
    """What the server does wrong when it is so treated; None if nothing."""
    loop, line = asyncio.get_running_loop(), socket.socket()
    line.setblocking(False)
    if not one.reads:
        line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    await loop.sock_connect(line, ("127.0.0.1", port))
    received = bytearray()

    async def receive() -> None:
        while part := await loop.sock_recv(line, 65_536):
            received.extend(part)

    async def send() -> None:
        for number, part in enumerate(one.parts):
            await asyncio.sleep(one.pause if number else 0)
            await loop.sock_sendall(line, part)
        if one.ends:
            line.shutdown(socket.SHUT_WR)
        if one.stays:
            await asyncio.sleep(0.5)
            await loop.sock_sendall(line, HEALTH + b"\r\n")
            await asyncio.sleep(0.5)
            line.shutdown(socket.SHUT_WR)

    async def both() -> None:
        if not one.reads:
            await send()
            while True:  # until it is reset
                await asyncio.sleep(0.5)
                await loop.sock_sendall(line, b"\r\n")
        sending = asyncio.ensure_future(send())
        try:
            await receive()
        finally:
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)

    try:
        async with asyncio.timeout(LONGEST):
            await both()
    except TimeoutError:
        return f"{one.name}: still open after {LONGEST:.0f} seconds, {bytes(received[:100])!r}"
    except OSError:
        pass  # reset: closed, too
    finally:
        line.close()
    statuses = " ".join(status.decode() for status in re.findall(rb"HTTP/1\.1 (\d{3}) ", received))
    if re.fullmatch(rf"({one.statuses})( 200)?" if one.stays else f"({one.statuses})", statuses) is None and one.reads:
        return f"{one.name}: answered with {statuses!r}, and not with {one.statuses!r}"
    return None
