"""The page that looks inside a run: which files it has, and what a browser is told to forbid it.

Everything is in `static/`: a document, a style and modules, written by hand, that load nothing from elsewhere. The same
in one file, its script and style allowed by their hashes (Content Security Policy Level 3, section 2.3.1), is what
"save this page" fills with answers: it opens from a disk, where modules cannot be loaded, and asks nobody. Imports
neither torch nor a server.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import os
import re
from dataclasses import dataclass
from importlib.resources import files as resources

from pellucid.language import language

SAVED = "{saved}"  # where the answers of a saved page go
_TYPES = {"js": "text/javascript; charset=utf-8", "css": "text/css; charset=utf-8"}
_IMPORT = re.compile(r'^(?:import|export) (?:[^;"]*from )?"\./(\w+\.js)";\n', re.MULTILINE)
_STYLE, _SCRIPT = ('<link rel="stylesheet" href="static/style.css">',
                   '<script type="module" src="static/app.js"></script>')
_NOTHING = "default-src 'none'; img-src data:; base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'"

HEADERS = {
    "Content-Security-Policy": f"{_NOTHING}; script-src 'self'; style-src 'self'; connect-src 'self'; "
                               "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-cache",
}


@dataclass(frozen=True)
class File:
    """What is answered to a path: its bytes and their media type."""

    body: bytes
    type: str


@functools.cache
def files() -> dict[str, File]:
    """Every file of the page by its path on the server; `HEADERS` go with each."""
    folder = resources("pellucid.serve").joinpath("static")
    static = {path.name: path.read_text(encoding="utf-8") for path in folder.iterdir()
              if path.name.endswith((".html", ".js", ".css"))}
    document = _in_language(static.pop("index.html"))
    html = "text/html; charset=utf-8"
    found = {f"/static/{name}": File(text.encode(), _TYPES[name.rpartition(".")[2]]) for name, text in static.items()}
    return found | {"/": File(document.encode(), html), "/replay.html": File(replay(document, static).encode(), html)}


def _in_language(document: str) -> str:
    """The document, saying which language ``PELLUCID_LANG`` asks for, if it is set."""
    if "PELLUCID_LANG" not in os.environ:
        return document
    return document.replace('<html lang="en">', f'<html lang="en" data-language="{language()}">', 1)


def replay(document: str, static: dict[str, str]) -> str:
    """The page in one document, with `SAVED` where the answers go that it replays."""
    style, script = static["style.css"], one_script(static)
    policy = f"{_NOTHING}; script-src {_hash(script)}; style-src {_hash(style)}"
    saved = f'<script type="application/json" id="saved">{SAVED}</script>'
    document = document.replace('<meta charset="utf-8">', '<meta charset="utf-8">\n'
                                f'<meta http-equiv="Content-Security-Policy" content="{policy}">', 1)
    document = document.replace(_STYLE, f"<style>{style}</style>", 1)
    return document.replace(_SCRIPT, f'{saved}\n<script type="module">{script}</script>', 1)


def one_script(static: dict[str, str]) -> str:
    """The modules that app.js needs and itself, one behind the other, each behind those that it imports.

    No two of them may give one name to different things: a test sees to it.
    """
    order: list[str] = []

    def visit(name: str) -> None:
        for needed in _IMPORT.findall(static[name]):
            visit(needed)
        if name not in order:
            order.append(name)

    visit("app.js")
    return "".join(re.sub(r"^export (?=\w)", "", _IMPORT.sub("", static[name]), flags=re.MULTILINE) for name in order)


def _hash(text: str) -> str:
    """What allows this text in a policy."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
