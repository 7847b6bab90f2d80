"""Words as hashes are the words that a regular expression finds, each once a line."""

from __future__ import annotations

import re

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pellucid.doctor.words import words_of

_PLAIN = re.compile(r"[\u0e00-\u0eff\u2e80-\u9fff]|(?:(?![\u0e00-\u0eff\u2e80-\u9fff])[^\W_])+|[^\w\s]")
_LINE = st.text(st.sampled_from("aAbB12٣日本กé_-,'. \t\u2028ßİ\ud800𝒳"), max_size=30)


def one(word: str) -> int:
    """The hash of one word."""
    (found,) = words_of([word]).ids.tolist()
    return int(found)


@given(st.lists(_LINE, max_size=6))
def test_the_words_are_those_of_a_regular_expression(texts: list[str]) -> None:
    found = words_of(texts)
    assert len(found) == len(texts)
    for i, text in enumerate(texts):
        expected = {one(word) for word in _PLAIN.findall(text.lower())}
        assert found.part(i, i + 1).ids.tolist() == sorted(expected)


def test_words_are_lower_case_marks_apart_and_each_once() -> None:
    found = words_of(["The cat's THE cat, 12!", "日本 ok日", "", "a b"])
    expected = [["the", "cat", "'", "s", ",", "12", "!"], ["日", "本", "ok"], [], ["a", "b"]]
    assert found.sizes.tolist() == [7, 3, 0, 2]
    assert found.lines.tolist() == [0] * 7 + [1] * 3 + [3] * 2
    for i, words in enumerate(expected):
        assert found.part(i, i + 1).ids.tolist() == sorted(map(one, words))


def test_the_last_bit_is_that_of_numbers() -> None:
    assert [one(word) % 2 for word in ("2026", "٣", "20a6", "x", "日", "!")] == [1, 1, 0, 0, 0, 0]


def test_different_words_differ() -> None:
    words = [f"w{i}x{i * i}" for i in range(20_000)] + ["ab", "ba", "a" * 80, "a" * 81]
    assert len(np.unique(words_of(words).ids)) == len(words)


def test_so_many_words_of_a_line_at_most() -> None:
    found = words_of(["a b c d e", "f", "g h i"], most=2)
    assert found.sizes.tolist() == [2, 1, 2]
    assert set(found.part(0, 1).ids.tolist()) <= set(map(one, "abcde"))
    assert set(found.part(2, 3).ids.tolist()) <= set(map(one, "ghi"))
