"""A question on the page: the answer marked in its passage, and what it was found by underlined."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from tests.serve.page.test_form import FAULTS
from tests.serve.test_answers import made

__all__ = ["made"]
Open = Callable[..., Any]
Settled = Callable[[Any], Any]


@pytest.fixture(scope="module")
def server(made: Path, runs: list[Path]) -> Iterator[str]:
    """Where `pellucid play` shows a reader, and a translator."""
    command = [sys.executable, "-m", "pellucid", "play", str(made / "run"), str(runs[0]), "--index", str(made / "idx"),
               "--port", "0", "--no-browser"]
    neutral = {key: value for key, value in os.environ.items() if key != "PELLUCID_LANG"}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=neutral) as process:
        assert process.stderr is not None
        try:
            lines = iter(process.stderr.readline, "")
            found = next(filter(None, (re.search(r"listening on (http://127\.0\.0\.1:\d+)", one) for one in lines)))
            threading.Thread(target=process.stderr.read, daemon=True).start()
            yield found[1]
        finally:
            process.terminate()
            process.wait(30)


def ask(page: Any, question: str) -> dict[str, Any]:
    with page.expect_response(lambda one: one.url.endswith("/answer") and one.ok) as told:
        page.fill("#text", question)
    answer: dict[str, Any] = told.value.json()
    return answer


def pieces(answer: dict[str, Any], rank: int) -> list[str]:
    passage = answer["passages"][rank]
    return [passage["text"][start - passage["start"] : end - passage["start"]] for start, end in passage["matched"]]


@pytest.mark.parametrize("question", ["who lost the key?", "范廷颂何时出生？", "1919年６月"])
def test_the_answer_is_marked_and_what_matched_underlined(question: str, visit: Open, settled: Settled) -> None:
    page = settled(visit({"run": "run", "text": ""}))
    answer = ask(page, question)
    settled(page)
    assert page.locator("#passages li").count() == len(answer["passages"]) > 0
    marked = page.locator("#passages mark").all_text_contents()
    if answer["document"] is None:
        assert marked == []
        assert "do not tell" in page.text_content("#answer")
    else:
        assert marked == [answer["answer"]]
        assert f"{answer['document']}[{answer['start']}:{answer['end']}]" in page.text_content("#answer")
    for rank in range(len(answer["passages"])):
        item = page.locator("#passages li").nth(rank)
        assert item.locator(".passage").text_content() == answer["passages"][rank]["text"]
        if rank or answer["document"] is None:
            assert item.locator("u").all_text_contents() == pieces(answer, rank)
    assert page.locator("#search, #look, #from, #beside").evaluate_all("all => all.every((one) => one.hidden)")


def test_a_question_that_is_too_long_is_told_of(visit: Open, settled: Settled) -> None:
    page = settled(visit({"run": "run", "text": ""}))
    assert ask(page, "who lost the key? " * 3)["cut"] == 31
    settled(page)
    assert "its last 31 tokens are left out" in page.text_content("#unread")
    ask(page, "who lost the key?")
    settled(page)
    assert page.text_content("#unread").strip() == ""


def test_a_question_without_a_passage_and_then_a_translator(visit: Open, settled: Settled) -> None:
    page = settled(visit({"run": "run", "text": ""}))
    ask(page, "zzz")
    settled(page)
    assert "No passage" in page.text_content("#answer")
    page.select_option("#run", "one")
    page.fill("#text", "the cat sleeps .")
    settled(page)
    assert page.locator("#lattice [role=button]").count() > 0
    assert not page.locator("#answer").is_visible()


@pytest.mark.parametrize(("width", "locale", "scheme"), [(1280, "en-US", "light"), (390, "zh-CN", "dark")])
def test_axe_finds_nothing_and_nothing_is_cut_or_covered(visit: Open, settled: Settled, width: int, locale: str,
                                                         scheme: str) -> None:
    page = settled(visit({"run": "run", "text": "who lost the key?"}, width, locale, scheme))
    page.wait_for_selector("#passages li")
    faults = Axe().run(page).response["violations"]
    assert [(fault["id"], [node["html"][:200] for node in fault["nodes"][:3]]) for fault in faults] == []
    assert page.evaluate(FAULTS) == []
