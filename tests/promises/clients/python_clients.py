"""What four Python clients of LibreTranslate make of a server, each by all the calls that it has.

    python python_clients.py NAME < task.json        run by 14_clients.py, in an environment that has the client

The task has the addresses of three servers (`open`; `keyed`, with a key; `strict`, which answers few requests a
minute), a key of theirs, pairs of texts and their translations, and a file. A line of JSON comes back: for each call
its name, whether it gave what it should, and what it gave.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

Row = tuple[str, bool, str]


class Calls:
    """What has been called, and what came of it."""

    def __init__(self) -> None:
        self.rows: list[Row] = []

    def gives(self, name: str, call: Callable[[], Any], wanted: Any) -> None:
        """The call gives this, or what this says is right."""
        try:
            found = call()
        except Exception as error:
            self.rows.append((name, False, repr(error)))
            return
        is_right = wanted(found) if callable(wanted) else found == wanted
        self.rows.append((name, bool(is_right), repr(found)))

    def raises(self, name: str, call: Callable[[], Any], kind: type[BaseException], tells: str) -> None:
        """The call raises this, and its text has `tells` in it."""
        try:
            found = call()
        except kind as error:
            told = f"{error} {getattr(error, 'read', str)()!r}"
            self.rows.append((name, tells in told, told))
        except Exception as error:
            self.rows.append((name, False, repr(error)))
        else:
            self.rows.append((name, False, repr(found)))


def _is_detected(found: Any) -> bool:
    """English before French, in per cent."""
    sure = [row["confidence"] for row in found]
    return found[0]["language"] == "en" and {row["language"] for row in found} == {"en", "fr"} and sum(sure) <= 100


def libretranslatepy(task: dict[str, Any], calls: Calls) -> None:
    """Forms; a GET with a body."""
    api = import_module("libretranslatepy").LibreTranslateAPI
    error = import_module("urllib.error").HTTPError
    plain, keyed = api(task["open"]), api(task["keyed"] + "/", task["key"])
    calls.gives("languages", plain.languages, lambda found: [row["code"] for row in found] == ["en", "fr"])
    calls.gives("languages, key", keyed.languages, lambda found: found[0]["targets"] == ["fr"])
    calls.gives("detect", lambda: plain.detect(task["pairs"][0][0], timeout=20), _is_detected)
    calls.gives("detect, key", lambda: keyed.detect(task["pairs"][0][0]), _is_detected)
    text, translation = task["pairs"][0]
    calls.gives("translate, key", lambda: keyed.translate(text, "en", "fr", timeout=20), translation)
    calls.gives("same language", lambda: plain.translate(text, "en", "en"), text)
    calls.raises("wrong key", lambda: api(task["keyed"], "x").translate(text, "en", "fr"), error, "403")
    calls.raises("no key", lambda: api(task["keyed"]).translate(text, "en", "fr"), error, "400")
    calls.raises("unknown language", lambda: plain.translate(text, "en", "zz"), error, "zz is not supported")
    calls.raises("no text", lambda: plain.translate("", "en", "fr"), error, "missing q parameter")
    _translate_all(task, calls, lambda text: plain.translate(text, "en", "fr"))


def libretranslate_aio(task: dict[str, Any], calls: Calls) -> None:
    """Forms, with lists as repeated fields; typed errors; a command."""
    module = import_module("libretranslate_aio")
    texts, translations = zip(*task["pairs"], strict=True)
    with module.LibreTranslate(task["open"]) as client:
        calls.gives("list", lambda: client.translate(texts, "en", "fr").translated_text, list(translations))
        calls.gives("alternatives", lambda: client.translate(texts[0], "en", "fr", alternatives=2),
                    lambda found: found.translated_text == translations[0] and len(found.alternatives) == 2)
        calls.gives("html", lambda: client.translate(f"<p><b>{texts[0]}</b></p>", "en", "fr", format="html")
                    .translated_text, f"<p><b>{translations[0]}</b></p>")
        calls.gives("auto", lambda: client.translate(texts[0], "auto", "fr"), lambda found: (
            found.translated_text == translations[0] and found.detected_language.language == "en"))
        calls.gives("auto, list", lambda: client.translate(texts[:2], "auto", "fr"), lambda found: (
            [one.language for one in found.detected_language] == ["en", "en"]))
        calls.gives("detect", lambda: client.detect(texts[0]), lambda found: found[0].language == "en")
        calls.gives("languages", client.languages, lambda found: [one.targets for one in found] == [["fr"], ["en"]])
        calls.gives("health", client.health, True)
        calls.gives("frontend_settings", client.frontend_settings, lambda found: (
            found.char_limit > 0 and not found.key_required and not found.suggestions and found.language.target.code))
        calls.raises("suggest", lambda: client.suggest("a", "b", "en", "fr"), module.ForbiddenError, "")
        calls.raises("translate_file", lambda: client.translate_file(task["file"], "en", "fr"), module.ForbiddenError,
                     "")
        calls.raises("unknown language", lambda: client.translate("a", "en", "zz"), module.BadRequestError, "zz")
    with module.LibreTranslate(task["keyed"], api_key="x") as client:
        calls.raises("wrong key", lambda: client.translate("a", "en", "fr"), module.ForbiddenError, "API key")
    with module.LibreTranslate(task["strict"], api_key=task["key"]) as client:
        calls.raises("too many", lambda: [client.translate("a", "en", "fr") for _ in range(9)], module.RateLimitError,
                     "Slowdown")
    calls.gives("at once", lambda: asyncio.run(_at_once(module, task["open"], texts)), list(translations))
    command = [sys.executable, "-m", "libretranslate_aio.cli", "--url", task["open"]]
    for name, words, wanted in (("translate", [texts[0], "-s", "en", "-t", "fr"], translations[0]),
                                ("languages", [], "en\tEnglish\nfr\tFrench")):
        calls.gives(f"command {name}", lambda words=(name, *words): subprocess.run(  # type: ignore[misc]
            [*command, *words], capture_output=True, text=True, check=True).stdout.strip(), wanted)
    with module.LibreTranslate(task["open"]) as client:
        _translate_all(task, calls, lambda text: client.translate(text, "en", "fr").translated_text)


async def _at_once(module: Any, url: str, texts: tuple[str, ...]) -> list[str]:
    async with module.AsyncLibreTranslate(url) as client:
        found = await asyncio.gather(*(client.translate(text, "en", "fr") for text in texts))
    return [one.translated_text for one in found]


def deep_translator(task: dict[str, Any], calls: Calls) -> None:
    """A POST whose query string says all, without a body; insists on a key."""
    module = import_module("deep_translator")
    errors = import_module("deep_translator.exceptions")
    texts, translations = map(list, zip(*task["pairs"], strict=True))

    def client(key: str, where: str = "keyed", target: str = "fr") -> Any:
        return module.LibreTranslator(source="en", target=target, api_key=key, custom_url=task[where] + "/")

    calls.gives("translate, key", lambda: client(task["key"]).translate(texts[0]), translations[0])
    calls.gives("a key that is not needed", lambda: client("x", "open").translate(texts[0]), translations[0])
    calls.gives("translate_batch", lambda: client("x", "open").translate_batch(texts[:3]), translations[:3])
    calls.gives("translate_file", lambda: client("x", "open").translate_file(task["file"]), translations[0])
    calls.raises("wrong key", lambda: client("x").translate(texts[0]), errors.AuthorizationException, "")
    calls.raises("unknown language", lambda: client("x", "open", "de").translate(texts[0]), errors.ServerException, "")
    _translate_all(task, calls, client("x", "open").translate)


def argostranslate(task: dict[str, Any], calls: Calls) -> None:
    """Forms; asks for languages by POST, which LibreTranslate refuses, too."""
    api = import_module("argostranslate.apis").LibreTranslateAPI
    error = import_module("urllib.error").HTTPError
    text, translation = task["pairs"][0]
    calls.gives("detect", lambda: api(task["open"]).detect(text), _is_detected)
    calls.gives("translate, key", lambda: api(task["keyed"], task["key"]).translate(text, "en", "fr"), translation)
    calls.raises("wrong key", lambda: api(task["keyed"], "x").translate(text, "en", "fr"), error, "403")
    calls.raises("languages", api(task["open"]).languages, error, "405")
    _translate_all(task, calls, lambda text: api(task["open"]).translate(text, "en", "fr"))


def _translate_all(task: dict[str, Any], calls: Calls, translate: Callable[[str], Any]) -> None:
    """As many translations as make up the number of calls."""
    for text, translation in itertools.islice(itertools.cycle(task["pairs"]), max(0, task["count"] - len(calls.rows))):
        calls.gives("translate", lambda text=text: translate(text), translation)  # type: ignore[misc]


if __name__ == "__main__":
    os.environ["no_proxy"] = "*"
    made = Calls()
    {each.__name__: each for each in (libretranslatepy, libretranslate_aio, deep_translator, argostranslate)}[
        sys.argv[1]](json.load(sys.stdin), made)
    print(json.dumps(made.rows))
