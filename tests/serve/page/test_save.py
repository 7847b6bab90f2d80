"""A page that is saved: one file that opens from a disk, asks nobody, and shows what was on the page."""

from __future__ import annotations

import hashlib
import json
import re
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from tests.serve.page.conftest import TEXT

Open = Callable[..., Any]
Settled = Callable[[Any], Any]
SHOWN = ("#output", "#tokens", "#lattice", "#finished", "#map-title", "#weights", "#effect", "#bars", "#error",
         "#shares", "#compared", "#labels")
FORGET = """async () => { // asks so much else that nothing is left of what was answered
    const {ask} = await import("./static/api.js"), {fetch} = window;
    window.fetch = async () => new Response("{}");
    for (let i = 0; i < 401; i++) await ask("else", `else/${i}`, {text: "else"});
    window.fetch = fetch; }"""


def saved(page: Any, folder: Path) -> Path:
    """Presses the button, and gives the file that comes of it."""
    with page.expect_download() as told:
        page.click("#save")
    path = folder / told.value.suggested_filename
    told.value.save_as(path)
    return path


def seen(page: Any) -> dict[str, str]:
    """What stands in each part, and in each canvas."""
    texts = {part: page.eval_on_selector(part, "(one) => one.value ?? one.textContent") for part in SHOWN}
    return {**texts, "canvases": page.eval_on_selector_all("canvas", "all => all.map((one) => one.toDataURL()).join()")}


@pytest.mark.parametrize("state", [
    {"run": "one", "head": 0, "prefix": "le", "token": 1,
     "without": [{"attention": "decoder.layers.0.cross_attention", "head": 0}]},
    {"run": "films", "head": 1, "method": "leave_one_out"}], ids=["translator", "classifier"])
def test_it_shows_what_was_on_the_page(visit: Open, settled: Settled, tmp_path: Path, state: dict[str, Any]) -> None:
    page = settled(visit({**state, "text": "the </script><b>cat</b> is old ."}))
    before = seen(page)
    path = saved(page, tmp_path)
    assert path.name == f"pellucid-{state['run']}.html"
    again = settled(visit(address=path.as_uri()))
    assert seen(again) == before
    assert again.input_value("#text") == "the </script><b>cat</b> is old ."
    assert again.evaluate("document.getElementById('text').readOnly")
    assert again.is_hidden("#save")


def test_it_can_be_played_with_as_far_as_it_goes(visit: Open, settled: Settled, tmp_path: Path) -> None:
    page = settled(visit())
    page.click("#matter")
    page.wait_for_selector("#ranked button")
    ranked = page.inner_text("#ranked")
    again = settled(visit(address=saved(page, tmp_path).as_uri()))
    assert again.inner_text("#ranked") == ranked
    for method in ("integrated_gradients", "leave_one_out"):
        again.check(f"input[value={method}]")
        settled(again)
        assert again.locator("#bars .bar").count() > 0
    again.click("#language")
    settled(again)
    assert "重放" in again.inner_text("#lead")
    again.focus("#alpha")
    again.keyboard.press("Home")
    settled(again)
    assert again.text_content("#alpha-value") == "0.00"
    again.locator("#heads button").nth(1).click()
    settled(again)
    again.click("#switches button")
    settled(again)
    assert "pellucid play" in again.inner_text("#look .trouble")
    again.locator("#look .trouble").evaluate("(one) => { one.hidden = true; }")


def test_a_server_that_is_gone_is_no_fault_of_the_page(chromium: Any, server: str, settled: Settled) -> None:
    page = chromium.new_page()
    page.goto(f"{server}/#{quote(json.dumps({'text': TEXT, 'run': 'one'}))}")
    settled(page, "document.querySelector('#maps canvas') !== null")
    page.route("**/replay.html", lambda route: route.abort())
    page.click("#save")
    settled(page, "!document.getElementById('trouble').hidden")
    assert page.text_content("#trouble") == "The server does not answer. Is it still running?"
    page.unroute("**/replay.html")
    page.fill("#text", "who is old ?")
    settled(page)
    assert page.is_hidden("#trouble")


def test_its_policy_allows_its_own_script_and_style_and_nothing_else(visit: Open, settled: Settled,
                                                                     tmp_path: Path) -> None:
    html = saved(settled(visit()), tmp_path).read_text(encoding="utf-8")
    policy = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', html)[0]
    assert policy.startswith("default-src 'none';")
    assert "connect-src" not in policy
    for tag, kind in (("style", "style"), ('script type="module"', "script")):
        body = html.split(f"<{tag}>")[1].split(f"</{kind}>")[0]
        assert f"{kind}-src 'sha256-{b64encode(hashlib.sha256(body.encode()).digest()).decode()}'" in policy
    assert re.findall(r"<(?:link|img|iframe|object|base|form)\b(?! rel=\"icon\")", html) == []


def test_it_opens_with_a_length_penalty_that_changed_no_winner(visit: Open, settled: Settled, tmp_path: Path) -> None:
    page = settled(visit())
    output = page.input_value("#output")
    page.focus("#alpha")
    page.keyboard.press("ArrowRight")
    settled(page, "location.hash.includes('0.61')")
    assert page.input_value("#output") == output
    again = settled(visit(address=saved(page, tmp_path).as_uri()))
    page.reload()
    assert seen(again) == seen(settled(page))  # of a search with 0.61, which may be longer than one with 0.60
    assert again.input_value("#output") == output
    assert again.text_content("#alpha-value") == "0.61"
    assert again.locator("#lattice [role=button]").count() > 0


@pytest.mark.parametrize("run", ["one", "films"])
def test_it_opens_after_more_answers_than_are_kept(visit: Open, settled: Settled, tmp_path: Path, run: str) -> None:
    page = settled(visit({"run": run}))
    before = seen(page)
    page.evaluate(FORGET)
    assert seen(settled(visit(address=saved(page, tmp_path).as_uri()))) == before
