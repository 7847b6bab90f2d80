"""LibreTranslate's API, as its clients know it: /translate, /detect, /languages, /frontend/settings, /health.

Codes of languages have no case. Parameters come as JSON, as a form or in the query string. Errors are `{"error": …}` in
the words that clients look for. Files and suggestions are refused as by a server that has them switched off.
"""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from pellucid.serve.catalogue import Catalogue, Served
from pellucid.serve.markup import text_of
from pellucid.serve.names import name_of, plain
from pellucid.serve.requests import HttpError, read_values
from pellucid.serve.service import Service
from pellucid.serve.translate import Wanted, aside, translate

_FRONTEND_TIMEOUT = 500  # milliseconds that a page waits behind a key, before it asks


def routes(service: Service) -> list[Route]:
    """The routes of the API."""

    async def languages(request: Request) -> JSONResponse:
        return JSONResponse([{"code": code, "name": name_of(code), "targets": list(targets)}
                             for code, targets in service.catalogue.targets.items()])

    async def settings(request: Request) -> JSONResponse:
        return JSONResponse(_settings(service))

    async def health(request: Request) -> JSONResponse:
        return JSONResponse({"status": "ok"})

    async def detect(request: Request) -> JSONResponse:
        values = await read_values(request)
        service.admit(request, values)
        text, *_ = _texts(service, values)[0]
        return JSONResponse([{"confidence": sure, "language": code}
                             for code, sure in service.catalogue.detector.detect(text)])

    async def translated(request: Request) -> JSONResponse:
        values = await read_values(request)
        service.admit(request, values)
        return JSONResponse(await _translate(service, request, values))

    async def refused(request: Request) -> JSONResponse:
        raise HttpError(403, "This feature is disabled on this server")

    return [Route("/translate", translated, methods=["POST"]), Route("/detect", detect, methods=["POST"]),
            Route("/languages", languages), Route("/frontend/settings", settings), Route("/health", health),
            Route("/translate_file", refused, methods=["POST"]), Route("/suggest", refused, methods=["POST"]),
            Route("/download_file/{name}", refused)]


async def _translate(service: Service, request: Request, values: dict[str, Any]) -> dict[str, Any]:
    texts, is_list = _texts(service, values)
    source, target = (_required(values, key) for key in ("source", "target"))
    form = values.get("format") or "text"
    if form not in ("text", "html"):
        raise HttpError(400, f"{str(form)[:40]} format is not supported")
    alternatives = _count(service, values.get("alternatives"))
    is_auto = source.lower() == "auto"
    catalogue = service.catalogue  # which may be another before this is answered
    detect = catalogue.detector.detect
    if is_auto and not catalogue.by_pair:
        raise HttpError(400, "auto is not supported: no run has languages")
    read = text_of if form == "html" else str
    if is_auto:
        _require_known(catalogue, target)
        detected = await aside(texts, lambda: [detect(read(text))[0] for text in texts])
    else:
        detected = [(source, 100)] * len(texts)
    found = await translate(service, request, [
        Wanted(text, _pair(catalogue, code, target), form == "html", alternatives)
        for text, (code, _) in zip(texts, detected, strict=True)])
    answer: dict[str, Any] = {"translatedText": [one.text for one in found]}
    if is_auto:
        answer["detectedLanguage"] = [{"confidence": sure, "language": code} for code, sure in detected]
    if alternatives:
        answer["alternatives"] = [list(one.alternatives) for one in found]
    return answer if is_list else {key: value[0] for key, value in answer.items()}


def _texts(service: Service, values: dict[str, Any]) -> tuple[list[str], bool]:
    """The texts of `q`, and whether they were a list.

    Raises:
        HttpError: 400, there are none, or too many or too long ones.
    """
    given, limits = values.get("q"), service.limits
    if given is None or given in ("", []):
        raise HttpError(400, "Invalid request: missing q parameter")
    texts = given if isinstance(given, list) else [given]
    if not all(isinstance(text, str) for text in texts):
        raise HttpError(400, "Invalid request: q must be text, or a list of texts")
    if limits.texts and len(texts) > limits.texts:
        raise HttpError(400, f"Invalid request: request ({len(texts)}) exceeds batch limit ({limits.texts})")
    longest = max(map(len, texts))
    if limits.characters and longest > limits.characters:
        raise HttpError(400, f"Invalid request: request ({longest}) exceeds text limit ({limits.characters})")
    return texts, isinstance(given, list)


def _required(values: dict[str, Any], key: str) -> str:
    found = values.get(key)
    if not found or not isinstance(found, str):
        raise HttpError(400, f"Invalid request: missing {key} parameter")
    return found


def _count(service: Service, given: Any) -> int:
    """How many alternatives are wanted, at most as many as there may be."""
    try:
        if isinstance(given, bool) or (isinstance(given, float) and not given.is_integer()):
            raise ValueError(given)
        wanted = 0 if given in (None, "") else int(given)
    except (TypeError, ValueError) as error:
        raise HttpError(400, "Invalid request: alternatives must be a whole number") from error
    most = service.limits.alternatives
    if wanted < 0 or (most and wanted > most):
        raise HttpError(400, "Invalid request: alternatives must be "
                             + (f"between 0 and {most}" if most else "0 or more"))
    return wanted


def _pair(catalogue: Catalogue, source: str, target: str) -> Served | None:
    """The run for a pair of languages; None where both are the same one.

    Raises:
        HttpError: 400, a language or the pair is not there.
    """
    pairs, asked = catalogue.by_pair, (plain(source), plain(target))
    if asked in pairs and asked[0] != asked[1]:
        return pairs[asked]
    _require_known(catalogue, source, target)
    if asked[0] == asked[1]:
        return None
    raise HttpError(400, f"{name_of(target)} ({target}) is not available as a target language from "
                         f"{name_of(source)} ({source})")


def _require_known(catalogue: Catalogue, *codes: str) -> None:
    known = {code for pair in catalogue.by_pair for code in pair}
    for code in codes:
        if plain(code) not in known:
            raise HttpError(400, f"{code[:40]} is not supported")


def _settings(service: Service) -> dict[str, Any]:
    """What a page needs to know before it asks."""
    limits, catalogue = service.limits, service.catalogue
    sources = [{"code": code, "name": name_of(code)} for code in catalogue.targets]
    targets = dict.fromkeys(code for codes in catalogue.targets.values() for code in codes)
    return {"apiKeys": bool(service.keys), "keyRequired": bool(service.keys), "charLimit": limits.characters or -1,
            "frontendTimeout": _FRONTEND_TIMEOUT, "suggestions": False, "filesTranslation": False,
            "supportedFilesFormat": [], "language": {
                "source": {"code": "auto", "name": "Auto Detect"} if len(sources) > 1 else next(iter(sources), None),
                "target": next(({"code": code, "name": name_of(code)} for code in targets), None)}}
