"""The page in a browser: two small translators and a classifier, served by `pellucid play`, and a Chromium that lets
nothing out."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
         "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"]
TINY: dict[str, Any] = {
    "task": "seq2seq",
    "data": {"generated": {"task": "grammar", "train": 1000, "validation": 20, "test": 20},
             "source_language": "en", "target_language": "fr"},
    "tokenizer": {"kind": "word"},
    "model": {"d_model": 32, "n_heads": 2, "d_ff": 64, "encoder_layers": 1, "decoder_layers": 1, "max_length": 32},
    "train": {"steps": 40, "batch_sentences": 32, "learning_rate": 0.01, "warmup_steps": 10, "precision": "fp32",
              "validate_every": 40, "log_every": 10},
    "decode": {"beam_size": 3, "max_length": 12},
}
HARMLESS = ("getImageData",  # as tests read often
            "status of 400")  # which the page has to tell, and told pages are looked at below
LABELS = "label\ttext\n" + "happy\twhat a good film\nsad\twhat a bad film\n" * 40
TEXT = "the old doctor reads a book ."
Open = Callable[..., Any]


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Run folders: two translators that were drawn and trained differently, and a classifier."""
    from pellucid.config.mapping import from_mapping
    from pellucid.train.journal import Reporter
    from pellucid.train.train import train

    folder = tmp_path_factory.mktemp("played")
    (folder / "films.tsv").write_text(LABELS)
    films = dict.fromkeys(("train", "validation", "test"), str(folder / "films.tsv"))
    one, other = {**TINY, "seed": 1}, {**TINY, "seed": 2}
    third = {**TINY, "task": "classification", "data": films,
             "model": {**TINY["model"], "decoder_layers": None}}
    third["model"] = {key: value for key, value in third["model"].items() if value is not None}
    for name, mapping in (("one", one), ("other", other), ("films", third)):
        train(from_mapping(mapping), folder / name, Reporter(io.StringIO()))
    return [folder / name for name in ("one", "other", "films")]


@pytest.fixture(scope="session")
def server(runs: list[Path]) -> Iterator[str]:
    """Where `pellucid play` listens."""
    command = [sys.executable, "-m", "pellucid", "play", *map(str, runs), "--port", "0", "--no-browser"]
    neutral = {key: value for key, value in os.environ.items() if key != "PELLUCID_LANG"}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=neutral) as process:
        assert process.stderr is not None
        try:
            lines = iter(process.stderr.readline, "")
            found = next(filter(None, (re.search(r"listening on (http://127\.0\.0\.1:\d+)", one) for one in lines)))
            threading.Thread(target=process.stderr.read, daemon=True).start()  # so that it never waits for a reader
            yield found[1]
        finally:
            process.terminate()
            process.wait(30)


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """A browser; as long as it is there no test can run an event loop of its own."""
    if BROWSER is None:
        assert not os.environ.get("PELLUCID_REQUIRE_BROWSER"), "no Chromium here, and PELLUCID_REQUIRE_BROWSER is set"
        pytest.skip("no Chromium here: install the Debian package chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=BROWSER, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def visit(server: str, chromium: Any) -> Iterator[Open]:
    """A function: opens the page as it is with this state, or another address; at the end nothing was asked of anyone
    else, nothing went wrong, and no script was refused."""
    contexts, faults = [], list[str]()

    def open_page(state: dict[str, Any] | None = None, width: int = 1280, locale: str = "en-US", scheme: str = "light",
                  address: str | None = None) -> Any:
        context = chromium.new_context(viewport={"width": width, "height": 900}, locale=locale, color_scheme=scheme,
                                       accept_downloads=True, reduced_motion="reduce")
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(20_000)
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("console", lambda line: faults.append(line.text) if line.type in ("error", "warning")
                and not any(text in line.text for text in HARMLESS) else None)
        page.on("request", lambda asked: None if asked.url.startswith((server, "data:", "blob:", "file:"))
                else faults.append(asked.url))
        told = quote(json.dumps({"text": TEXT, "run": "one", **(state or {})}))
        page.goto(address or f"{server}/#{told}")
        return page

    yield open_page
    for context in contexts:
        faults += [text for page in context.pages for text in page.locator(".trouble:visible").all_text_contents()]
        context.close()
    assert faults == []


@pytest.fixture
def settled() -> Callable[[Any], Any]:
    """A function: waits until a page shows all that it was asked."""

    def wait(page: Any, condition: str = "true") -> Any:
        """Also until this holds; the browser's own way to wait would need a page that may evaluate text."""
        page.wait_for_timeout(50)
        page.wait_for_selector("main[aria-busy=false]")
        for _ in range(400):
            if page.evaluate(condition):
                break
            page.wait_for_timeout(50)
        else:
            raise AssertionError(f"{condition} never held")
        page.evaluate("new Promise((go) => requestAnimationFrame(() => requestAnimationFrame(go)))")
        return page

    return wait
