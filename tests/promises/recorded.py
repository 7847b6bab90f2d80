"""Requests as Mastodon, Weblate and others send them to LibreTranslate, and what they must be answered.

clients/requests.json has them: `path` (/translate), `json` or `form` (a GET without), `server` ("open", "keyed" or
"strict"), `times`, and of the last answer `status` (200), `headers` and what it is. In that, "{text}" stands for the
translation of a text, and "*" for anything.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("clients") / "requests.json"
KEY = "a key of four words"
AGENTS = {"Mastodon": "Mastodon/4.4.0 (http.rb/5.3.1; +https://example.org/)", "Weblate": "Weblate/5.13"}


@dataclass(frozen=True)
class Answer:
    """Of a server; `headers` have names in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes


Send = Callable[[str, str, str, dict[str, str], bytes], Answer]  # server, method, path, headers, body → answer


def requests() -> list[dict[str, Any]]:
    """All of them."""
    found: list[dict[str, Any]] = json.loads(FILE.read_text(encoding="utf-8"))
    return found


def texts() -> list[str]:
    """The texts whose translations the answers have."""
    return sorted(set(re.findall(r"\{([^{}\"]+)\}", FILE.read_text(encoding="utf-8"))))


def fault_of(request: dict[str, Any], send: Send, translations: dict[str, str]) -> str:
    """Sends a request; says what is wrong with the answer, or nothing."""
    body = json.dumps(request["json"]).replace('"KEY"', json.dumps(KEY)) if "json" in request else request.get("form")
    kind = request.get("type") or ("application/json" if "json" in request else "application/x-www-form-urlencoded")
    headers = {"User-Agent": AGENTS.get(request["name"].partition(":")[0], "curl/8.14"), "Accept": "application/json",
               **({"Content-Type": kind} if body is not None or "type" in request else {})}
    for _ in range(request.get("times", 1)):
        answer = send(request.get("server", "open"), "GET" if body is None else "POST",
                      request.get("path", "/translate"), headers, (body or "").encode())
    if answer.status != request.get("status", 200):
        return f"{answer.status}: {answer.body.decode()[:200]}"
    if missing := [name for name in request.get("headers", {}) if name.lower() not in answer.headers]:
        return f"no {', '.join(missing)}"
    found = json.loads(answer.body)

    def said(text: str) -> str:
        return re.sub(r"\{([^{}]+)\}", lambda match: translations[match[1]], text)

    if "tags" in request:
        (document,) = found["translatedText"]
        is_right = sorted(re.findall("<[^>]*>", document)) == sorted(request["tags"]) and (
            " ".join(re.sub("<[^>]*>", "", document).split()) == said(request["text"]))
    else:
        is_right = _is_like(found, request["answer"], said)
    return "" if is_right else json.dumps(found, ensure_ascii=False)[:400]


def _is_like(found: Any, wanted: Any, said: Callable[[str], str]) -> bool:
    if wanted == "*":
        return True
    if isinstance(wanted, dict):
        return isinstance(found, dict) and found.keys() == wanted.keys() and all(
            _is_like(found[key], value, said) for key, value in wanted.items())
    if isinstance(wanted, list):
        return isinstance(found, list) and len(found) == len(wanted) and all(
            _is_like(one, other, said) for one, other in zip(found, wanted, strict=True))
    return bool(found == (said(wanted) if isinstance(wanted, str) else wanted))
