"""Which passages give a pair away, counted by hand."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pellucid.retrieve.near_duplicates import Pair


def test_more_than_half_of_the_runs_of_the_passage() -> None:
    assert Pair("12345", "abcdef").is_given_away("abcdex")  # abc bcd cde of abc bcd cde dex
    assert not Pair("12345", "abcdef").is_given_away("abcdxy")  # abc bcd of four
    assert Pair("12345", "abcdef").is_given_away("1234abcd!")  # 123 234 abc bcd of seven
    assert not Pair("12345", "abcdef").is_given_away("ghijkl")


def test_a_part_of_the_target_gives_it_away_and_case_and_blanks_say_nothing() -> None:
    poem = "床前明月光，疑是地上霜。舉頭望明月，低頭思故鄉。"
    assert Pair("靜夜思", poem).is_given_away("疑是地上霜")
    assert Pair("静夜思", poem).is_given_away(f"靜夜思 {poem}")
    assert Pair("", "The  Cat\nsleeps").is_given_away("the cat sleeps")


def test_a_passage_may_hold_an_answer_and_no_long_target() -> None:
    passage = "The cook saw a horse. Later, on the way to town, the old baker lost the blue umbrella near a bridge, " \
              "and nobody who came along in the evening could tell him who had found it there."
    assert not Pair("What did the baker lose?", "the blue umbrella").is_given_away(passage)
    assert Pair("Tell it.", "the old baker lost the blue umbrella near a bridge").is_given_away(passage)


@given(st.text(max_size=30), st.text(max_size=60))
def test_source_and_target_give_themselves_away(source: str, target: str) -> None:
    pair = Pair(source, target)
    assert pair.is_given_away(source)
    assert pair.is_given_away(target)
