"""A translation as it comes, as server-sent events (WHATWG HTML, section 9.2): "step" with the best so far, then "done"
with the answer, or "error". Whoever goes ends the search at its next step."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from pellucid.config import DecodeConfig
from pellucid.serve.alignment import CrossAttention
from pellucid.serve.answered import Step, Translations, as_json, translations
from pellucid.serve.asked import Translate
from pellucid.serve.catalogue import Served
from pellucid.serve.requests import HttpError
from pellucid.serve.service import Service

if TYPE_CHECKING:
    from pellucid.runs.stream import Partial

_WAITING = 8  # steps that are kept for a reader that is slow; older ones are left out
_HEADERS = {"X-Accel-Buffering": "no"}  # a proxy that holds events back until there are many would miss the point


class Gone(Exception):
    """Nobody waits for the search any more."""


async def stream(service: Service, request: Request, served: Served, asked: Translate,
                 options: DecodeConfig) -> Response:
    """The response that tells of a search as it goes; what cannot begin has a status of its own.

    Args:
        asked: about one text.
        options: what it is searched with.

    Raises:
        HttpError: as of `Service.alone`, before the first step.
    """
    text, prefix = asked.text, asked.prefix or ""
    assert isinstance(text, str)
    assert isinstance(prefix, str)
    steps: asyncio.Queue[Partial | None] = asyncio.Queue(_WAITING)
    loop, is_over = asyncio.get_running_loop(), threading.Event()

    def put(step: Partial | None) -> None:
        if steps.full():
            steps.get_nowait()
        steps.put_nowait(step)

    def tell(step: Partial) -> None:
        if is_over.is_set():
            raise Gone
        loop.call_soon_threadsafe(put, step)

    def end(done: asyncio.Future[Translations]) -> None:
        is_over.set()
        put(None)
        if not done.cancelled():
            done.exception()  # it is looked at, whether or not anybody reads on

    def search() -> Translations:
        from pellucid.runs.stream import stream

        found = stream(served.run, text, tell, prefix, options)
        links = [CrossAttention(served.glass)([(text, found.text)])[0]] if asked.alignments else None
        return translations(served, [found], links)

    found = asyncio.ensure_future(service.alone(request, search))
    found.add_done_callback(end)
    try:
        first = await steps.get()
    except asyncio.CancelledError:
        found.cancel()
        raise
    if first is None:
        found.result()  # an empty text, which has no steps, or why there are none
    return StreamingResponse(_events(first, steps, found), media_type="text/event-stream", headers=_HEADERS)


async def _events(first: Partial | None, steps: asyncio.Queue[Partial | None],
                  found: asyncio.Future[Translations]) -> AsyncIterator[bytes]:
    step = first
    try:
        while step is not None:
            yield _event("step", asdict(Step(step.text, step.tokens, step.probabilities, len(step.tokens))))
            step = await steps.get()
        yield _event("done", asdict(found.result()))
    except HttpError as error:
        yield _event("error", {"error": error.sentence})
    except Exception as error:
        logging.getLogger("pellucid.serve").error("a stream failed", exc_info=error)
        yield _event("error", {"error": "The server has failed to answer; its log says more"})
    finally:
        found.cancel()


def _event(kind: str, data: dict[str, Any]) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (kind.encode(), as_json(data))
