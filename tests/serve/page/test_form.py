"""How the page meets people: by keyboard alone, to a screen reader, in two languages, by day and by night, on a
telephone and on a desk."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe

Open = Callable[..., Any]
Settled = Callable[[Any], Any]

# What a person reads that does not fit where it stands, or lies upon something else that is read.
FAULTS = """() => {
    const shown = (one) => one.checkVisibility({visibilityProperty: true}) && !one.closest(".hidden, #ghost, .skip");
    const name = (one) => `${one.tagName} ${one.id || one.getAttribute("class")} ${one.textContent.trim()}`;
    const faults = [];
    if (document.documentElement.scrollWidth > innerWidth) faults.push("the page is wider than the window");
    const scrolls = (one) => one.closest(".wide");
    for (const one of document.querySelectorAll("h1, h2, h3, p, button, label, select, li, td, th, summary, canvas")) {
        if (!shown(one)) continue;
        const box = one.getBoundingClientRect();
        const isOut = box.left < -0.5 || box.right > innerWidth + 0.5;
        if (isOut && !scrolls(one)) faults.push(`out of the window: ${name(one)}`);
        const cut = one.scrollWidth > one.clientWidth + 1 && getComputedStyle(one).textOverflow !== "ellipsis";
        if (cut && one.clientWidth && getComputedStyle(one).overflowX !== "visible") faults.push(`cut: ${name(one)}`);
    }
    const leaves = [...document.querySelectorAll("button, select, input, textarea, h1, h2, h3, p, canvas.weights, "
        + "summary, #lattice [role=button]")].filter(shown).filter((one) => one.id !== "output");
    const boxes = leaves.map((one) => one.getBoundingClientRect());
    for (let i = 0; i < leaves.length; i++) for (let j = i + 1; j < leaves.length; j++) {
        if (leaves[i].contains(leaves[j]) || leaves[j].contains(leaves[i])) continue;
        const [a, b] = [boxes[i], boxes[j]];
        const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left);
        const high = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
        if (wide > 1 && high > 1) faults.push(`${name(leaves[i])} lies upon ${name(leaves[j])}`);
    }
    return faults; }"""

LOOKS = [("one", width, locale, scheme) for width in (390, 1280) for locale in ("en-US", "zh-CN")
         for scheme in ("light", "dark")]
LOOKS += [("films", 390, "zh-CN", "dark"), ("films", 1280, "en-US", "light")]


@pytest.mark.parametrize(("run", "width", "locale", "scheme"), LOOKS)
def test_axe_finds_nothing_and_nothing_is_cut_or_covered(visit: Open, settled: Settled, run: str, width: int,
                                                         locale: str, scheme: str) -> None:
    page = settled(visit({"run": run, "head": 0, "prefix": "le" if run == "one" else ""}, width, locale, scheme))
    page.locator("#switches button").first.click()
    settled(page)
    page.locator("#weights").evaluate("(one) => { one.parentElement.open = true; }")
    assert page.evaluate("document.documentElement.lang") == {"en-US": "en", "zh-CN": "zh-CN"}[locale]
    found = Axe().run(page)
    faults = found.response["violations"]
    assert [(fault["id"], [node["html"][:200] for node in fault["nodes"][:3]]) for fault in faults] == []
    assert page.evaluate(FAULTS) == []


def test_no_english_is_left_in_chinese_and_the_language_is_kept(visit: Open, settled: Settled) -> None:
    page = settled(visit())
    text = "document.querySelector('main').outerHTML"
    english = page.evaluate(text)
    page.click("#language")
    settled(page)
    chinese = page.evaluate(text)
    table = [max(re.split(r"\{\w+\}", sentence), key=len) for sentence in page.evaluate("""async () => {
        const source = await (await fetch("static/words.js")).text();
        return [...source.matchAll(/\\["([^"]{20,})"/g)].map((found) => found[1]); }""")]
    assert sum(part in english for part in table) > 10
    assert [part for part in table if len(part) > 12 and part in chinese] == []
    page.reload()
    settled(page)
    assert page.evaluate("document.documentElement.lang") == "zh-CN"


def test_the_theme_turns_and_is_kept(visit: Open, settled: Settled) -> None:
    page = settled(visit())
    paper = "getComputedStyle(document.body).backgroundColor"
    day = page.evaluate(paper)
    page.click("#theme")
    night = page.evaluate(paper)
    assert day != night
    page.reload()
    settled(page)
    assert page.evaluate(paper) == night


def test_a_text_from_right_to_left_begins_at_the_right(visit: Open, settled: Settled) -> None:
    page = settled(visit({"text": "الطبيب يقرأ the book ."}))
    directions = "['text', 'output', 'ghost'].map((id) => getComputedStyle(document.getElementById(id)).direction)"
    assert page.evaluate(directions) == ["rtl", "ltr", "ltr"]
    page.fill("#text", "the doctor reads .")
    assert page.evaluate(directions) == ["ltr", "ltr", "ltr"]


def test_on_paper_it_is_day_and_nothing_is_cut_or_missing(visit: Open, settled: Settled) -> None:
    page = settled(visit(width=794))  # A4
    ink = "getComputedStyle(document.body).color"
    day = page.evaluate(ink)
    page.click("#matter")
    settled(page, "document.querySelector('#ranked li') !== null")
    page.click("#theme")
    page.emulate_media(media="print")
    assert page.evaluate(ink) == day
    assert page.evaluate("getComputedStyle(document.querySelector('#bars .bar')).printColorAdjust") == "exact"
    assert page.is_visible("#ranked button >> nth=0")  # which head it is that matters
    assert page.is_hidden("#matter")
    assert page.evaluate("document.querySelector('#lattice svg').getBoundingClientRect().right") <= 794


def focused(page: Any) -> str:
    """What has the focus: its id, or its data-key, or what it is called."""
    told: str = page.evaluate("""() => { const one = document.activeElement;
        return one.id || one.dataset.key || one.getAttribute("aria-label") || one.name || one.textContent.trim(); }""")
    return told


def tab_to(page: Any, wanted: str) -> None:
    """Presses Tab until that has the focus."""
    seen = []
    for _ in range(60):
        page.keyboard.press("Tab")
        seen.append(focused(page))
        if seen[-1] == wanted:
            return
    raise AssertionError(f"{wanted} is not among {seen}")


def test_everything_is_reached_and_done_by_keyboard(visit: Open, settled: Settled) -> None:
    page = settled(visit({"layer": "encoder.layers.0.self_attention"}))
    page.keyboard.press("Tab")
    assert focused(page) == "skip"
    page.keyboard.press("Enter")
    assert focused(page) == "main"
    tab_to(page, "text")
    page.keyboard.press("Control+A")
    page.keyboard.type("who is old ?")
    settled(page)
    tab_to(page, "t0")
    page.keyboard.press("ArrowRight")
    assert focused(page) == "t1"
    page.keyboard.press("Enter")
    settled(page)
    assert page.get_attribute("#tokens [data-key=t1]", "aria-pressed") == "true"
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowDown")
    wanted = page.evaluate("document.activeElement.querySelector('.piece').textContent")
    page.keyboard.press("Enter")
    settled(page)
    assert page.locator("#tokens .piece").nth(1).text_content() == wanted
    tab_to(page, "beam")
    page.keyboard.press("ArrowUp")
    settled(page)
    assert page.input_value("#beam") == "4"


def test_the_lattice_is_walked_by_arrows(visit: Open, settled: Settled) -> None:
    page = settled(visit())
    tab_to(page, "lattice")
    page.keyboard.press("Tab")
    first = focused(page)
    parent = "document.activeElement.dataset.parent"
    rank = page.evaluate("Number(document.activeElement.dataset.rank)")
    page.keyboard.press("ArrowRight")
    assert page.evaluate(parent) == first[1:]
    page.keyboard.press("ArrowLeft")
    assert focused(page) == first
    page.keyboard.press("ArrowDown")
    step, below = page.evaluate("[document.activeElement.dataset.step, Number(document.activeElement.dataset.rank)]")
    assert (step, below) == ("1", rank + 1)
    told = page.get_attribute(f"#lattice [data-key={focused(page)}]", "aria-label")
    assert f"rank {below + 1}" in told
    assert told in str(page.text_content("#node"))
    tab_to(page, "alpha")
    page.keyboard.press("End")
    settled(page)
    assert page.text_content("#alpha-value") == "2.00"


def test_heads_methods_and_what_is_left_by_keyboard(visit: Open, settled: Settled) -> None:
    page = settled(visit({"layer": "encoder.layers.0.self_attention"}))
    tab_to(page, "encoder.layers.0.self_attention -1")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    assert focused(page) == "decoder.layers.0.self_attention 0"
    page.keyboard.press("Enter")
    settled(page)
    assert focused(page) == "decoder.layers.0.self_attention 0"
    tab_to(page, "switch")
    page.keyboard.press("Enter")
    settled(page)
    assert focused(page) == "switch"
    assert page.locator("#heads .off").count() == 1
    tab_to(page, "q0")
    page.keyboard.press("ArrowDown")
    assert page.locator("#lines .query.lit").text_content() == page.locator("#lines .query").nth(1).text_content()
    tab_to(page, "gradient_x_input")
    page.keyboard.press("ArrowDown")
    settled(page)
    assert page.is_checked("input[value=integrated_gradients]")
    assert focused(page) == "integrated_gradients"
    tab_to(page, "other")


def test_what_is_written_is_told_to_a_screen_reader(visit: Open, settled: Settled) -> None:
    page = settled(visit())
    settled(page, "document.getElementById('spoken').textContent.length > 10")
    assert page.input_value("#output") in str(page.text_content("#spoken"))
    assert page.get_attribute("#spoken", "role") == "status"
    tree = page.locator("main").aria_snapshot()
    for name in ("Write", "The search", "Attention", "Contributions", "Two runs side by side"):
        assert f'heading "{name}" [level=2]' in tree
