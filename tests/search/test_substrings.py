"""An output that is held to texts is a run of neighbours in one of them, and any such run can be one."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from pellucid.search.options import SearchOptions, Specials
from pellucid.search.search import search
from pellucid.search.substrings import substrings_of

TEXTS = st.lists(st.lists(st.integers(4, 6), max_size=7), max_size=3)
EOS = Specials().eos


def pieces(texts: Sequence[Sequence[int]]) -> set[tuple[int, ...]]:
    """All runs of neighbours, the empty one among them."""
    return {()} | {tuple(text[i:j]) for text in texts for j in range(len(text) + 1) for i in range(j)}


@given(TEXTS)
def test_what_can_be_said_is_what_stands_in_a_text(texts: list[list[int]]) -> None:
    beginning, allowed = substrings_of(texts, EOS), pieces(texts)
    longest = max(map(len, allowed))
    for length in range(min(longest, 4) + 2):
        for tokens in itertools.product((4, 5, 6), repeat=length):
            walked, choice = beginning.walk(tokens)
            assert (choice is not None) == (tokens in allowed)
            if choice is not None:
                assert walked == length
                assert choice.ends.tolist() == [EOS]
                assert {(*tokens, token) for token in choice.ways} == {one for one in allowed if one[:-1] == tokens
                                                                       and len(one) == length + 1}


@given(st.lists(st.lists(st.integers(4, 5), max_size=40), max_size=3))
def test_there_are_at_most_twice_as_many_states_as_tokens(texts: list[list[int]]) -> None:
    tokens = sum(map(len, texts)) + len(texts)
    assert len(substrings_of(texts, EOS).choices) <= 2 * tokens + 1
    assert max(map(len, texts), default=0) < len(substrings_of(texts, EOS).choices), "rules hold to the end"


@settings(max_examples=60, deadline=None)
@given(texts=TEXTS, seed=st.integers(0, 10_000), beam=st.integers(1, 4), draw=st.booleans(), least=st.integers(0, 3))
def test_every_hypothesis_is_a_piece(lookup_table: Any, specials: Specials, texts: list[list[int]], seed: int,
                                     beam: int, draw: bool, least: int) -> None:
    options = SearchOptions(beam_size=beam, max_length=5, n_best=beam, sample=draw, min_length=least)
    (found, free) = search(lookup_table(seed=seed, vocabulary=7), [0, 1], 2, options, specials,
                           prefixes=[substrings_of(texts, specials.eos), []])
    assert {one.tokens for one in found} <= pieces(texts)
    assert free == search(lookup_table(seed=seed, vocabulary=7), [1], 1, options, specials, indices=[1])[0]


@settings(max_examples=40, deadline=None)
@given(texts=st.lists(st.lists(st.integers(4, 6), max_size=3), max_size=2), seed=st.integers(0, 10_000))
def test_the_best_piece_is_found(lookup_table: Any, specials: Specials, texts: list[list[int]], seed: int) -> None:
    table, held = lookup_table(seed=seed, vocabulary=7), substrings_of(texts, specials.eos)
    options = SearchOptions(beam_size=20, max_length=5, n_best=20, length_penalty=0.0)
    found = search(table, [0], 1, options, specials, prefixes=[held])[0]
    assert {one.tokens for one in found} == pieces(texts)
    assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)
