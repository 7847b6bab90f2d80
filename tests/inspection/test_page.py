"""The page is whole, valid, and asks nothing of anyone; pictures are drawn of whatever there is."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest
import torch

from pellucid.inspection import style
from pellucid.inspection.curves import flow, training_curves
from pellucid.inspection.figures import attention_maps, confusion, head_table
from pellucid.inspection.html import attention_map, picture, table, text
from pellucid.inspection.measures import HeadTable
from pellucid.inspection.page import Section, page

VOID = {"meta", "link", "img", "br", "hr", "input"}
SELF_CLOSED = {"image"}


class Checker(HTMLParser):
    """Tags that close, ids that are unique, links that lead somewhere, and every address that is asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        for name, value in attributes:
            assert value is not None or name == "open"
            if name == "id":
                self.ids.append(str(value))
            if name in ("src", "href", "srcset", "action", "data", "poster", "background"):
                (self.links if tag == "a" else self.addresses).append(str(value))
            assert not name.startswith("on")
        assert tag not in ("script", "iframe", "object", "embed", "base", "form")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        assert tag in SELF_CLOSED | VOID
        self.handle_starttag(tag, attributes)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def check_page(html: str) -> Checker:
    """Asserts that it is valid, and that nothing but data is asked for."""
    checker = Checker()
    checker.feed(html)
    checker.close()
    assert html.startswith("<!DOCTYPE html>")
    assert not checker.open
    assert len(checker.ids) == len(set(checker.ids))
    assert all(link.removeprefix("#") in checker.ids for link in checker.links)
    assert all(address.startswith("data:") for address in checker.addresses)
    css = "".join(re.findall(r"<style>(.*?)</style>", html, re.DOTALL))
    assert "url(" not in css
    assert "@import" not in css
    return checker


ODD = '<script>alert("1")</script> & \x00 \ud800 $x_ 猫'


def test_any_text_is_only_text() -> None:
    body = table([text("a")], [[text(ODD)], ["=" + text("sum")]]) + attention_map(torch.eye(2), [ODD, "b"],
                                                                                 ["c", ODD], ODD)
    html = page(ODD, [("run", ODD)], [Section("one", ODD, ODD, body)])
    assert "<script" not in html
    assert "猫" in html
    check_page(html)
    html.encode("utf-8")


def is_png(data: bytes) -> bool:
    return data.startswith(b"\x89PNG\r\n\x1a\n") and len(data) > 3000


@pytest.mark.parametrize("tokens", [["a"], ["$x_", "^"], ["春", "眠", "不"], ["\ue000", "b"]])
def test_attention_of_any_tokens(tokens: list[str]) -> None:
    size = len(tokens)
    drawn = attention_maps([torch.eye(size)] * 5, tokens, tokens, list("12345"), "title $ \\frac")
    assert is_png(drawn)
    assert "data:image/png" in picture(drawn, "a")


def test_glyphs_that_no_font_has_are_named() -> None:
    assert style.missing_glyphs(["abc", "é", " \n"]) == ""
    assert style.missing_glyphs(["a\U0010fffdb", "\U0010fffd"]) == "\U0010fffd"


def test_without_a_chinese_font_nothing_breaks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(style, "families", lambda: ("DejaVu Sans",))
    assert style.missing_glyphs(["春 a"]) == "春"
    assert is_png(attention_maps([torch.eye(1)], ["春"], ["春"], ["head 1"], "title"))


def test_heads_and_confusion() -> None:
    values = torch.tensor([[0.1, -0.2], [0.0, 3.0]])
    rows = ("encoder.layers.0.self_attention", "encoder.layers.1.self_attention")
    assert is_png(head_table(HeadTable(rows, values, values.abs() / 4), "title", "nats", signed=True))
    assert is_png(head_table(HeadTable(rows, torch.zeros(2, 2)), "title", "bits"))
    assert is_png(confusion([[3, 0], [0, 0]], ["是", "$no$"], "title"))


def event(step: int, **more: object) -> dict[str, object]:
    return {"event": "train", "step": step, "loss": 1.0, "learning_rate": 0.1, "gradient_norm": 1.0, **more}


@pytest.mark.parametrize("steps", [[5], [5, 10, 12]])
def test_training_with_and_without_the_flow(steps: list[int]) -> None:
    norms = {"source_embedding": 1.0, "encoder.layers.0": 0.5}
    with_flow = [event(step, gradient_norms=norms) for step in steps]
    assert is_png(training_curves(with_flow, "nats"))
    drawn = flow(with_flow, "gradient_norms", "title", "norm")
    assert drawn is not None
    assert is_png(drawn)
    assert flow([event(step) for step in steps], "gradient_norms", "title", "norm") is None
    assert flow([event(1, gradient_norms={"a": 0.0})], "gradient_norms", "title", "norm") is None
    assert flow([event(1), *with_flow], "gradient_norms", "title", "norm") is not None  # recorded from some step on
