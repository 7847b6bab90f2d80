"""Which texts say the same, counted by hand."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pellucid.retrieve.near_duplicates import Known


def test_more_than_half_of_the_runs_of_the_shorter_one() -> None:
    assert Known("abcdef").is_near("abcdexyz")  # abc bcd cde of abc bcd cde def
    assert not Known("abcdef").is_near("abcdxyz")  # abc bcd of four
    assert not Known("abcdef").is_near("ghijkl")


def test_a_part_is_near_to_the_whole_and_case_and_blanks_say_nothing() -> None:
    poem = "床前明月光，疑是地上霜。舉頭望明月，低頭思故鄉。"
    assert Known(poem).is_near("疑是地上霜")
    assert Known("疑是地上霜").is_near(poem)
    assert Known("The  Cat\nsleeps").is_near("the cat sleeps")


@given(st.text(max_size=30), st.text(max_size=30))
def test_a_text_is_near_to_itself_and_nearness_has_no_direction(a: str, b: str) -> None:
    assert Known(a).is_near(a)
    assert Known(a).is_near(b) == Known(b).is_near(a)
