"""What a request says, from wherever it says it; hostile ones are told what is wrong in a sentence."""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.requests import Request

from pellucid.serve.requests import HttpError, read_values, while_connected

FORM = "application/x-www-form-urlencoded"
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)


def read(body: bytes = b"", query: bytes = b"", kind: str = "application/json") -> dict[str, Any]:
    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    headers = [(b"content-type", kind.encode()), (b"host", b"[")]
    scope = {"type": "http", "method": "POST", "path": "/", "query_string": query, "headers": headers}
    return asyncio.run(read_values(Request(scope, receive)))


@given(pairs=st.dictionaries(texts, texts, max_size=4))
def test_a_form_and_a_query_say_the_same(pairs: dict[str, str]) -> None:
    encoded = urlencode(pairs).encode()
    assert read(encoded, kind=FORM) == read(query=encoded) == pairs


def test_what_is_said_twice_is_a_list_and_the_body_comes_first() -> None:
    assert read(b"q=a&q=&q=c&source=en", kind=f"{FORM}; charset=utf-8") == {"q": ["a", "", "c"], "source": "en"}
    assert read(b'{"q": "body"}', b"q=query&target=fr") == {"q": "body", "target": "fr"}
    assert read(b" \n") == {}


@pytest.mark.parametrize(("body", "told"), [
    (b"{", "line 1, column 2"), (b"[]", "no JSON object"), (b"\xff", "byte 1 is not UTF-8"), (b'{"a": NaN}', "NaN"),
    (b"[" * 200_000, "nested too deep"), (b'{"a": "\\ud800"}', "surrogate"),
    (b'{"a": ' + b"9" * 5000 + b"}", "digits")])
def test_a_body_that_is_no_json_is_told(body: bytes, told: str) -> None:
    with pytest.raises(HttpError) as error:
        read(body)
    assert error.value.status == 400
    assert told in error.value.sentence
    assert len(error.value.sentence) < 200
    assert "sys." not in error.value.sentence


@pytest.mark.parametrize("form", [b"q=%ff", b"\xe9=a", b"a&" * 5000])
def test_a_form_that_cannot_be_read_is_told(form: bytes) -> None:
    for body, query, kind in ((form, b"", FORM), (b"", form, "")):
        with pytest.raises(HttpError, match="is not percent-encoded text"):
            read(body, query, kind)
    with pytest.raises(HttpError, match="send JSON or a URL-encoded form"):
        read(form, kind="multipart/form-data; boundary=a")


def test_work_ends_when_its_client_goes() -> None:
    async def leave() -> None:
        gone, ended = asyncio.Event(), asyncio.Event()

        async def receive() -> dict[str, Any]:
            await gone.wait()
            return {"type": "http.disconnect"}

        async def work() -> None:
            try:
                await asyncio.sleep(60)
            finally:
                ended.set()

        request = Request({"type": "http", "method": "POST", "path": "/", "headers": []}, receive)
        waiting = asyncio.ensure_future(while_connected(request, work()))
        await asyncio.sleep(0)
        gone.set()
        with pytest.raises(HttpError) as error:
            await waiting
        assert error.value.status == 499
        await ended.wait()

    asyncio.run(leave())
