"""EM and F1 of answers: cases computed by hand from the definitions of SQuAD and CMRC 2018."""

import math

import pytest

from pellucid.evaluate.reading import (
    definition_of,
    exact_match,
    f1_score,
    longest_run,
    reading_statistics,
    units,
)
from pellucid.evaluate.significance import corpus_score


@pytest.mark.parametrize(("answer", "reference", "em", "f1"), [
    ("The red hat.", "red hat", 1, 1), ("hat red", "red hat", 0, 1), ("a red hat", "red coat", 0, 0.5),
    ("in the kitchen", "kitchen", 0, 2 / 3), ("", "", 1, 1), ("the", "", 1, 1), ("", "hat", 0, 0), ("x", "y", 0, 0)])
def test_squad(answer: str, reference: str, em: float, f1: float) -> None:
    assert exact_match(answer, reference, "squad") == em
    assert math.isclose(f1_score(answer, reference, "squad"), f1)


@pytest.mark.parametrize(("answer", "reference", "em", "f1"), [
    ("1919年6月15日", "1919年6月15日。", 1, 1), ("《红楼梦》", "红楼梦", 1, 1), ("梦楼红", "红楼梦", 0, 1 / 3),
    ("河内大修道院", "修道院", 0, 2 * 3 / 9),  # the run of three, of six and three units
    ("NBA球队", "nba", 0, 2 * 1 / 4),  # a word is one unit
    ("北京", "上海", 0, 0), ("", "北京", 0, 0)])
def test_cmrc(answer: str, reference: str, em: float, f1: float) -> None:
    assert exact_match(answer, reference, "cmrc2018") == em
    assert math.isclose(f1_score(answer, reference, "cmrc2018"), f1)


def test_units_are_han_characters_and_words() -> None:
    assert units("于1919年，任 Manager!") == ["于", "1919", "年", "任", "manager", "!"]
    assert longest_run("abcde", "xbcdy") == 3
    assert longest_run("", "a") == 0


def test_the_best_reference_counts_and_passages_are_drawn_whole() -> None:
    found = reading_statistics(["hat", "", "key"], [["coat", "a hat"], [], []], "squad", ["p", "p", "q"])
    assert corpus_score(found["em"]) == corpus_score(found["f1"]) == pytest.approx(200 / 3)
    assert found["f1"].by_source.tolist() == [[2, 2], [0, 1]]
    with pytest.raises(ValueError, match="2 answers"):
        reading_statistics(["a", "b"], [["a"]], "squad", ["p"])


def test_the_definition_follows_from_the_language_or_the_answers() -> None:
    assert definition_of("zh-Hans", ["hat"]) == definition_of(None, ["北京", "NBA"]) == "cmrc2018"
    assert definition_of("ZH", ["hat"]) == definition_of("cmn-Hant", []) == definition_of("zho", []) == "cmrc2018"
    assert definition_of(None, ["1919年6月15日", "3,000,000!"]) == "cmrc2018"  # numbers and marks are of no language
    assert definition_of("en", ["北京"]) == definition_of(None, ["hat", "北"]) == definition_of(None, []) == "squad"
