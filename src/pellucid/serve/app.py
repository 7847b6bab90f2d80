"""All routes of a server, and what is said where none of them answers."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from pellucid.errors import UserError
from pellucid.serve import inside, libretranslate, native, openapi, page
from pellucid.serve.guard import Guard
from pellucid.serve.requests import HttpError, error_response, read_values
from pellucid.serve.service import Service


def make_app(service: Service, with_page: bool) -> ASGIApp:
    """The ASGI application of a service, with the page that looks inside or without."""
    routes = [*libretranslate.routes(service), *native.routes(service), *inside.routes(service),
              *_operations(service), openapi.route()]
    routes += [Route(path, _giving(file)) for path, file in page.files().items()] if with_page else []
    app = Starlette(routes=routes, exception_handlers={
        HttpError: _refused, HTTPException: _not_found, Exception: _failed})
    app.router.redirect_slashes = False  # to a name that whoever asks has given
    return Guard(app, service)


def _giving(file: page.File) -> Callable[[Request], Awaitable[Response]]:
    """What answers with a file of the page."""

    async def give(request: Request) -> Response:
        return Response(file.body, headers=page.HEADERS, media_type=file.type)

    return give


def _operations(service: Service) -> list[Route]:
    """What those who run the server ask."""

    async def ready(request: Request) -> JSONResponse:
        return JSONResponse({"status": "draining"}, 503) if service.is_draining else JSONResponse({"status": "ready"})

    async def metrics(request: Request) -> PlainTextResponse:
        return PlainTextResponse(service.metrics.text(service.scheduler), media_type="text/plain; version=0.0.4")

    async def reload(request: Request) -> JSONResponse:
        if not service.keys:
            raise HttpError(403, "This server has no keys, and is told to reload by a signal alone")
        service.identify(request, await read_values(request))
        try:
            await service.reload()
        except UserError as error:
            raise HttpError(409, f"The runs or keys cannot be opened, and those before stay: {error.what}") from error
        return JSONResponse({"runs": list(service.catalogue.by_name)})

    return [Route("/ready", ready), Route("/metrics", metrics), Route("/v1/reload", reload, methods=["POST"])]


async def _refused(request: Request, error: Exception) -> Response:  # a plain function would wait for a thread
    assert isinstance(error, HttpError)
    return error_response(error.status, error.sentence, error.retry_after)


async def _not_found(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    allowed = dict(error.headers or {})
    response = error_response(error.status_code, str(error.detail))
    response.headers.update(allowed)
    return response


async def _failed(request: Request, error: Exception) -> Response:
    """A fault of ours: told to those who run the server, and not to those who ask."""
    logging.getLogger("pellucid.serve").error("%s %r failed", request.method, request.scope["path"], exc_info=error)
    return error_response(500, "The server has failed to answer; its log says more")
