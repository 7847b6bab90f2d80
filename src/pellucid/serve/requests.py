"""What a request says, from wherever it says it, and what it is told when it cannot be answered."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable
from typing import Any, TypeVar
from urllib.parse import parse_qsl

from starlette.requests import Request
from starlette.responses import JSONResponse

_FORM = "application/x-www-form-urlencoded"
_MULTIPART = "multipart/form-data"
_MOST_FIELDS = 4096  # of a form

Result = TypeVar("Result")


class HttpError(Exception):
    """What cannot be answered, in a sentence for whoever asked.

    Args:
        status: the code of the answer.
        retry_after: seconds after which it may be asked again.
    """

    def __init__(self, status: int, sentence: str, retry_after: int | None = None) -> None:
        super().__init__(sentence)
        self.status, self.sentence, self.retry_after = status, sentence, retry_after


def error_response(status: int, sentence: str, retry_after: int | None = None) -> JSONResponse:
    """`{"error": sentence}`."""
    headers = {} if retry_after is None else {"Retry-After": str(retry_after)}
    return JSONResponse({"error": sentence}, status, headers)


async def read_json(request: Request) -> dict[str, Any]:
    """The object that the body is.

    Raises:
        HttpError: 400, it is none.
    """
    return _object(await request.body())


async def read_values(request: Request) -> dict[str, Any]:
    """The parameters of a request as LibreTranslate reads them: a JSON object, a form, or the query string; what the
    body says comes before what the query says. A name that a form gives more than once has a list.

    Raises:
        HttpError: 400, the body is none of these.
    """
    values = _pairs(request.scope["query_string"], "query string")
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    body = await request.body()
    if not body.strip():
        return values
    if kind == _FORM:
        return values | _pairs(body, "form")
    if kind == _MULTIPART:
        raise HttpError(400, "Invalid request: send JSON or a URL-encoded form")
    return values | _object(body)


def _object(body: bytes) -> dict[str, Any]:
    try:
        found = json.loads(body.decode("utf-8"), parse_constant=_refuse_constant)
        if b"\\u" in body:  # half of a pair is no character, and no answer could say it
            json.dumps(found, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise HttpError(400, f"Invalid request: the body is no JSON ({_reason(error)})") from error
    if not isinstance(found, dict):
        raise HttpError(400, "Invalid request: the body is no JSON object")
    return found


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no number of JSON")


def _reason(error: Exception) -> str:
    if isinstance(error, UnicodeDecodeError):
        return f"byte {error.start + 1} is not UTF-8"
    if isinstance(error, UnicodeEncodeError):
        return "half of a surrogate pair stands alone"
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg.lower()}: line {error.lineno}, column {error.colno}"
    if isinstance(error, RecursionError):
        return "nested too deep"
    return str(error).partition(";")[0]  # of a number with too many digits, what a program of Python is to do follows


def _pairs(text: bytes, where: str) -> dict[str, Any]:
    try:
        pairs = parse_qsl(text.decode(), keep_blank_values=True, errors="strict", max_num_fields=_MOST_FIELDS)
    except ValueError as error:
        raise HttpError(400, f"Invalid request: the {where} is not percent-encoded text or UTF-8") from error
    values: dict[str, list[str]] = {}
    for name, value in pairs:
        values.setdefault(name, []).append(value)
    return {name: given if len(given) > 1 else given[0] for name, given in values.items()}


async def while_connected(request: Request, work: Awaitable[Result]) -> Result:
    """What `work` gives; it is cancelled when the client goes before it is done.

    Raises:
        HttpError: 499, the client has gone; nobody will read it.
    """
    waiting = asyncio.current_task()
    assert waiting is not None
    is_gone = False

    async def watch() -> None:
        nonlocal is_gone
        while (await request.receive())["type"] != "http.disconnect":
            pass
        is_gone = True
        waiting.cancel()

    watching = asyncio.ensure_future(watch())
    try:
        return await work
    except asyncio.CancelledError:
        if is_gone and not waiting.uncancel():
            raise HttpError(499, "the client has gone") from None
        raise
    finally:
        watching.cancel()
