"""A text in pieces: nothing is lost, no piece is blank, and what stands between them stays."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pellucid.serve.passages import Passage, cut

BREAKS = "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"
texts = st.one_of(st.text(max_size=60), st.text("ab A.!?。，,\n\r\t\u2028\u00a0 我好…”3", max_size=60))


@settings(max_examples=500, deadline=None)
@given(text=texts, size=st.integers(1, 30))
@example(text="\r\n a\r\n\r\nb ", size=9)
@example(text="\ud800", size=1)
def test_the_pieces_themselves_give_the_text_back(text: str, size: int) -> None:
    passage = cut(text, lambda piece: len(piece) <= size)
    assert passage.put(passage.pieces) == text
    assert len(passage.gaps) == len(passage.pieces) + 1
    assert all(not gap.strip() for gap in passage.gaps)
    for piece in passage.pieces:
        assert piece == piece.strip() != ""
        assert len(piece) <= size
        assert not set(piece) & set(BREAKS)


@settings(max_examples=200, deadline=None)
@given(text=texts)
def test_what_stands_between_stays_whatever_the_translations_are(text: str) -> None:
    passage = cut(text, lambda piece: True)
    put = passage.put(["x"] * len(passage.pieces))
    assert put.count("x") == len(passage.pieces)
    assert [c for c in put if c in BREAKS] == [c for c in text if c in BREAKS]
    assert put[: len(passage.gaps[0])] == passage.gaps[0]
    assert put.endswith(passage.gaps[-1])


@pytest.mark.parametrize(("text", "pieces", "put"), [
    ("One. Two!  Three?", "One.|Two!|Three?", "<One.> <Two!>  <Three?>"),
    ("  a\n\n\tb \r\n", "a|b", "  <a>\n\n\t<b> \r\n"),
    ("Dr. Smith came.\nHe left.", "Dr. Smith came.|He left.", "<Dr. Smith came.>\n<He left.>"),
    ("- milk\n- bread\u2028done", "- milk|- bread|done", "<- milk>\n<- bread>\u2028<done>"),
    ("我很好。你呢？", "我很好。|你呢？", "<我很好。> <你呢？>"),
    (" \n ", "", " \n "), ("", "", "")])
def test_by_hand(text: str, pieces: str, put: str) -> None:
    passage = cut(text, lambda piece: True)
    assert "|".join(passage.pieces) == pieces
    assert passage.put([f"<{piece}>" for piece in passage.pieces]) == put


def test_spaces_between_sentences_are_those_of_the_script() -> None:
    assert cut("我很好。你呢？\n走吧！", lambda piece: True).put(["Fine.", "You?", "Go!"]) == "Fine. You?\nGo!"
    assert cut("Fine. You?  Go!", lambda piece: True).put(["我很好。", "你呢？", "走吧！"]) == "我很好。你呢？  走吧！"
    assert cut("Fine. You?", lambda piece: True).put(["", "Tu ?"]) == " Tu ?"


def test_what_is_too_long_is_cut_further() -> None:
    passage = cut("a first clause, a second one, third. Next.", lambda piece: len(piece) <= 15)
    assert passage == Passage(("a first clause,", "a second one,", "third.", "Next."), ("", " ", " ", " ", ""))
