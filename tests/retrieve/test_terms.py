"""Terms: Han characters and pairs, words elsewhere, the same in every spelling that looks the same."""

from __future__ import annotations

import unicodedata
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pellucid.retrieve import terms
from pellucid.retrieve.terms import distinct_terms, folded, marks, terms_of, uncut


def counted(text: str) -> Counter[int]:
    return Counter(terms_of([text])[0].tolist())


def test_characters_and_pairs_of_neighbours() -> None:
    one, two, three = map(ord, "天地人")
    assert counted("天地，人天地") == {one: 2, two: 2, three: 1, one << 21 | two: 2, three << 21 | one: 1}


def test_words_are_terms_whole() -> None:
    assert len(counted("the cat, the dog; don't")) == 5  # the cat dog don t
    assert counted("the cat the").total() == 3
    assert counted("snake_case") == counted("snake case")
    assert counted("第3章abc") == counted("第") + counted("3") + counted("章") + counted("abc")


def test_long_words_are_terms_too_and_not_kept() -> None:
    kept = terms._kept.cache_info().currsize
    assert counted("q" * 65 + " " + "q" * 5000 + " " + "q" * 65).most_common(1)[0][1] == 2
    assert terms._kept.cache_info().currsize == kept
    assert counted("q" * 64).total() == 1
    assert terms._kept.cache_info().currsize == kept + 1


@pytest.mark.parametrize("word", ["किताब", "क्षि", "مُحَمَّد", "שָׁלוֹם", "தமிழ்", "বাংলা", "x\u0301y", "н\u0435\u0301", "ދިވެހި",
                                  "ସ୍ୱର", "бо\u0301льший"])
def test_marks_are_of_the_word_that_they_stand_in(word: str) -> None:
    assert len(counted(word)) == 1
    assert counted(f"{word} {word}, abc\u0301").total() == 3
    assert counted(word) != counted(unicodedata.normalize("NFC", word)[0])
    assert marks(word, f"- {word}.") == [(2, 2 + len(word))]


@pytest.mark.parametrize("text", ["ภาษาไทย", "ພາສາ", "မြန်မာ", "ភាសាខ្មែរ"])
def test_other_scripts_without_spaces_are_as_chinese(text: str) -> None:
    n = len(folded(text))
    assert counted(text).total() == 2 * n - 1
    assert counted(f"{text}๑๒ a") == counted(text) + counted("๑๒") + counted("a")
    assert marks(text[:3], f"a {text}")[0][0] == 2


@pytest.mark.parametrize(("one", "other"), [
    ("ＡＢＣ", "abc"), ("Å", "A\u030a"), ("ﬁle", "FILE"), ("㌔", "キロ"), ("ｶﾞ", "ガ"), ("ПРИВЕТ", "привет")])
def test_what_looks_the_same_is_the_same(one: str, other: str) -> None:
    assert counted(one) == counted(other) != {}


@pytest.mark.parametrize("text", ["", " ", "，。！？", "👩‍👧", "\0", "...", "・ー"[:1]])
def test_marks_and_signs_are_none(text: str) -> None:
    assert counted(text) == {}


@given(st.lists(st.text(max_size=20), min_size=1, max_size=8))
def test_of_many_texts_it_is_as_of_each_alone(texts: list[str]) -> None:
    terms, places = terms_of(texts)
    for number, text in enumerate(texts):
        assert Counter(terms[places == number].tolist()) == counted(text)
    assert int(terms.max(initial=0)) < 2**48
    assert distinct_terms(texts[0]).tolist() == sorted(counted(texts[0]))


@pytest.mark.parametrize(("text", "cut", "whole"), [
    ("the te\u0301a is", (0, 6), "the te\u0301a"), ("the te\u0301a is", (7, 11), "te\u0301a is"),
    ("हिन्दी में", (0, 3), "हिन्दी"), ("كَتَبَ هو", (0, 1), "كَتَبَ"),
    ("a 👩‍👩‍👧 b", (2, 3), "👩‍👩‍👧"), ("a 👩‍👩‍👧 b", (6, 8), "👩‍👩‍👧 "), ("ok 👍🏽!", (0, 4), "ok 👍🏽"),
    ("👍🏻👍🏿", (0, 3), "👍🏻👍🏿"), ("👍🏻👍🏿", (1, 2), "👍🏻"),
    ("1 ☕\ufe0f!", (0, 3), "1 ☕\ufe0f"), ("a☕\ufe0f b", (2, 5), "☕\ufe0f b"),
    ("在河内大学", (1, 3), "河内"), ("the cat", (4, 7), "cat"), ("", (0, 0), "")])
def test_what_is_quoted_cuts_no_word_and_no_character(text: str, cut: tuple[int, int], whole: str) -> None:
    start, end = uncut(text, *cut)
    assert text[start:end] == whole
