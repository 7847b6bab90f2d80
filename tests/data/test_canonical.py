"""The canonical form: one for all that some tokenizer reads alike, and different ones for what nobody takes for one."""

from __future__ import annotations

import itertools
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pellucid.data.canonical import canonical
from pellucid.data.tokenizers import word
from pellucid.data.tokenizers.interface import Tidy

TIDIES = [Tidy(*asked) for asked in itertools.product((False, True), repeat=2)]


@pytest.mark.parametrize("twins", [
    ("Help me!", "help me !", "HELP, me", " Help\u00a0me…"), ("don't", "dont", "Don’t"), ("1 12", "1,  12", "1\t12."),
    ("我爱你。", "我 爱 你", "我爱你"), ("ｆｕｌｌ　ｗｉｄｅ", "full wide"),
    ("caf\u00e9", "cafe\u0301", "CAF\u00c9"), ("Straße", "STRASSE"), ("soft\u00adhyphen\u200b", "softhyphen"),
    ("กินข้าว", "กิน ข้าว"),
    ("( ( ) )", "(())"), ("a\ud800", "A \ud800"), ("ΟΔΟΣ", "οδος", "οδοσ")])
def test_twins_have_one_form(twins: tuple[str, ...]) -> None:
    assert len({canonical(text) for text in twins}) == 1


@pytest.mark.parametrize("texts", [
    ("1 12", "11 2", "112"), ("2 + 3", "2 < 3", "2 3"), ("good 😀", "good 😡", "good"), ("กิน", "กัน"), ("र", "रा"),
    ("!", "?", ""), ("(())", "()()"), ("cafe", "café"), ("a b", "a c"), ("$5", "5 €")])
def test_what_differs_in_more_than_writing_has_different_forms(texts: tuple[str, ...]) -> None:
    assert len({canonical(text) for text in texts}) == len(texts)


@settings(deadline=None)
@given(st.text(), st.sampled_from(TIDIES))
def test_texts_that_a_tokenizer_reads_alike_have_one_form(text: str, tidy: Tidy) -> None:
    """Whatever it is told to take away, and however it splits; but for text without a letter or digit."""
    read = tidy(text)
    if any(character.isalnum() for character in canonical(text)):
        assert canonical(read) == canonical(text)
        assert canonical(" ".join(word.RULE.split(read))) == canonical(text)


def test_every_character_is_read_alike_in_either_case_and_as_punctuation() -> None:
    """In all planes; the dotless i alone has a capital that is another letter's."""
    cased = [c for c in map(chr, range(sys.maxunicode + 1)) if not c == c.lower() == c.upper() == Tidy(True, True)(c)]
    assert len(cased) > 3000
    assert [c for c in cased if canonical(f"a{c}b") != canonical(TIDIES[-1](f"a{c}b"))] == []
    assert [c for c in cased if canonical(f"a{c}b") != canonical(f"a{c}b".upper())] == ["ı"]
