"""Who may ask, by which name, and what an answer carries."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator, MutableMapping
from pathlib import Path
from typing import Any

import pytest
from starlette.types import Receive, Scope, Send
from tests.serve.asgi import Server, call, serving

import pellucid
from pellucid.serve.guard import DECODING, is_of_this_machine
from pellucid.serve.keys import Keys
from pellucid.serve.limits import Limits

KEPT = Path(__file__).parents[1] / "runs" / "kept" / "0.1.0" / "run"
BODY = b'{"q": "the cat", "source": "en", "target": "fr"}'


@pytest.fixture
def server() -> Iterator[Server]:
    with serving({"run": pellucid.load(KEPT)}, [("en", "fr")]) as made:
        yield made


def status(server: Server, headers: dict[str, str], body: bytes | None = BODY, path: str = "/translate") -> int:
    return asyncio.run(call(server.app, path, body, headers)).status


def test_a_private_server_is_known_by_its_own_names_alone(server: Server) -> None:
    names = {"localhost": 200, "LOCALHOST:5000": 200, "127.0.0.1": 200, "127.9.9.9:80": 200, "[::1]:5000": 200,
             "a.localhost": 200, "a.example": 403, "localhost.a.example": 403, "10.0.0.1:5000": 403, "[::2]": 403,
             "127.0.0.1.a.example:5000": 403, "": 403}
    assert {host: status(server, {"host": host}) for host in names} == dict.fromkeys(names, 200)
    server.service.is_private = True
    assert {host: status(server, {"host": host}) for host in names} == names
    server.service.keys = Keys(["a"])  # no page knows it
    assert status(server, {"host": "a.example", "x-api-key": "a"}) == 200


def test_a_page_of_another_site_may_not_ask(server: Server) -> None:
    host = "127.0.0.1:5000"
    for headers, expected in (
            ({}, 200), ({"origin": f"http://{host}"}, 200), ({"origin": "http://a.example"}, 403),
            ({"origin": "null"}, 403), ({"origin": "http://127.0.0.1:5001"}, 403),
            ({"sec-fetch-site": "same-origin"}, 200),
            ({"sec-fetch-site": "none"}, 200), ({"sec-fetch-site": "same-site"}, 403),
            ({"sec-fetch-site": "cross-site", "origin": f"http://{host}"}, 403),
            ({"sec-fetch-site": "same-origin", "origin": "https://behind.a.proxy"}, 200)):
        assert status(server, headers) == expected, headers
    assert status(server, {"origin": "http://a.example"}, None, "/languages") == 200  # which it cannot read


def test_answers_carry_headers_of_security_and_no_leave_for_others(server: Server) -> None:
    for path, body in (("/translate", BODY), ("/nothing", None), ("/translate", None), ("/translate", b"{")):
        answer = asyncio.run(call(server.app, path, body))
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cache-control"] == "no-store"
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert not any(name.startswith("access-control") for name in answer.headers)
        assert not answer.headers.keys() & {"connection", "retry-after"}
        assert answer.status == 200 or list(answer.json) == ["error"]
    server.service.is_draining = True
    assert asyncio.run(call(server.app, "/translate", BODY)).headers["connection"] == "close"
    answer = asyncio.run(call(server.app, "/ready"))
    assert (answer.status, answer.json, answer.headers["connection"]) == (503, {"status": "draining"}, "close")


def test_bodies_are_bounded_each_and_together(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    most = server.service.limits.body_bytes
    assert status(server, {}, b" " * most) == 400
    assert status(server, {}, b" " * (most + 1)) == 413
    monkeypatch.setattr("pellucid.serve.guard._MOST_HELD", 100)
    answer = asyncio.run(call(server.app, "/translate", BODY + b" " * 100))
    assert (answer.status, answer.headers["retry-after"]) == (429, "1")
    assert status(server, {}) == 200  # what was held is let go


def test_what_is_claimed_and_does_not_come_takes_no_room(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pellucid.serve.guard._MOST_HELD", 1000)
    most = server.service.limits.body_bytes
    too_much = {"content-length": str(most + 1)}
    assert asyncio.run(call(server.app, "/translate", b"", too_much, is_silent=True)).status == 413

    async def asked() -> int:
        claim = {"content-length": str(most)}
        silent = [asyncio.create_task(call(server.app, "/translate", b"", claim, is_silent=True)) for _ in range(8)]
        await asyncio.sleep(0.05)
        assert not any(one.done() for one in silent)
        answer = await call(server.app, "/translate", BODY)
        for one in silent:
            one.cancel()
        await asyncio.gather(*silent, return_exceptions=True)
        return answer.status

    assert asyncio.run(asked()) == 200


def test_keys_and_who_guesses_them() -> None:
    run = pellucid.load(KEPT)
    with serving({"run": run}, [("en", "fr")], Limits(requests_per_minute=4), Keys(["one", "two"])) as server:
        assert status(server, {}) == 400
        assert status(server, {}, path="/detect") == 400
        assert status(server, {"authorization": "Bearer one"}) == 200
        assert status(server, {"x-api-key": "two"}) == 200
        assert status(server, {}, BODY[:-1] + b', "api_key": "two"}') == 200
        assert status(server, {}, BODY[:-1] + b', "api_key": ["two"]}') == 403
        assert [status(server, {"x-api-key": f"guess {n}"}) for n in range(5)] == [403] * 3 + [429] * 2
        assert status(server, {"x-api-key": "one"}) == 200  # who has a key is not who guesses
        assert [status(server, {"x-api-key": "two"}) for _ in range(3)] == [200, 200, 429]


def test_what_waits_too_long_is_refused_before_it_is_looked_at(server: Server) -> None:
    server.service.scheduler.most_seconds = -1.0
    answer = asyncio.run(call(server.app, "/translate", BODY))
    assert (answer.status, answer.json) == (429, {"error": "Too busy: try again in 1 s"})
    assert answer.headers["retry-after"] == "1"


@pytest.mark.parametrize(("host", "expected"), [
    ("localhost", True), ("127.0.0.1", True), ("127.1.2.3", True), ("::1", True), ("[::1]", True), ("0.0.0.0", False),
    ("::", False), ("a.example", False), ("", False), ("127.0.0.1.a", False)])
def test_which_names_lead_here_alone(host: str, expected: bool) -> None:
    assert is_of_this_machine(host) is expected


def test_what_would_wait_too_long_is_refused_before_its_body_is_read(server: Server) -> None:
    server.service.scheduler.close()
    described = server.get("/openapi.json").json["paths"]
    assert {path for path, methods in described.items() if "429" in methods.get("post", {}).get("responses", {})
            } >= DECODING
    for path in sorted(DECODING):
        answer = asyncio.run(call(server.app, path, b"{", {"content-length": "9" * 30}))
        assert (answer.status, answer.headers["retry-after"]) == (429, "1")
        assert answer.headers["x-content-type-options"] == "nosniff"
    assert status(server, {}, None, "/languages") == 200
    assert 'requests_total{path="/v1/trace",status="429"} 1' in server.get("/metrics").body.decode()


def test_a_connection_ends_where_nobody_knows_what_comes_next(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who asks before sending a body and is refused may send it or the next request, which would be taken for it."""
    monkeypatch.setattr("pellucid.serve.guard.BODY_SECONDS", 0.05)
    too_much = {"content-length": str(server.service.limits.body_bytes + 1)}
    for headers, code, ends in ((too_much | {"expect": "100-continue"}, 413, "close"), (too_much, 413, None),
                                ({"content-length": "9"}, 408, "close"), ({"host": ""}, 404, None)):
        answer = asyncio.run(call(server.app, "/translate" if code != 404 else "/no", b"", headers,
                                  is_silent="content-length" in headers))
        assert (answer.status, answer.headers.get("connection")) == (code, ends), headers


def test_a_body_that_comes_in_parts_is_bounded_as_a_whole(server: Server) -> None:
    """Nothing is claimed of it."""
    most, came = server.service.limits.body_bytes, [0]

    async def receive() -> MutableMapping[str, Any]:
        came[0] += 1
        return {"type": "http.request", "body": b" " * (most // 2), "more_body": True}

    async def status() -> int:
        sent = list[MutableMapping[str, Any]]()

        async def send(message: MutableMapping[str, Any]) -> None:
            sent.append(message)

        await server.app({"type": "http", "http_version": "1.1", "method": "POST", "path": "/translate",
                          "headers": [(b"host", b"localhost"), (b"transfer-encoding", b"chunked")]}, receive, send)
        return int(sent[0]["status"])

    assert asyncio.run(status()) == 413
    assert came == [3]


def test_what_is_at_a_limit_is_answered_and_0_takes_it_away() -> None:
    """By LibreTranslate's API, of texts that are in the language already; and by ours."""
    run = pellucid.load(KEPT)
    same = {"q": "", "source": "en", "target": "en"}
    with serving({"run": run}, [("en", "fr")], Limits(characters=7, texts=2, alternatives=3)) as server:
        for path, more, expected in (
                ("/translate", {"q": "the cat"}, 200), ("/translate", {"q": "the cats"}, 400),
                ("/translate", {"q": ["a"] * 2}, 200), ("/translate", {"q": ["a"] * 3}, 400),
                ("/translate", {"q": "a", "alternatives": 3}, 200), ("/translate", {"q": "a", "alternatives": 4}, 400),
                ("/v1/translate", {"text": "the cat"}, 200), ("/v1/translate", {"text": "the cats"}, 400),
                ("/v1/translate", {"text": ["a"] * 2}, 200), ("/v1/translate", {"text": ["a"] * 3}, 400)):
            asked = {**same, **more} if path == "/translate" else more
            assert server.post(path, asked).status == expected, (path, more)
        assert server.service.scheduler.most_seconds == Limits().queue
    free = Limits(characters=0, texts=0, alternatives=0, body_bytes=0, requests_per_minute=0, timeout=0, queue=0)
    with serving({"run": run}, [("en", "fr")], free) as server:
        for more in ({"q": "a" * 2**21}, {"q": ["a"] * 1000}, {"q": "a", "alternatives": 1000}):
            answer = server.post("/translate", {**same, **more})
            assert (answer.status, answer.json["translatedText"]) == (200, more["q"])
        assert server.get("/frontend/settings").json["charLimit"] == -1
        assert server.service.scheduler.most_seconds == math.inf
        assert server.post("/v1/translate", {"text": "the cat"}).status == 200  # however long it takes


@pytest.mark.parametrize("path", ["/translate", "/detect"])
@pytest.mark.parametrize("asked", [{}, {"q": ""}, {"q": []}, {"q": None}, {"q": 5}, {"q": ["a", 5]}, {"q": {"a": 1}}],
                         ids=str)
def test_no_text_is_told(path: str, asked: dict[str, Any], server: Server) -> None:
    answer = server.post(path, {"source": "en", "target": "fr", **asked})
    assert (answer.status, "q" in answer.json["error"]) == (400, True)


def test_without_keys_each_address_is_a_client() -> None:
    with serving({"run": pellucid.load(KEPT)}, [("en", "fr")], Limits(requests_per_minute=1)) as server:
        def status(address: str) -> int:
            async def elsewhere(scope: Scope, receive: Receive, send: Send) -> None:
                await server.app({**scope, "client": (address, 1)}, receive, send)

            return asyncio.run(call(elsewhere, "/translate", BODY)).status

        assert [status(address) for address in ("1.2.3.4", "1.2.3.5", "1.2.3.4", "2001:db8::1")] == [200, 200, 429, 200]
