"""Promise 23: on the page, the first answer to a key is shown within 100 ms.

    python tests/promises/23_keys.py RUN [--count 300] [--pause 0.15] [--json FILE]

`pellucid play RUN` serves the page, and a Chromium without a window types sentences into it, a key every so many
seconds, whether the page is still at work on the one before or not. The time is the browser's own, from the key to the
frame in which the output of the text that now stands there is painted; what is overtaken by the next key counts from
its own. Keys that take longer are counted, not forgiven. At the end the output must be what `generate` makes of the
text.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

import pellucid

MOST = 100.0  # ms
SENTENCES = ["the old doctor reads a book .", "she will buy three black horses on saturday .", "who is famous ?",
             "is there an orange on the table ?", "we loved them ."]
WATCH = """() => { // when a key went down, and how long after it an answer was painted
    const text = document.getElementById("text");
    let begun = null;
    window.waits = [];
    window.kept = 0;
    text.addEventListener("keydown", () => { begun = performance.now(); });
    new MutationObserver(() => {
        const since = begun;
        begun = null;
        if (since !== null) requestAnimationFrame(() => setTimeout(() => window.waits.push(performance.now() - since)));
    }).observe(document.getElementById("ghost"), {childList: true});
}"""


def typed(address: str, count: int, pause: float) -> tuple[list[float], int, str, str]:
    """Milliseconds of each answer, how many keys were pressed, the last text and the output below it."""
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))))
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        page: Any = browser.new_page()
        page.goto(address + '/#{"text":"who is old ?"}')
        page.wait_for_selector("#lattice [role=button]", timeout=60_000)
        page.wait_for_selector("main[aria-busy=false]", timeout=60_000)
        page.evaluate(WATCH)
        page.focus("#text")
        keys = 0
        while keys < count:
            page.keyboard.press("Control+A")
            page.keyboard.press("Backspace")
            page.wait_for_timeout(300)
            page.evaluate("window.waits.splice(window.kept)")  # those of the two keys that empty it
            for letter in SENTENCES[keys % len(SENTENCES)][: count - keys]:
                page.keyboard.press("Space" if letter == " " else letter)
                page.wait_for_timeout(1000 * pause)
                keys += 1
            page.evaluate("window.kept = window.waits.length")
        page.wait_for_selector("main[aria-busy=false]")
        found = page.evaluate("[window.waits, document.getElementById('text').value, "
                              "document.getElementById('output').value]")
        browser.close()
        return found[0], keys, found[1], found[2]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--pause", type=float, default=0.15)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    command = [sys.executable, "-m", "pellucid", "play", str(given.run), "--port", "0", "--no-browser"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        try:
            found = next(filter(None, (re.search(r"http://\S+", line) for line in server.stderr)))
            waits, keys, text, output = typed(found[0], given.count, given.pause)
        finally:
            server.terminate()
    is_right = output == pellucid.load(given.run).generate([text])[0].text
    passed = sum(wait <= MOST for wait in waits) * is_right
    centiles = statistics.quantiles(waits, n=100)
    told = {"keys": keys, "answers": len(waits), "p50": statistics.median(waits), "p95": centiles[94],
            "p99": centiles[98], "most": max(waits), "is_right": is_right}
    print(", ".join(f"{name} {value:.1f}" if isinstance(value, float) else f"{name} {value}"
                    for name, value in told.items()), "(ms)")
    if given.json:
        given.json.write_text(json.dumps(told))
    print(f"promise 23: {passed} of {keys}")
    return int(passed != keys)


if __name__ == "__main__":
    sys.exit(main())
