"""/openapi.json describes what is answered and refuses what is refused: real requests and answers are held to it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from starlette.routing import Route
from tests.promises.tiny import SUBWORDS, tiny_classifier, tiny_run
from tests.serve.asgi import Server, serving

from pellucid.serve.limits import Limits
from pellucid.serve.openapi import document

DOCUMENT = document()
SCHEMAS = DOCUMENT["components"]["schemas"]
REFUSING = {"/translate_file", "/suggest", "/download_file/{name}", "/openapi.json"}  # and the document itself
TYPES: dict[str, tuple[type, ...]] = {"string": (str,), "integer": (int,), "number": (int, float), "boolean": (bool,),
                                      "null": (type(None),), "object": (dict,), "array": (list,)}


def wrong(value: Any, schema: dict[str, Any], place: str = "it") -> list[str]:
    """Where a value is not what a schema says, as far as ours say anything (JSON Schema, draft 2020-12)."""
    if "$ref" in schema:
        return wrong(value, SCHEMAS[schema["$ref"].rpartition("/")[2]], place)
    if "anyOf" in schema:
        tried = [wrong(value, each, place) for each in schema["anyOf"]]
        return [] if [] in tried else tried[0]
    kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    if not any(isinstance(value, TYPES[kind]) and (kind == "boolean" or not isinstance(value, bool)) for kind in kinds):
        return [f"{place} is {str(value)[:40]!r}, and no {kinds}"]
    found = [f"{place} is {value!r}"] if value not in schema.get("enum", [value]) else []
    if isinstance(value, int | float) and not isinstance(value, bool):
        low, high = schema.get("minimum", value), schema.get("maximum", value)
        is_above = value > schema.get("exclusiveMinimum", value - 1)
        found += [] if low <= value <= high and is_above else [f"{place} is {value}"]
    if isinstance(value, dict):
        known = schema.get("properties", {})
        found += [f"{place}.{key} is missing" for key in schema.get("required", []) if key not in value]
        other = schema.get("additionalProperties", True)
        for key, item in value.items():
            if key in known:
                found += wrong(item, known[key], f"{place}.{key}")
            elif isinstance(other, dict):
                found += wrong(item, other, f"{place}.{key}")
            elif not other:
                found.append(f"{place}.{key} is unknown")
    if isinstance(value, list):
        each = schema.get("prefixItems") or [schema["items"]] * len(value)
        found += [one for number, (item, kind) in enumerate(zip(value, each, strict=True))
                  for one in wrong(item, kind, f"{place}[{number}]")]
    return found


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    runs = {"run": tiny_run(1, {}, {}, SUBWORDS), "labels": tiny_classifier(1, {})}
    with serving(runs, [("en", "fr"), ("en", "")], Limits(requests_per_minute=0)) as server:
        yield server


def test_every_route_is_described_and_no_other(server: Server) -> None:
    routes = [route for route in server.app.app.routes if isinstance(route, Route)]  # type: ignore[attr-defined]
    known = {(route.path, method.lower()) for route in routes for method in route.methods or () if method != "HEAD"}
    told = {(path, method) for path, methods in DOCUMENT["paths"].items() for method in methods}
    assert {one for one in known if one[0] not in REFUSING} == told


def test_every_reference_leads_somewhere() -> None:
    text = json.dumps(DOCUMENT)
    for part in text.split('"$ref": "')[1:]:
        found: Any = DOCUMENT
        for step in part.partition('"')[0].removeprefix("#/").split("/"):
            found = found[step]
        assert found
    names = [one["operationId"] for methods in DOCUMENT["paths"].values() for one in methods.values()]
    assert len(names) == len(set(names))


ASKED: list[tuple[str, Any]] = [
    ("/v1/translate", {"run": "run", "text": "the cat"}),
    ("/v1/translate", {"text": ["a", "猫"], "source": "en", "target": "fr", "prefix": ["", "le"], "api_key": "x"}),
    ("/v1/translate", {"run": "run", "text": "a", "alignments": True, "options": {"n_best": 2, "precision": "fp32"}}),
    ("/v1/score", {"run": "run", "source": "the cat", "target": "le chat"}),
    ("/v1/classify", {"run": "labels", "text": ["the cat", "猫"]}),
    ("/v1/trace", {"run": "run", "text": "the cat", "prefix": "le", "options": {"beam_size": 2, "length_penalty": 0}}),
    ("/v1/attention", {"run": "run", "text": "the cat"}),
    ("/v1/attention", {"run": "run", "text": "the", "without": [{"attention": "encoder.layers.0.self_attention",
                                                                 "head": 0}]}),
    ("/v1/attention", {"run": "labels", "text": "the cat"}),
    ("/v1/contributions", {"run": "run", "text": "the cat", "output": "le", "method": "leave_one_out"}),
    ("/v1/contributions", {"run": "labels", "text": "the cat"}),
    ("/translate", {"q": "the cat", "source": "en", "target": "fr"}),
    ("/translate", {"q": ["the cat", "猫"], "source": "auto", "target": "fr", "alternatives": 2, "format": "html"}),
    ("/detect", {"q": "the cat"})]


@pytest.mark.parametrize(("path", "asked"), ASKED)
def test_what_is_answered_is_what_is_described(path: str, asked: Any, server: Server) -> None:
    operation = DOCUMENT["paths"][path]["post"]
    assert wrong(asked, operation["requestBody"]["content"]["application/json"]["schema"]) == []
    answer = server.post(path, asked)
    assert answer.status == 200, answer.body
    assert wrong(answer.json, operation["responses"]["200"]["content"]["application/json"]["schema"]) == []


@pytest.mark.parametrize("path", ["/v1/runs", "/ready", "/languages", "/frontend/settings", "/health"])
def test_what_a_get_answers_is_what_is_described(path: str, server: Server) -> None:
    content = DOCUMENT["paths"][path]["get"]["responses"]["200"]["content"]
    assert wrong(server.get(path).json, content["application/json"]["schema"]) == []


def test_events_are_what_is_described(server: Server) -> None:
    for kind, data in server.post("/v1/translate", {"run": "run", "text": "the cat", "stream": True}).events:
        assert wrong(data, SCHEMAS[{"step": "Step", "done": "Translations", "error": "Error"}[kind]]) == []


@pytest.mark.parametrize(("path", "asked"), [
    ("/v1/translate", {"run": "run"}), ("/v1/translate", {"run": "run", "text": 1}), ("/v1/translate", {"texts": "a"}),
    ("/v1/translate", {"run": "run", "text": "a", "options": {"beam_size": 0}}),
    ("/v1/translate", {"run": "run", "text": "a", "options": {"top_p": 0.0, "sample": True}}),
    ("/v1/translate", {"run": "run", "text": "a", "options": {"precision": "fp8"}}),
    ("/v1/translate", {"run": "run", "text": "a", "options": {"length_penalty": 5.5}}),
    ("/v1/score", {"run": "run", "source": "a", "target": [1]}), ("/v1/classify", {"run": "labels", "text": [[]]}),
    ("/v1/attention", {"run": "run", "text": "a", "without": [{"attention": "a", "head": "1"}]}),
    ("/v1/contributions", {"run": "run", "text": "a", "method": ""})])
def test_what_is_not_described_is_refused_as_is_described(path: str, asked: Any, server: Server) -> None:
    operation = DOCUMENT["paths"][path]["post"]
    assert wrong(asked, operation["requestBody"]["content"]["application/json"]["schema"])
    answer = server.post(path, asked)
    assert answer.status == 400
    assert "400" in operation["responses"]
    assert wrong(answer.json, SCHEMAS["Error"]) == []


def test_the_document_is_answered_and_says_what_fields_are(server: Server) -> None:
    answer = server.get("/openapi.json")
    assert (answer.headers["content-type"], answer.json) == ("application/json", DOCUMENT)
    beam = SCHEMAS["Options"]["properties"]["beam_size"]
    assert (beam["minimum"], beam["maximum"], beam["type"]) == (1, 32, "integer")
    assert "hypotheses kept" in beam["description"]
    assert "of /v1/runs" in SCHEMAS["TranslateRequest"]["properties"]["run"]["description"]
    assert SCHEMAS["TranslateRequest"]["required"] == ["text"]


def test_it_needs_no_torch() -> None:
    code = ("import sys; from pellucid.serve.app import make_app; from pellucid.serve.openapi import document; "
            "document(); print('torch' in sys.modules)")
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False\n"
