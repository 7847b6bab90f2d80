"""/openapi.json: what can be asked and what is answered, in OpenAPI 3.1, made of the dataclasses that requests are read
into and answers are made of."""

from __future__ import annotations

import functools
import json
import re
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from pellucid.config import DecodeConfig
from pellucid.inspection import answers
from pellucid.search.options import SearchOptions
from pellucid.serve import answered, asked, described
from pellucid.serve.schemas import Schema, Schemas, read_docstring

_JSON, _FORM, _EVENTS, _TEXT = ("application/json", "application/x-www-form-urlencoded", "text/event-stream",
                                "text/plain")
_REFUSALS = {"400": "it cannot be read, or asks for what there is not; or there is no key",
             "403": "the key is not accepted, or what is asked is switched off", "408": "the body comes too slowly",
             "413": "the body is too long", "429": "too much is asked: Retry-After says when to ask again",
             "500": "the run's weights give no numbers; or it is a fault of ours, of which the log says more",
             "503": "it took too long"}
_STREAM = ('where `stream` asks for it: events "step", whose data is a Step, then "done", whose data are Translations, '
           'or "error", whose data is an Error')
_KEY = {"type": "string", "description": "where one is needed, and no header says it."}
_WORDS = read_docstring(SearchOptions)[1] | {
    "batch_tokens": "source tokens decoded together at most", "precision": "of products of matrices",
    "exact": "a text comes out the same to the last bit, whatever is decoded with it",
    "split_sentences": "each text is divided at the ends of its sentences, so that nothing is cut",
    "from_passages": "each output is a piece of a passage that is read beside its text"}


@dataclass(frozen=True)
class Operation:
    """What one path does.

    Attributes:
        says: what that is, in a sentence.
        tells: the dataclass that is answered; None where it is text, or nothing but a refusal.
        asks: the dataclass that a body is read into; None where a GET asks.
        is_ours: of our own API: read strictly, and no form.
        is_list: a list of what it tells is answered.
    """

    path: str
    says: str
    tells: type | None
    asks: type | None = None
    is_ours: bool = True
    is_list: bool = False


OPERATIONS = (
    Operation("/v1/translate", "Translates texts, with all that a search can be told.", answered.Translations,
              asked.Translate),
    Operation("/v1/score", "Says how probable given translations are.", answered.Scores, asked.Score),
    Operation("/v1/classify", "Says which label each text has.", answered.Classifications, asked.Classify),
    Operation("/answer", "Answers a question from the index, with its place.", answered.Answer, asked.Question),
    Operation("/v1/trace", "Tells what the search for a text decided at each step.", answers.Trace, asked.Trace),
    Operation("/v1/attention", "Tells where every head looks, and what comes out without some of them.",
              answers.Attention, asked.Attention),
    Operation("/v1/contributions", "Tells what each token contributes to each token that is written.",
              answers.Contributions, asked.Contributions),
    Operation("/v1/runs", "Lists the runs that are served.", answered.Runs),
    Operation("/v1/reload", "Opens the runs anew; needs a key.", described.Reloaded, described.Reload, False),
    Operation("/ready", "Says whether new requests are welcome; 503 before the server goes.", described.Status),
    Operation("/metrics", "Counts, in the text format of Prometheus.", None),
    Operation("/translate", "Translates texts, as LibreTranslate does.", described.Translated, described.Text, False),
    Operation("/detect", "Finds out the language of a text.", described.Detection, described.Detect, False, True),
    Operation("/languages", "Lists the languages that are translated from.", described.Language, None, False, True),
    Operation("/frontend/settings", "What a page needs to know.", described.Settings, None, False),
    Operation("/health", "Says that the server runs.", described.Status, None, False),
)


def route() -> Route:
    """The route that answers with the document."""

    async def openapi(request: Request) -> Response:
        return Response(_document(), media_type=_JSON)

    return Route("/openapi.json", openapi)


@functools.cache
def _document() -> bytes:
    return json.dumps(document(), ensure_ascii=False, separators=(",", ":")).encode()


def document() -> dict[str, Any]:
    """All of it."""
    schemas = Schemas()
    options = schemas.given(DecodeConfig, "Options", asked.BOUNDS, _WORDS)
    paths = {one.path: {"get" if one.asks is None else "post": _operation(one, schemas)} for one in OPERATIONS}
    for kind in (asked.Translate, asked.Trace):
        schemas.components[f"{kind.__name__}Request"]["properties"]["options"] |= options
    for one in OPERATIONS:
        if one.asks is not None and one.is_ours:
            schemas.components[f"{one.asks.__name__}Request"]["properties"]["api_key"] = _KEY
    for told in (answers.Trace, answers.Attention, answers.Contributions):
        schemas.components[told.__name__]["properties"]["run"] = {"type": "string"}
        schemas.components[told.__name__]["required"].append("run")
    for step in (answered.Step, described.Error):
        schemas.told(step)
    refusals = {code: {"description": words, "content": _content(_JSON, schemas.told(described.Error))}
                for code, words in _REFUSALS.items()}
    keys = {"key": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
            "bearer": {"type": "http", "scheme": "bearer"}}
    return {"openapi": "3.1.0", "jsonSchemaDialect": "https://json-schema.org/draft/2020-12/schema",
            "info": {"title": "pellucid", "version": version("pellucid"), "description":
                     "A Transformer you can see through: LibreTranslate's API, and all that a run can do at /v1."},
            "paths": paths,
            "components": {"schemas": schemas.components, "responses": refusals, "securitySchemes": keys}}


def _operation(one: Operation, schemas: Schemas) -> dict[str, Any]:
    operation: dict[str, Any] = {"summary": one.says, "operationId": re.sub(r"\W+", "_", one.path.strip("/")),
                                 "tags": ["pellucid" if one.path.startswith("/v1/") else "LibreTranslate"
                                          if not one.is_ours else "operators"]}
    operation["responses"] = {"200": {"description": "the answer", "content": _answer(one, schemas)}}
    if one.asks is not None:
        schema = schemas.read(one.asks) if one.is_ours else schemas.described(one.asks)
        takes = (_JSON,) if one.is_ours else (_JSON, _FORM)
        operation |= {"requestBody": {"required": one.asks is not described.Reload,
                                      "content": {kind: {"schema": schema} for kind in takes}},
                      "security": [{}, {"key": []}, {"bearer": []}]}
    codes = _REFUSALS if one.asks is not None else ["503"] if one.path == "/ready" else []
    operation["responses"] |= {code: {"$ref": f"#/components/responses/{code}"} for code in codes}
    return operation


def _answer(one: Operation, schemas: Schemas) -> dict[str, Any]:
    if one.tells is None:
        return _content(_TEXT, {"type": "string"})
    schema = schemas.told(one.tells) if one.is_ours else schemas.described(one.tells)
    content = _content(_JSON, {"type": "array", "items": schema} if one.is_list else schema)
    if one.tells is answered.Translations:
        content |= _content(_EVENTS, {"description": _STREAM})  # no schema says which event comes when
    return content


def _content(kind: str, schema: Schema) -> dict[str, Any]:
    return {kind: {"schema": schema}}
