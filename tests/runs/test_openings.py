"""Prefixes as text: kept to the byte, their last words finished, whatever the tokenizer."""

from __future__ import annotations

import functools
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pellucid.config import TokenizerConfig
from pellucid.data.tokenizers.build import Tokenizers, train_tokenizers
from pellucid.data.tokenizers.interface import UNK
from pellucid.runs.openings import Opening, Speller

TEXT = ["marc dort", "marc dormira", "marc a dormi dans la maison", "elle dormira bien", "le chat dort", "il a ri ."]
KINDS: dict[str, Any] = {"word": {"kind": "word"}, "character": {"kind": "character"},
                         "bpe": {"algorithm": "bpe", "vocab_size": 40, "character_coverage": 1.0},
                         "unigram": {"algorithm": "unigram", "vocab_size": 27, "character_coverage": 1.0},
                         "spacy": {"kind": "spacy", "target_language": "fr"}}


@functools.cache
def made(kind: str, **more: Any) -> Tokenizers:
    return train_tokenizers(TokenizerConfig(**KINDS[kind] | more), [(text, text) for text in TEXT * 9], "seq2seq")


def continuations(opening: Opening, limit: int = 2000) -> list[list[int]]:
    """Sequences of tokens that the opening lets through, up to its end."""
    found, open_rows = [], [list[int]()]
    while open_rows and len(found) < limit:
        row = open_rows.pop()
        choice = opening.beginning.walk(row)[1]
        if choice is None:
            found.append(row)
        else:
            open_rows += [[*row, int(token)] for token in choice.tokens]
    return found


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("prefix", "whole"), [
    ("marc dorm", "marc dormira"), ("marc ", "marc dort"), ("m", "marc dort"), ("marc d", "marc dort"),
    ("marc", "marc dort"), ("marc dormira", "marc dormira"), ("elle dormira b", "elle dormira bien")])
def test_what_is_seen_in_training_can_follow(kind: str, prefix: str, whole: str) -> None:
    opening, target = Speller(made(kind).target).opening(prefix), made(kind).target
    ids = target.encode(whole)
    length, more = opening.beginning.walk(ids)
    assert more is None
    walked: list[int] = []
    for token in ids[:length]:  # each is among those that may follow
        choice = opening.beginning.walk(walked)[1]
        assert choice is not None
        assert token in choice.tokens
        walked.append(token)
    assert opening.say(ids) == whole
    assert opening.unknown == ()


@pytest.mark.parametrize("kind", ["word", "character", "bpe", "unigram"])
@settings(max_examples=60, deadline=None)
@given(prefix=st.text("marcdo il.☃", max_size=9))
def test_every_output_begins_with_the_prefix_to_the_byte(kind: str, prefix: str) -> None:
    target = made(kind).target
    opening = Speller(target).opening(prefix)
    end = target.encode("chat dort")
    for row in continuations(opening, 40):
        assert opening.say(row).startswith(prefix)
        assert len(opening.say([*row, *end])) > len(prefix)
        assert opening.say([*row, *end]).startswith(opening.say(row))
    assert bool(opening.unknown) == (UNK in [token for row in continuations(opening, 1) for token in row])


@pytest.mark.parametrize("kind", ["character", "bpe", "unigram"])
def test_all_that_is_let_through_spells_the_prefix(kind: str) -> None:
    target = made(kind).target
    rows = continuations(Speller(target).opening("marc dorm"), 10**6)
    assert len(rows) == len({tuple(row) for row in rows})
    assert all(target.decode(row).startswith("marc dorm") for row in rows)


def test_a_vocabulary_of_words_finishes_those_that_it_has_and_keeps_the_others() -> None:
    target = made("word").target
    finished = continuations(Speller(target).opening("marc dorm"))
    assert sorted(target.decode(row) for row in finished) == ["marc dormi", "marc dormira"]
    unknown = Speller(target).opening("marc xyz")
    assert (continuations(unknown), unknown.unknown) == ([[target.encode("marc")[0], UNK]], ("xyz",))
    assert unknown.say([*continuations(unknown)[0], *target.encode("dort")]) == "marc xyz dort"
    assert unknown.say([]) == "marc xyz"  # the maximum length came first


def test_text_without_spaces_goes_on_too() -> None:
    made = train_tokenizers(TokenizerConfig(vocab_size=24, character_coverage=1.0),
                            [("我喜欢猫", "我喜欢猫"), ("他喜欢狗", "他喜欢狗")] * 9, "seq2seq")
    opening = Speller(made.target).opening("我喜")
    assert opening.say(made.target.encode("我喜欢猫")) == "我喜欢猫"
    assert opening.beginning.walk(made.target.encode("我喜欢猫"))[1] is None


def test_what_is_tidied_before_the_tokenizer_stays_in_the_text() -> None:
    target = made("word", lowercase=True, strip_punctuation=True).target
    opening = Speller(target).opening("  Marc,  Dorm")
    assert opening.say(target.encode("marc dormira dort")) == "  Marc,  Dormira dort"


def test_nothing_is_asked_for_by_nothing() -> None:
    target = made("bpe").target
    for text in ("", " "):
        opening = Speller(target).opening(text)
        assert opening.beginning.choices == ()
        assert opening.say(target.encode("le chat")) == text + "le chat"
