"""Passages: each is the part of its document that it says, and together they are the document."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pellucid.retrieve.passages import Document, Passage, cut
from pellucid.retrieve.terms import marks

PIECES = ["中文句子。", "是吗？", "A sentence. ", "Dr. Who", "ﬁ①Å", "e\u0301", "👩‍👧", "🇫🇷", "\r\n", "\n\n",
          "\u2028", "\u3000", " ", "12.5", "ＡＢＣ", "㌔", "\ufeff", "\0"]
TEXTS = st.lists(st.sampled_from(PIECES) | st.text(max_size=8), max_size=60).map("".join)


@given(TEXTS, st.integers(20, 60))
def test_every_passage_is_the_part_of_the_document_that_it_says(text: str, longest: int) -> None:
    found = list(cut(Document("d", "t", text), longest))
    end = 0
    for passage in found:
        assert passage.text == text[passage.start : passage.end]
        assert passage.text == passage.text.strip() != ""
        assert 0 < len(passage.text) <= longest
        assert text[end : passage.start].strip() == ""
        end = passage.end
    assert text[end:].strip() == ""


def test_they_end_where_sentences_end_and_are_about_equally_long() -> None:
    text = "".join(f"第{number:03d}句话写在这里。" for number in range(42))  # 11 characters each
    found = list(cut(Document("d", "", text), 400))
    assert all(passage.text.endswith("。") for passage in found)
    assert [len(passage.text) for passage in found] == [231, 231]


def test_a_line_ends_one_too() -> None:
    found = list(cut(Document("d", "", "a line\n" * 3 + "another line"), 20))
    assert [passage.text for passage in found] == ["a line\na line", "a line\nanother line"]


@pytest.mark.parametrize("text", ["", "  \n\u3000"])
def test_a_blank_document_has_none(text: str) -> None:
    assert list(cut(Document("d", "", text))) == []


def test_what_has_no_end_is_cut_anywhere() -> None:
    found = list(cut(Document("d", "t", "長" * 1001), 400))
    assert found[0] == Passage("d", "t", 0, len(found[0].text), found[0].text)
    assert "".join(passage.text for passage in found) == "長" * 1001
    assert max(len(passage.text) for passage in found) <= 400


@given(TEXTS, TEXTS)
def test_marks_are_places_in_the_text(question: str, text: str) -> None:
    found = marks(question, text)
    assert all(0 <= start < end <= len(text) for start, end in found)
    assert all(end < start for (_, end), (start, _) in itertools.pairwise(found))


@pytest.mark.parametrize(("question", "text", "marked"), [
    ("who is at home", "The WHO works from home.", ["WHO", "home"]),
    ("战国无双是谁", "在战国，无双与战国无双。", ["战国", "无双", "战国无双"]),
    ("的", "我的书", ["的"]), ("我的", "的我", []), ("我的", "我", []),
    ("カ・キ", "カメ、カ・キ。", ["カ", "カ", "キ"]), ("カ・", "カ・キ", ["カ"]), ("〆", "〆切", []),
    ("abc", "see ＡＢＣ!", ["ＡＢＣ"]), ("file", "the ﬁle", ["ﬁle"]), ("é", "caf e\u0301", ["e\u0301"]),
    ("οδος", "ΟΔΟΣ", ["ΟΔΟΣ"]), ("ΟΔΟΣ", "η οδος", ["οδος"]), ("가나", "\u1100\u1161\u1102\u1161", [
        "\u1100\u1161\u1102\u1161"]), ("ガス", "ｶﾞｽ", ["ｶﾞｽ"]),
    ("2 km", "2 ㎞ away", ["2", "㎞"]), ("", "text", []), ("text", "", [])])
def test_what_is_marked(question: str, text: str, marked: list[str]) -> None:
    assert [text[start:end] for start, end in marks(question, text)] == marked
