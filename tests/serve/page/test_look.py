"""What a person looks at: attention and heads that are off, contributions, a classifier; pixels that mean numbers."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pytest
from tests.serve.page.conftest import TEXT

Open = Callable[..., Any]
Settled = Callable[[Any], Any]

ALPHAS = """([selector, i]) => { // how opaque each cell of a canvas is in its middle, from 0 to 1, and its colour
    const canvas = document.querySelectorAll(selector)[i], cell = parseFloat(
        getComputedStyle(canvas.parentElement).getPropertyValue("--cell")) || 4;
    const pen = canvas.getContext("2d"), rows = canvas.height / cell, columns = canvas.width / cell;
    return [...Array(rows).keys()].map((t) => [...Array(columns).keys()].map((s) => {
        const [r, g, b, a] = pen.getImageData((s + 0.5) * cell, (t + 0.5) * cell, 1, 1).data;
        return [a / 255, r, g, b];
    })); }"""


def answer_of(page: Any, path: str, act: Callable[[], Any]) -> dict[str, Any]:
    with page.expect_response(lambda one: one.url.endswith(path) and one.ok) as told:
        act()
    answer: dict[str, Any] = told.value.json()
    return answer


def opaque(page: Any, selector: str, number: int = 0) -> list[list[float]]:
    return [[cell[0] for cell in row] for row in page.evaluate(ALPHAS, [selector, number])]


def near(expected: list[list[float]], scale: float = 1.0) -> Any:
    return [pytest.approx([min(1.0, abs(value) / scale) for value in row], abs=0.004) for row in expected]


def test_each_cell_of_a_map_is_as_dark_as_the_weight_that_was_sent(visit: Open, settled: Settled) -> None:
    page = settled(visit({"text": "x"}))
    answer = answer_of(page, "/v1/attention", lambda: page.fill("#text", "who is old ?"))
    settled(page)
    assert len(answer["attentions"]) == 3
    heads = len(answer["attentions"][0]["weights"])
    assert page.locator("#heads canvas").count() == 3 * (heads + 1)
    for layer, one in enumerate(answer["attentions"]):
        for head, weights in enumerate(one["weights"]):
            assert opaque(page, "#heads canvas", layer * (heads + 1) + head + 1) == near(weights)
    last = answer["attentions"][-1]["weights"]
    mean = [[sum(head[t][s] for head in last) / heads for s in range(len(last[0][0]))] for t in range(len(last[0]))]
    assert opaque(page, "#map canvas") == near(mean)
    page.locator("#heads button").nth(1).click()
    settled(page)
    assert opaque(page, "#map canvas") == near(answer["attentions"][0]["weights"][0])
    shown = page.locator("#weights tbody tr").nth(1).locator("td").all_text_contents()
    assert [float(x) for x in shown] == pytest.approx(answer["attentions"][0]["weights"][0][1], abs=0.00051)


def test_a_long_text_has_its_lines_and_its_map(visit: Open, settled: Settled) -> None:
    names = [f"t{i}" for i in range(300)]
    one = {"name": "encoder.layers.0.self_attention", "rows": "source", "columns": "source",
           "weights": [[[1 / 300] * 300] * 300]}
    page = visit({"text": ""})
    page.route("**/v1/attention", lambda route: route.fulfill(json={
        "source_tokens": names, "written": [], "read": [], "attentions": [one]}))
    page.fill("#text", TEXT)
    settled(page)
    assert page.locator("#lines .query").all_text_contents() == names
    assert page.locator("#lines line").count() == 300 * 300
    assert page.evaluate("document.querySelector('#map canvas').height") == 300 * 14


def test_a_fault_of_the_page_is_told_where_it_is_met(chromium: Any, server: str, settled: Settled) -> None:
    page = chromium.new_page()
    page.route("**/v1/attention", lambda route: route.fulfill(json={"attentions": None}))
    page.goto(f"{server}/#{quote(json.dumps({'text': TEXT, 'run': 'one'}))}")
    settled(page, "document.querySelector('#look > .trouble') !== null")
    assert str(page.text_content("#look > .trouble")).startswith("This page has a fault of its own: TypeError")
    page.close()


def test_a_token_that_is_pointed_at_shows_where_it_looks(visit: Open, settled: Settled) -> None:
    page = settled(visit({"text": "x", "layer": "encoder.layers.0.self_attention", "head": 1}))
    answer = answer_of(page, "/v1/attention", lambda: page.fill("#text", "who is old ?"))
    settled(page)
    weights = answer["attentions"][0]["weights"][1]
    page.locator("#lines .query").nth(1).hover()
    drawn = page.eval_on_selector_all("#lines .lit", "all => all.filter((one) => one.tagName === 'line')"
                                      ".map((one) => Number(one.getAttribute('stroke-opacity')))")
    assert drawn == pytest.approx(weights[1], abs=0.00051)
    meters = page.eval_on_selector_all("#lines .key .meter", "all => all.map((one) => "
                                       "Number(one.style.getPropertyValue('--p')))")
    assert meters == pytest.approx(weights[1])
    box = page.locator("#map canvas").bounding_box()
    page.mouse.move(box["x"] + 3, box["y"] + box["height"] - 3)
    assert answer["source_tokens"][-1] in str(page.text_content("#cell"))


def test_a_head_that_is_switched_off_says_what_that_does(visit: Open, settled: Settled) -> None:
    page = settled(visit({"layer": "decoder.layers.0.cross_attention", "head": 0}))
    answer = answer_of(page, "/v1/attention", lambda: page.click("#switches button"))
    settled(page)
    assert answer["without"] == [{"attention": "decoder.layers.0.cross_attention", "head": 0}]
    told = str(page.text_content("#effect"))
    assert answer["output_without"] in told
    assert f"{abs(answer['log_probability_without']):.2f}" in told
    assert page.locator("#heads .off").count() == 1
    page.get_by_text("Switch all on").click()
    settled(page)
    assert page.text_content("#effect") == ""


def test_heads_are_ranked_by_what_switching_them_off_changes(visit: Open, settled: Settled) -> None:
    page = settled(visit())
    answers = []
    page.on("response", lambda one: answers.append(one.json()) if one.url.endswith("/v1/attention") else None)
    page.click("#matter")
    page.wait_for_selector("#ranked button")
    assert page.locator("#heads .gain").count() == 6
    changes = {(one["without"][0]["attention"], one["without"][0]["head"]):
               one["log_probability_without"] - one["log_probability"] for one in answers if len(one["without"]) == 1}
    assert len(changes) == 6
    order = sorted(changes, key=lambda head: -abs(changes[head]))[:5]
    shown = page.eval_on_selector_all("#ranked button", "all => all.map((one) => one.dataset.key)")
    assert shown == [f"{name} {head}" for name, head in order]
    page.locator("#ranked button").first.click()
    settled(page)
    assert page.get_attribute(f"#heads [data-key='{shown[0]}']", "aria-pressed") == "true"


def test_heads_are_ranked_for_the_output_that_was_measured_and_no_other(visit: Open, settled: Settled) -> None:
    page = settled(visit({"text": "who is old ?"}))
    own = page.input_value("#output")

    def shown() -> tuple[list[str], list[str], str]:
        return (page.locator("#ranked li").all_text_contents(), page.locator("#heads .gain").all_text_contents(),
                str(page.text_content("#matter-done")))

    def slide(alpha: float) -> None:
        page.evaluate("""(alpha) => { const box = document.getElementById("alpha"); box.value = alpha;
            box.dispatchEvent(new Event("input", {bubbles: true})); }""", alpha)

    page.click("#matter")
    page.wait_for_selector("#ranked button")
    before = shown()
    slide(2.0)
    assert page.locator("#ranked li").count() == 0
    settled(page)
    assert page.input_value("#output") != own
    assert shown() == ([], [], "")
    slide(0.6)
    settled(page)
    assert page.input_value("#output") == own
    assert shown() == before


def test_what_is_looked_into_is_what_was_written_token_by_token(visit: Open, settled: Settled) -> None:
    page, asked = settled(visit({"text": "x"})), []
    page.on("request", lambda one: asked.append(one.post_data_json) if one.url.endswith(
        ("/v1/attention", "/v1/contributions")) else None)
    with page.expect_response(lambda one: one.url.endswith("/v1/trace") and one.json()["run"] == "one") as told:
        page.fill("#text", "who is old ?")  # of which the other run's is asked, too
    settled(page)
    found = told.value.json()
    best = found["finished"][found["order"][0]]
    assert [one["output"] for one in asked if one["text"] == "who is old ?"] == 2 * [best["token_ids"]]
    shown = page.locator("#lines .query").all_text_contents()
    assert shown == page.locator("#which .piece").all_text_contents() == best["tokens"]


@pytest.mark.parametrize("method", ["magic", "toString", 1])
def test_a_link_with_a_method_that_there_is_not_opens_with_the_first(visit: Open, settled: Settled,
                                                                     method: Any) -> None:
    page = settled(visit({"method": method}))
    assert page.is_checked("input[value=gradient_x_input]")
    assert page.locator("#bars .bar").count() > 0


def test_a_link_with_heads_that_the_run_has_not_opens_with_those_that_it_has(visit: Open, settled: Settled) -> None:
    has = {"attention": "decoder.layers.0.cross_attention", "head": 1}
    page = settled(visit({"without": [{**has, "attention": "decoder.layers.5.cross_attention"}, has,
                                      {**has, "head": 7}, {**has, "attention": 5}]}))
    assert page.locator("#heads .off").count() == 1
    page.click("#switches [data-key=all-on]")
    settled(page)
    assert page.locator("#heads .head").count() == 9
    assert page.locator("#heads .off").count() == 0


@pytest.mark.parametrize("state", [{"token": 1.5}, {"token": -3}, {"head": 0.5}, {"head": -2}, {"beam": -4}])
def test_a_link_with_a_number_that_cannot_be_opens_as_without_it(visit: Open, settled: Settled,
                                                                 state: dict[str, float]) -> None:
    shown = [settled(visit(one)).inner_text("main") for one in ({}, state)]
    assert shown[0] == shown[1]


@pytest.mark.parametrize("method", ["gradient_x_input", "integrated_gradients", "leave_one_out"])
def test_contributions_have_their_error_and_a_random_model_beside_them(visit: Open, settled: Settled,
                                                                       method: str) -> None:
    page = settled(visit({"text": "x", "method": method}))
    answer = answer_of(page, "/v1/contributions", lambda: page.fill("#text", "who is old ?"))
    settled(page)
    assert answer["method"] == method
    page.locator("#which button").nth(1).click()
    settled(page)
    own = [[*a, *b] for a, b in zip(answer["source"], answer["prefix"], strict=True)]
    random = [[*a, *b] for a, b in zip(answer["random_source"], answer["random_prefix"], strict=True)]
    for i, rows in enumerate((own, random)):
        largest = max(abs(value) for row in rows for value in row)
        assert opaque(page, "#maps canvas", i) == near(rows, largest)
    shown = page.locator("#bars > div").first.locator(".figure").all_text_contents()
    expected = own[1][: len(answer["source_tokens"]) + 2]
    assert [float(x.replace("\u2212", "-")) for x in shown] == pytest.approx(expected, abs=0.0051)
    told = str(page.text_content("#error"))
    assert (f"{abs(answer['error'][1]):.4f}" in told) if answer["error"][1] is not None else "does not claim" in told
    assert page.locator("#map .scale").text_content() == "Attention weights: 01"
    most = f"{max(abs(value) for row in own for value in row):.3f}"
    assert page.locator("#maps .scale").first.text_content() == f"against \u2212{most}+{most} for"
    page.locator("#maps canvas").first.hover(position={"x": 1, "y": 1})
    value = f"{own[0][0]:+.3f} nats".replace("-", "\u2212")
    assert str(page.text_content("#gave")).endswith(value.replace("+0.000", "0.000").replace("\u22120.000", "0.000"))
    assert page.text_content("#error") == told  # which stays
    colours = {(value < 0): cell[1:] for row, cells in zip(own, page.evaluate(ALPHAS, ["#maps canvas", 0]), strict=True)
               for value, cell in zip(row, cells, strict=True) if cell[0] > 0.5}
    assert len({tuple(x) for x in colours.values()}) == len(colours)


def test_a_classifier_has_probabilities_attention_and_contributions(visit: Open, settled: Settled) -> None:
    page = settled(visit({"text": "x", "run": "films"}))
    answer = answer_of(page, "/v1/attention", lambda: page.fill("#text", "what a good film"))
    settled(page)
    assert page.is_hidden("#search")
    assert page.is_hidden("#output")
    best = max(answer["probabilities"], key=answer["probabilities"].get)
    assert page.locator("#labels .option").first.locator(".piece").text_content() == best == answer["label"]
    assert page.locator("#which button").count() == 1
    page.locator("#heads button").nth(1).click()
    without = answer_of(page, "/v1/attention", lambda: page.click("#switches button"))
    settled(page)
    assert without["probabilities_without"] is not None
    assert "without those heads" in str(page.text_content("#labels"))


def test_two_classifiers_have_their_own_labels_beside_each_other(visit: Open, settled: Settled) -> None:
    page = visit({"text": "", "run": "films"})
    settled(page)

    def runs(route: Any) -> None:
        found = route.fetch().json()["runs"]
        film = next(one for one in found if one["name"] == "films")
        route.fulfill(json={"runs": [film, {**film, "name": "moods"}]})

    def attention(route: Any) -> None:
        asked = route.request.post_data_json
        answer = route.fetch(post_data=json.dumps({**asked, "run": "films"})).json()
        share = 0.25 if asked["run"] == "moods" else 0.75
        other = "angry" if asked["run"] == "moods" else "sad"
        route.fulfill(json={**answer, "probabilities": {"happy": share, other: 1 - share}, "label": "happy"})

    page.route("**/v1/runs", runs)
    page.route("**/v1/attention", attention)
    page.reload()
    page.fill("#text", "what a good film")
    settled(page, "document.querySelector('#compared tbody') !== null")
    rows = [row.locator("th, td").all_text_contents() for row in page.locator("#compared tbody tr").all()]
    assert [[cell.replace("\u202f", " ") for cell in row] for row in rows] == [
        ["happy", "75 %", "25 %", "+50.0"], ["sad", "25 %", "–", "–"], ["angry", "–", "75 %", "–"]]
