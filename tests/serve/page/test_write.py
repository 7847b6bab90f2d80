"""What a person does who writes: type, take another word, write in the output, order what ended, compare two runs."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote

import pytest
from tests.serve.page.conftest import TEXT

from pellucid.search.options import length_penalty

Open = Callable[..., Any]
Settled = Callable[[Any], Any]


def value(shown: str) -> float:
    """A number as the page writes it."""
    return float(shown.replace("\u2212", "-").replace("\u202f%", "").replace("<", "").replace("+", ""))


def answer_of(page: Any, path: str, act: Callable[[], Any]) -> dict[str, Any]:
    """What the run that is looked at answers to what an act asks."""
    with page.expect_response(lambda one: one.url.endswith(path)
                              and one.request.post_data_json["run"] == "one") as told:
        act()
    answer: dict[str, Any] = told.value.json()
    return answer


def unread(page: Any) -> str:
    """What it says that the model cannot read, without the marks that keep each piece apart."""
    return re.sub("[\u2068\u2069]", "", page.text_content("#unread"))


def texts(page: Any, selector: str) -> list[str]:
    found: list[str] = page.locator(selector).all_text_contents()
    return found


def test_what_is_typed_before_the_runs_are_told_is_translated_then(visit: Open, settled: Settled) -> None:
    page, held = settled(visit({"text": ""})), list[Any]()
    page.route("**/v1/runs", lambda route: held.append(route))
    page.reload()
    page.fill("#text", TEXT)
    page.wait_for_timeout(200)
    held[0].continue_()
    settled(page, "document.querySelector('#tokens .piece') !== null")
    assert page.input_value("#text") == TEXT


def test_what_is_typed_is_translated_with_the_probability_of_each_token(visit: Open, settled: Settled) -> None:
    page = settled(visit({"text": "who"}))
    page.focus("#text")
    page.keyboard.press("End")
    answer = answer_of(page, "/v1/trace", lambda: page.keyboard.insert_text(" is old ?"))
    settled(page)
    best = answer["finished"][answer["order"][0]]
    assert page.input_value("#output") == best["text"]
    assert texts(page, "#tokens .piece") == best["tokens"]
    shown = [value(one) / 100 for one in texts(page, "#tokens .figure")]
    assert shown == pytest.approx([math.exp(x) for x in best["token_log_probabilities"]], abs=0.0051)
    meters = page.eval_on_selector_all("#tokens .meter", "all => all.map((one) => one.style.getPropertyValue('--p'))")
    assert [float(one) for one in meters] == pytest.approx([math.exp(x) for x in best["token_log_probabilities"]])


PICTURES = "#tokens, #instead, #lattice, #beyond, #finished, #heads, #map-title, #map, #lines, #bars, #maps, #labels"
REFUSED = "the doctor sleeps . " * 60  # more characters than are looked into


@pytest.mark.parametrize("name", ["one", "films"])
def test_what_is_refused_leaves_nothing_of_another_text(name: str, visit: Open, settled: Settled) -> None:
    page = settled(visit({"run": name, "text": "the nurse sees a big table ."}))
    assert "".join(texts(page, PICTURES))
    page.fill("#text", REFUSED)
    settled(page)
    assert page.locator(".trouble:visible").count()
    for _ in range(2):
        assert "".join(texts(page, PICTURES)) == ""
        page.click("#theme")  # which draws all that is there anew
    if name == "one":
        answer = page.request.post(page.url.split("#")[0] + "v1/translate", data={
            "run": "one", "text": REFUSED, "options": {"beam_size": 3}}).json()
        assert page.input_value("#output") == answer["translations"][0]["text"]
    page.fill("#text", "the nurse sees a big table .")
    settled(page)
    assert page.locator(".trouble:visible").count() == 0
    assert "".join(texts(page, PICTURES))


@pytest.mark.parametrize("name", ["one", "films"])
def test_what_was_refused_is_not_told_of_an_empty_box(name: str, visit: Open, settled: Settled) -> None:
    page = settled(visit({"run": name}))
    page.fill("#text", REFUSED)
    settled(page)
    page.fill("#text", "")
    settled(page)
    assert page.locator(".trouble:visible").count() == 0
    assert "".join(texts(page, PICTURES)) == ""


def slide(page: Any, alpha: float) -> None:
    page.evaluate("""(alpha) => { const box = document.getElementById("alpha"); box.value = alpha;
        box.dispatchEvent(new Event("input", {bubbles: true})); }""", alpha)


def test_where_nothing_was_looked_into_controls_change_how_the_next_text_is(visit: Open, settled: Settled) -> None:
    page = settled(visit({"text": REFUSED}))
    page.click("#matter")
    page.check("input[value=leave_one_out]")
    slide(page, 1.5)
    settled(page)
    assert page.text_content("#alpha-value") == "1.50"
    answer = answer_of(page, "/v1/trace", lambda: page.fill("#text", TEXT))
    settled(page)
    assert answer["length_penalty"] == 1.5
    assert page.input_value("#alpha") == "1.5"
    assert page.locator("#bars .bar").count() > 0


def test_what_is_asked_a_moment_later_is_not_asked_of_what_has_gone(visit: Open, settled: Settled) -> None:
    page = settled(visit())
    slide(page, 2.0)
    page.fill("#text", "")
    page.wait_for_timeout(400)  # as the slider rests
    settled(page)
    assert "".join(texts(page, PICTURES)) == ""


def test_requests_that_are_overtaken_are_dropped_and_the_last_one_counts(visit: Open, settled: Settled) -> None:
    page = settled(visit())
    page.fill("#text", "")
    page.type("#text", "the nurse sees a big table .", delay=5)
    settled(page)
    asked = json.loads(unquote(page.evaluate("location.hash.slice(1)")))
    assert asked["text"] == "the nurse sees a big table ."
    again = page.evaluate("""(text) => fetch("v1/translate", {method: "POST", body: JSON.stringify({text, run: "one"}),
        headers: {"Content-Type": "application/json"}}).then((one) => one.json())""", asked["text"])
    assert page.input_value("#output") == again["translations"][0]["text"]


def test_another_word_is_taken_and_the_rest_is_found_anew(visit: Open, settled: Settled) -> None:
    page = settled(visit())
    page.locator("#tokens button").nth(1).click()
    offered = texts(page, "#instead button .piece")
    chosen = page.locator("#instead [aria-current] .piece").text_content()
    place = next(i for i, token in enumerate(offered) if token != chosen)
    before = texts(page, "#tokens .piece")[:1]
    answer = answer_of(page, "/v1/trace", lambda: page.locator("#instead button").nth(place).click())
    settled(page)
    assert texts(page, "#tokens .piece")[:2] == [*before, offered[place]]
    assert answer["prefix"].endswith(f"{offered[place]} ")
    assert page.input_value("#output").startswith(answer["prefix"].strip())
    assert answer["prefix"] in str(page.text_content("#fixed-text"))
    page.click("#free")
    settled(page)
    assert page.is_hidden("#fixed")


def test_what_is_written_in_the_middle_of_a_word_stays_to_the_letter(visit: Open, settled: Settled) -> None:
    page = settled(visit())
    page.focus("#output")
    page.keyboard.press("Control+Home")
    for _ in range(2):
        page.keyboard.press("Delete")
    answer = answer_of(page, "/v1/trace", lambda: page.keyboard.insert_text("le vieux mé"))
    settled(page)
    assert answer["prefix"] == "le vieux mé"
    output = page.input_value("#output")
    assert output.startswith("le vieux mé")
    assert output == answer["finished"][answer["order"][0]]["text"]
    assert page.evaluate("document.getElementById('output').selectionStart") == len("le vieux mé")
    assert page.text_content("#ghost mark") == "le vieux mé"
    page.keyboard.insert_text("d")
    settled(page, "document.getElementById('output').value.startsWith('le vieux méd')")


def test_the_lattice_has_every_node_and_says_what_it_lost_by(visit: Open, settled: Settled) -> None:
    page = settled(visit({"text": "x"}))
    answer = answer_of(page, "/v1/trace", lambda: page.fill("#text", "the old doctor reads ."))
    settled(page)
    best = answer["finished"][answer["order"][0]]
    steps = answer["steps"][: max(answer["search_steps"], best["length"])]
    nodes = [node for step in steps for node in step["nodes"]]
    assert page.locator("#lattice [role=button]").count() == len(nodes)
    for kind in ("kept", "finished", "pruned"):
        assert page.locator(f"#lattice .node.{kind}[role]").count() == sum(node["state"] == kind for node in nodes)
    lost = next(node for node in nodes if node["state"] == "pruned" and node["lost_by"])
    page.locator(f"#lattice [data-key=n{lost['id']}]").hover()
    told = str(page.text_content("#node"))
    assert value(re.findall(r"pruned: (.*?) nats", told)[0]) == pytest.approx(lost["lost_by"], abs=0.0051)
    rows = page.evaluate("""(ids) => ids.map((id) => document.querySelector(`[data-key=n${id}] rect`)
        .getBoundingClientRect().top)""", [node["id"] for node in steps[0]["nodes"]])
    assert rows == sorted(rows)
    kept = next(node for node in nodes if node["state"] == "kept" and node["rank"] == 1)
    page.locator(f"#lattice [data-key=n{kept['id']}]").click()
    settled(page)
    assert page.input_value("#output").startswith(kept["text"])


def test_the_slider_orders_what_ended_as_a_search_does(visit: Open, settled: Settled) -> None:
    page = settled(visit({"text": "x"}))
    answer = answer_of(page, "/v1/trace", lambda: page.fill("#text", "the old doctor reads ."))
    settled(page)
    for alpha in (0.0, 0.3, 1.4, 2.0):
        slide(page, alpha)
        scores = [one["log_probability"] / length_penalty(one["length"], alpha) for one in answer["finished"]]
        order = sorted(range(len(scores)), key=lambda place: -scores[place])[:12]
        shown = page.eval_on_selector_all("#finished tbody tr", "all => all.map((one) => Number(one.dataset.place))")
        assert shown == order, alpha
        assert value(texts(page, "#finished tbody tr:first-child td:nth-child(2)")[0]) == pytest.approx(
            scores[order[0]], abs=0.000051)
        assert page.input_value("#output") == answer["finished"][order[0]]["text"]


def test_another_beam_width_is_searched_with(visit: Open, settled: Settled) -> None:
    page = settled(visit())
    answer = answer_of(page, "/v1/trace", lambda: page.fill("#beam", "5"))
    settled(page)
    assert answer["beam_size"] == 5
    assert max(node["rank"] for step in answer["steps"] for node in step["nodes"]) == 9
    assert page.locator("#lattice [data-rank='9']").count() > 0


def test_two_runs_part_where_their_tokens_differ(visit: Open, settled: Settled) -> None:
    page = settled(visit())
    page.wait_for_selector("#compared .one")
    tokens = [page.locator("#compared .one").nth(i).locator(".piece").all_text_contents() for i in range(2)]
    verdict = str(page.text_content("#compared .verdict"))
    if tokens[0] == tokens[1]:
        assert "same" in verdict
    else:
        place = next(i for i, (a, b) in enumerate(zip(*tokens, strict=False)) if a != b)
        assert f"token {place + 1};" in verdict
        assert page.locator("#compared .parts").count() == 2
    totals = [value(re.findall(r"log P (\S+),", str(text))[0]) for text in texts(page, "#compared .one .soft")]
    assert value(re.findall(r": (\S+) nats", verdict)[0]) == pytest.approx(totals[0] - totals[1], abs=0.016)


def test_a_reload_shows_what_was_there(visit: Open, settled: Settled) -> None:
    page = settled(visit({"token": 1, "beam": 2, "method": "leave_one_out"}))
    page.fill("#text", "she was famous .")
    settled(page, "location.hash.includes('famous')")
    before = page.input_value("#output")
    page.reload()
    settled(page)
    assert page.input_value("#text") == "she was famous ."
    assert page.input_value("#output") == before
    assert page.input_value("#beam") == "2"
    assert page.is_checked("input[value=leave_one_out]")


def test_a_link_into_the_page_that_is_open_is_followed_and_left(visit: Open, settled: Settled) -> None:
    page = settled(visit({"text": "who is old ?"}))
    page.wait_for_timeout(300)  # until the address has what is looked at
    with page.expect_navigation(wait_until="load"), page.expect_event("load"):
        page.evaluate("location.hash = encodeURIComponent(JSON.stringify({text: 'the sister', run: 'other'}))")
    settled(page)
    assert (page.input_value("#text"), page.input_value("#run")) == ("the sister", "other")
    with page.expect_event("load"):
        page.evaluate("history.back()")
    settled(page)
    assert (page.input_value("#text"), page.input_value("#run")) == ("who is old ?", "one")


def test_what_cannot_be_is_said_and_goes_when_it_can_be(visit: Open, settled: Settled) -> None:
    page = settled(visit())
    page.route("**/v1/trace", lambda route: route.fulfill(status=400, json={"error": "this text is <b>too</b> long"}))
    page.fill("#text", "the")
    page.wait_for_selector("#write .trouble:visible")
    assert page.text_content("#write .trouble") == "this text is <b>too</b> long"
    page.unroute("**/v1/trace")
    page.fill("#text", "the sister")
    page.wait_for_selector("#write .trouble", state="hidden")


def test_what_the_model_cannot_read_is_told(visit: Open, settled: Settled) -> None:
    page = settled(visit({"text": "the xyzzy sleeps ."}))
    assert "does not know xyzzy" in unread(page)
    page.fill("#text", "the old " * 40)
    settled(page)
    assert "tokens are left out" in str(page.text_content("#unread"))
    page.fill("#text", "the old doctor")
    settled(page)
    assert str(page.text_content("#unread")).strip() == ""


def test_enter_behind_the_text_changes_nothing(visit: Open, settled: Settled) -> None:
    page = settled(visit())
    before = page.inner_text("main")
    page.focus("#text")
    page.keyboard.press("Control+End")
    page.keyboard.press("Enter")
    settled(page)
    assert page.input_value("#text") == f"{TEXT}\n"
    assert page.inner_text("main") == before


def test_a_classifier_tells_what_it_cannot_read_itself(visit: Open, settled: Settled) -> None:
    page = settled(visit({"text": "the xyzzy sleeps ."}))
    assert "does not know xyzzy, and" in unread(page)
    page.select_option("#run", "films")
    settled(page)
    assert "does not know the · xyzzy · sleeps · ., and" in unread(page)
    page.fill("#text", "what a bad film " * 10)
    settled(page)
    assert str(page.text_content("#unread")).strip() == (
        "The text is too long for the model: its last 9 tokens are left out.")  # of 41, with the start
    page.fill("#text", REFUSED)
    settled(page)
    assert str(page.text_content("#unread")).strip() == ""
    page.fill("#text", "what a good film")
    settled(page)
    assert str(page.text_content("#unread")).strip() == ""
    page.fill("#text", "the xyzzy sleeps .")
    page.select_option("#run", "one")
    settled(page)
    assert "does not know xyzzy" in unread(page)


def test_what_it_cannot_read_turns_nothing_around_it(visit: Open, settled: Settled) -> None:
    page = settled(visit({"text": "the שלום עולם \u202exyzzy sleeps ."}))
    lefts = page.evaluate("""["know", "שלום", "עולם", "xyzzy", "in its place"].map((piece) => {
        const node = document.getElementById("unread").firstChild, range = document.createRange();
        const start = node.data.indexOf(piece);
        range.setStart(node, start);
        range.setEnd(node, start + piece.length);
        return range.getBoundingClientRect().left; })""")
    assert lefts == sorted(lefts)
