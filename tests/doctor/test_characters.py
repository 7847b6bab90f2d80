"""Text decoded twice is told from text that only looks odd."""

from __future__ import annotations

from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pellucid.doctor.characters import fault_of, is_mojibake, tally_characters
from pellucid.doctor.finding import Tally


@pytest.mark.parametrize(("text", "kind"), [
    ("fÃ¼r uns", "mojibake"), ("itâ€™s", "mojibake"), ("naÃ¯ve", "mojibake"), ("Â© 2026", "mojibake"),
    ("ä½\xa0å¥½", "mojibake"), ("f\ufffdr uns", "replacement_character"), ("a\x00b", "control_character"),
    ("a\u2028b", "control_character"), ("a\x85b", "control_character"), ("a\u200bb", "invisible_character"),
    ("\ufeffa", "invisible_character"), ("so\xadgar", "invisible_character"),
    ("cÅ“ur", "mojibake"), ("bÅ‚Ä™kit", "mojibake"), ("ðŸ™‚", "mojibake"),
    ("LIBERTÉ… ÉGALITÉ” – « été », «été»…", ""), ("«\xa0été\xa0» !", ""),
    ("für uns", ""), ("Spaß» und «Ä»", ""), ("il l’a «dit à l’été»", ""), ("a\tb", ""), ("你好", ""), ("Ã", ""),
    ("می\u200cخواهم", ""), ("100 €", "")])
def test_one_text(text: str, kind: str) -> None:
    assert fault_of(text) == kind


@given(st.text(st.characters(min_codepoint=0xC0, max_codepoint=0xFF), min_size=1))
def test_all_accented_letters_decoded_twice_are_told(text: str) -> None:
    assert is_mojibake(text.encode().decode("latin-1"))


def test_lines_are_tallied_by_the_worst_that_they_show() -> None:
    tallies: dict[str, Tally] = defaultdict(Tally)
    tally_characters(["ok", "fÃ¼r\ufffd", "a\x07", "ö"], [1, 2, 3, 4], tallies)
    assert {kind: tally.numbers for kind, tally in tallies.items()} == {"mojibake": [2], "control_character": [3]}
