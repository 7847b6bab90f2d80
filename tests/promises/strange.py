"""Requests that nobody would write: drawn from what /openapi.json says, with something wrong in most of them."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any
from urllib.parse import quote, urlencode

STRANGE: list[Any] = [
    None, True, False, 0, -1, 1, 2, 1.5, -0.0, 1e-320, 1e308, 1e999, 2**31, 2**63, -(2**63), 2**64, 10**400,
    "", " ", "a", "\0", "\n" * 100, "\ud800", "\U0001f469\u200d\U0001f467", "\u202eabc", "a\u0301" * 50, "\ufeff",
    "\uffff", "%00", "../x", "' OR 1=1", "${a}", "{{a}}", "<b>" * 300, "<b><i>the</b> cat</i>", "<script>a</script>",
    "&#0;&#xD800;&amp", "<" * 500, "the cat " * 500, "a" * 4999, "." * 3000, "! ? . " * 700, "我" * 900, "null", "true",
    "NaN", "1e5", "0x10", "-1", "en", "fr", "auto", "zh-Hans", "html", "text", [], [[]], [None], ["a", 1],
    ["the cat"] * 3, ["a"] * 129, {}, {"a": 1}, [{}] * 100]
TEXTS = ["the cat sleeps", "where is it", "she reads", "", "now that we know. he said.", "a\nb\n\nc",
         "the <b>cat</b> reads"]
METHODS = ["GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "HEAD", "TRACE"]
TYPES = ["application/json"] * 12 + ["application/x-www-form-urlencoded"] * 4 + [
    "multipart/form-data; boundary=a", "text/plain", "", "application/json; charset=utf-16", "a" * 200, ";;;",
    "application/xml"]
HEADERS = ["Authorization: Bearer a", "Authorization: Basic \xff", "X-API-Key: a", "Accept: text/event-stream",
           "Accept: */*;q=a", "Cookie: a=" + "b" * 500, "Range: bytes=1-", "If-None-Match: *", "Content-Encoding: gzip",
           "X-HTTP-Method-Override: DELETE", "X-Forwarded-For: 1.2.3.4", "Transfer-Encoding: identity", "Expect: a",
           "TE: trailers", "Forwarded: for=a", "Connection: close", "Upgrade: a", "Accept-Language: zz"]


class Drawer:
    """Draws requests.

    Args:
        document: /openapi.json.
    """

    def __init__(self, document: dict[str, Any], draw: random.Random) -> None:
        self.document, self.draw = document, draw
        self.paths = list(document["paths"])

    def request(self) -> tuple[str, str, bytes]:
        """A method, the path of the route that it is for, and what goes over the wire."""
        draw = self.draw
        path = draw.choice(self.paths)
        methods = list(self.document["paths"][path]) if draw.random() < 0.95 else METHODS
        method = draw.choice(methods).upper()
        kind = draw.choice(TYPES)
        values = self._values(path)
        queries = [_form(values), "%", "a=" + "b" * 1000, "q=%ff", "&&=&"]
        query = "" if draw.random() < 0.85 else "?" + draw.choice(queries)
        body = self._body(values, kind)
        paths = [path + "/", path.upper(), "/" + path, path + "%00", path + ";a", quote(path, ""), path + "/.."]
        sent = path if draw.random() < 0.95 else draw.choice(paths)
        lines = [f"{method} {sent}{query[:20_000]} HTTP/1.1", "Host: localhost", f"Content-Type: {kind}",
                 f"Content-Length: {len(body)}", *draw.sample(HEADERS, draw.choice([0, 0, 0, 1, 2]))]
        return method, path, "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body

    def _values(self, path: str) -> Any:
        """What the route wants, some of it exchanged for what it does not."""
        draw = self.draw
        content = self.document["paths"][path].get("post", {}).get("requestBody", {}).get("content", {})
        schema = next((each["schema"] for each in content.values()), {"type": "object"})
        values = self._value(schema)
        if draw.random() < 0.03 or not isinstance(values, dict):
            return draw.choice(STRANGE)
        for name in list(values):
            if draw.random() < 0.12:
                values[name] = draw.choice(STRANGE)
            elif draw.random() < 0.04:
                del values[name]
        if draw.random() < 0.05:
            values[str(draw.choice(STRANGE))[:100]] = draw.choice(STRANGE)
        return values

    def _value(self, schema: dict[str, Any], name: str = "") -> Any:
        """Something that a schema allows, mostly."""
        draw = self.draw
        while "$ref" in schema:
            found: Any = self.document
            for part in schema["$ref"].removeprefix("#/").split("/"):
                found = found[part]
            schema = found
        for way in ("anyOf", "oneOf"):
            if way in schema:
                return self._value(draw.choice(schema[way]), name)
        if "enum" in schema or "const" in schema:
            return draw.choice(schema.get("enum", [schema.get("const")]))
        kind = schema.get("type")
        kind = draw.choice(kind) if isinstance(kind, list) else kind
        if kind == "object":
            required = schema.get("required", [])
            return {key: self._value(each, key) for key, each in schema.get("properties", {}).items()
                    if key in required or draw.random() < 0.25}
        low, high = schema.get("minimum", 0), min(schema.get("maximum", 4), 12)
        makers: dict[Any, Callable[[], Any]] = {
            "array": lambda: [self._value(schema.get("items", {}), name) for _ in range(draw.choice([0, 1, 2, 3]))],
            "string": lambda: {"source": "en", "target": "fr"}.get(name, draw.choice(TEXTS)),
            "boolean": lambda: draw.random() < 0.5, "null": lambda: None,
            "number": lambda: draw.choice([0, 0.5, 1, 7.25]), "integer": lambda: draw.randint(min(low, high), high)}
        return makers[kind]() if kind in makers else draw.choice(STRANGE)

    def _body(self, values: Any, kind: str) -> bytes:
        draw = self.draw
        is_form = kind == "application/x-www-form-urlencoded"
        body = _form(values).encode() if is_form else json.dumps(values).encode()
        change = draw.random()
        if change < 0.03 and body:
            place = draw.randrange(len(body))
            body = body[:place] + bytes([draw.randrange(256)]) + body[place + draw.choice([0, 1]):]
        elif change < 0.05:
            body = body[: draw.randrange(len(body) + 1)]
        elif change < 0.06:
            body = draw.randbytes(draw.choice([1, 10, 1000]))
        elif change < 0.065:
            body = json.dumps(values, ensure_ascii=False).encode("utf-16", "surrogatepass")
        return body


def _form(values: Any) -> str:
    try:
        return urlencode(values, doseq=True)
    except (TypeError, UnicodeEncodeError):
        return "q=a&source=en&target=fr"
