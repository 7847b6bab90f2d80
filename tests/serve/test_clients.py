"""Requests as clients of LibreTranslate send them, answered in this process; and the clients themselves, where they
are."""

from __future__ import annotations

import asyncio
import importlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from starlette.types import ASGIApp, Receive, Scope, Send
from tests.promises.recorded import KEY, Answer, fault_of, requests, texts
from tests.serve.asgi import Server, call, serving

import pellucid
from pellucid.serve.keys import Keys
from pellucid.serve.limits import Limits

KEPT = Path(__file__).parents[1] / "runs" / "kept" / "0.1.0" / "run"


@pytest.fixture(scope="module")
def servers() -> Iterator[Mapping[str, Server]]:
    """One that answers everybody, one with a key, and one that has a key and answers little."""
    run = pellucid.load(KEPT)
    runs, pairs = {"there": run, "back": run}, [("en", "fr"), ("fr", "en")]
    with (serving(runs, pairs) as open_, serving(runs, pairs, keys=Keys([KEY])) as keyed,
          serving(runs, pairs, Limits(requests_per_minute=3), Keys([KEY])) as strict):
        yield {"open": open_, "keyed": keyed, "strict": strict}


@pytest.fixture(scope="module")
def translations() -> dict[str, str]:
    """What `pellucid translate` says."""
    run = pellucid.load(KEPT)
    return {text: one.text for text, one in zip(texts(), run.generate(texts()), strict=True)}


def with_query(app: ASGIApp, query: str) -> ASGIApp:
    """The application, asked with a query string."""
    async def asked(scope: Scope, receive: Receive, send: Send) -> None:
        await app({**scope, "query_string": query.encode()}, receive, send)

    return asked


@pytest.mark.parametrize("request_", requests(), ids=lambda request: request["name"])
def test_recorded_requests(request_: dict[str, Any], servers: Mapping[str, Server],
                           translations: dict[str, str]) -> None:
    def send(server: str, method: str, path: str, headers: dict[str, str], body: bytes) -> Answer:
        path, _, query = path.partition("?")
        found = asyncio.run(call(with_query(servers[server].app, query), path, None if method == "GET" else body,
                                 {name.lower(): value for name, value in headers.items()}))
        return Answer(found.status, found.headers, found.body)

    assert fault_of(request_, send, translations) == ""


def test_real_clients(tmp_path: Path) -> None:
    promise = importlib.import_module("tests.promises.14_clients")
    place = os.environ.get("PELLUCID_CLIENTS")
    if not place:
        assert not os.environ.get("PELLUCID_REQUIRE_CLIENTS"), "PELLUCID_REQUIRE_CLIENTS is set, PELLUCID_CLIENTS not"
        pytest.skip("PELLUCID_CLIENTS names no folder of clients; tests/promises/14_clients.py --environment makes one")
    rows = promise.check(Path(place).absolute(), tmp_path, 0, with_recorded=False)
    assert {row["client"] for row in rows} == {*promise.PYTHON, *promise.NODE}
    assert [row for row in rows if not row["passed"]] == []
