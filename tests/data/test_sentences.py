"""Text divided at the ends of sentences, in several scripts; nothing is lost, and every part fits."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pellucid.data.sentences import divide, sentences


@pytest.mark.parametrize("marked", [
    "One is here. |Two is here! |Is three? |Yes.", "He said “Stop.” |She did.", "the cat sleeps . |the dog runs .",
    "it rains. |it snows! |who knows", "Dr. Smith and J. R. Tolkien came, e.g. today. |They left at 3.14 p.m. or so.",
    "Das ist z.B. gut. |Wirklich!", "Er kam am 3. mai nicht. |Ja.", "¿Qué? |¡No! |Sí.", "Wait... |What? |no… yes.",
    "我很好。|你呢？|“走吧！”|他说", "你好！！|再见。", "値は３．１４です．|次", "今日は。 |明日は。", "यह है। |वह है।",
    "هذا جيد؟ |نعم.", "나는 간다. |너는 온다.", "Это так. |Нет!", "www.example.com is a site. |v2.0 too.",
    "Made in the USA. |He likes plan b. |Then wow! |he left .  |then it ended.", "no end at all", ""])
def test_by_hand(marked: str) -> None:
    assert sentences(marked.replace("|", "")) == marked.split("|")


@settings(max_examples=300, deadline=None)
@given(text=st.text("ab A.!?。，, \t…”3", max_size=40), size=st.integers(1, 12))
def test_nothing_is_lost_and_all_fits(text: str, size: int) -> None:
    parts = divide(text, lambda part: len(part) <= size)
    assert "".join(parts) == text
    assert all(len(part) <= size for part in parts)
    assert "".join(sentences(text)) == text


def test_what_is_too_long_is_cut_between_clauses_then_words_then_anywhere() -> None:
    def fits(part: str) -> bool:
        return len(part) <= 16

    clauses, words = "a first clause, a second one, third. Next.", "eight small words that have no mark x"
    assert divide(clauses, fits) == ["a first clause, ", "a second one, ", "third. ", "Next."]
    assert divide(words, fits) == ["eight ", "small words ", "that have ", "no mark x"]
    assert divide("abcdefghijklmnopqrstuvwxyz", fits) == ["abcdefghijklm", "nopqrstuvwxyz"]


def test_a_long_text_takes_no_longer_for_each_word() -> None:
    text = "A word and more. " * 60_000
    assert len(sentences(text)) == 60_000


@pytest.mark.parametrize("part", ["!", ".", '!"', '"', "。", "．1", "a!", " "])
def test_nor_does_one_that_was_made_to(part: str) -> None:
    text = part * (200_000 // len(part)) + "x"
    assert "".join(sentences(text)) == text
