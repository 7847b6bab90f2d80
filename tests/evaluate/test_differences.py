"""Where systems differ: groups by length and frequency counted by hand, the sentences that differ most, and whose fault
an output is."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from pellucid.evaluate.differences import by_frequency, by_length, count_words, most_different, word_splitter
from pellucid.evaluate.search_errors import search_errors
from pellucid.evaluate.significance import SentenceStatistics, mean_percentage
from pellucid.runs.candidates import Candidate, Generated, Scored


def hits(values: list[float]) -> SentenceStatistics:
    return SentenceStatistics("accuracy", np.array([[value, 1.0] for value in values]), mean_percentage)


def test_groups_by_length_hold_every_sentence_once() -> None:
    lengths = [1, 2, 3, 4, 5, 6, 7, 8]
    groups = by_length(hits([1, 1, 0, 0, 1, 1, 1, 1]), hits([1, 1, 1, 1, 0, 0, 1, 1]), lengths)
    assert [(group.group, group.n) for group in groups] == [
        ("1 to 2 words", 2), ("3 to 4 words", 2), ("5 to 6 words", 2), ("7 to 8 words", 2)]
    assert [group.difference for group in groups] == [0, -100, 100, 0]
    for group in groups:
        assert group.difference == pytest.approx(group.a - group.b)
        assert group.interval[0] <= group.difference <= group.interval[1]


def test_sentences_of_one_length_are_one_group() -> None:
    (group,) = by_length(hits([1, 0]), hits([0, 0]), [7, 7])
    assert (group.group, group.n, group.difference) == ("7 words", 2, 50)
    assert by_length(hits([1]), hits([0]), [1])[0].group == "1 word"


def test_f1_of_words_by_frequency_by_hand() -> None:
    pairs = [("le chat voit", "the cat sees"), ("l'émeu", "the emu")]
    known = Counter({"the": 5, "cat": 1, "sees": 20})
    outputs = (["the cat cat", "the emu"], ["a sees", "the"])
    never, rare, often = by_frequency(outputs, pairs, known, str.split)
    assert (never.group, never.n) == ("never", 1)  # emu; b also wrote "a", which nobody knows
    assert (never.a, never.b) == (100, 0)
    assert (rare.group, rare.n) == ("1 to 9 times", 3)  # the, cat, the
    assert rare.a == pytest.approx(200 * 3 / (4 + 3))
    assert rare.b == pytest.approx(200 * 1 / (1 + 3))
    assert (often.group, often.n, often.a, often.b) == ("10 to 99 times", 1, 0, 100)
    assert by_frequency(outputs, pairs, known | Counter({"sees": 1000}), str.split)[2].group == "1,000 times or more"


def test_intervals_of_words_are_over_sources() -> None:
    """Four references of each source tell no more than one, if they and what is written for them are the same."""
    pairs = [(f"source {i}", "a b") for i in range(12)]
    outputs = (["a b" if i % 3 else "a" for i in range(12)], ["a" if i % 2 else "a b" for i in range(12)])
    (once,) = by_frequency(outputs, pairs, Counter(), str.split)
    (again,) = by_frequency((outputs[0] * 4, outputs[1] * 4), pairs * 4, Counter(), str.split)
    assert (again.n, again.difference) == (4 * once.n, once.difference)
    assert again.interval == pytest.approx(once.interval)


def test_words_are_those_of_bleu() -> None:
    assert word_splitter(["A dog."], False)("A dog, here.") == ["A", "dog", ",", "here", "."]
    assert word_splitter(["A dog."], True)("A dog.") == ["a", "dog", "."]
    assert word_splitter(["一只狗"], False)("一只狗") == ["一", "只", "狗"]
    assert count_words(["a b a", "b"], str.split) == {"a": 2, "b": 2}


def test_the_sentences_that_differ_most_come_first_and_equal_ones_never() -> None:
    pairs = [(f"source {i}", f"reference {i}") for i in range(4)]
    outputs = (["a0", "a1", "a2", "a3"], ["b0", "b1", "b2", "b3"])
    found = most_different(hits([1.0, 0.5, 0.2, 0.0]), hits([1.0, 0.4, 0.9, 1.0]), pairs, outputs)
    assert [one.line for one in found] == [4, 3, 2]
    assert (found[0].source, found[0].reference, found[0].output_a, found[0].output_b) == (
        "source 3", "reference 3", "a3", "b3")
    assert (found[0].a, found[0].b) == (0, 100)


def generated(tokens: str, log_probability: float, finished: bool = True) -> Generated:
    return Generated((Candidate(tokens.replace(" ", ""), tuple(tokens.split()), 0.0, log_probability, finished),))


def scored(tokens: str, log_probability: float) -> Scored:
    pieces = (*tokens.split(), "</s>")
    return Scored(pieces, (log_probability, *[0.0] * (len(pieces) - 1)))


def run_that_scores(outputs: list[Scored], alpha: float) -> Any:
    return SimpleNamespace(score=lambda sources, texts, cut: outputs,
                           config=SimpleNamespace(decode=SimpleNamespace(length_penalty=alpha)))


def test_whose_fault_an_output_is_by_hand() -> None:
    references = [scored("", -9.0), scored("x y", -1.0), scored("x y", -1.0), scored("x y", -3.0),
                  scored("x y z", -2.5), scored("x y", -2.0)]
    outputs = [generated("", 0.0), generated("x y", -1.0), generated("x z", -2.0), generated("x z", -2.0),
               generated("x", -2.0), generated("x z", -2.0)]
    again = [scored("", 0.0), scored("x y", -1.0), scored("x z", -2.0), scored("x z", -2.0), scored("x", -2.0),
             scored("x z", -2.0)]  # the last is as probable as its reference: nothing better was missed
    found = search_errors(run_that_scores(again, 5.0), [" ", "s", "s", "s", "s", "s"], outputs, references)
    assert (found.n, found.exact) == (5, 1)  # an empty source is no question
    assert (found.search_errors, found.model_errors, found.share) == (1, 3, 0.2)
    assert found.search_errors_by_score == 2  # with so high a penalty, the longer reference beats the short output


def test_an_output_that_its_text_does_not_give_back_keeps_the_probability_of_the_search() -> None:
    references, outputs = [scored("x y", -3.0)], [generated("a b", -2.0)]
    split_otherwise = [scored("ab", -7.0)]
    found = search_errors(run_that_scores(split_otherwise, 0.0), ["s"], outputs, references)
    assert (found.search_errors, found.model_errors) == (0, 1)


def test_an_output_that_was_stopped_is_not_charged_for_an_end_that_it_does_not_have() -> None:
    references, again = [scored("x y", -3.0)], [scored("x z", -7.0)]
    for finished, errors in ((True, 1), (False, 0)):
        found = search_errors(run_that_scores(again, 0.0), ["s"], [generated("x z", -2.0, finished)], references)
        assert found.search_errors == errors
