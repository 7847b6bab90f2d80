"""A beginning may be said in several ways: every hypothesis takes one of them, and the best is found among all."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pellucid.search.beginnings import Beginning, Choice, of_tokens
from pellucid.search.options import Hypothesis, SearchOptions, Specials
from pellucid.search.search import search


def ends(*tokens: int) -> Any:
    return np.array(tokens, dtype=np.int64)


# 4 4 …, or 4 5 …, or 5 …: as "dorm" is "do" "rm", "do" "rment" or "dormira".
TWO_WAYS = Beginning((Choice({4: 1}, ends(5)), Choice({}, ends(4, 5))))


def begins(hypothesis: Hypothesis) -> bool:
    return hypothesis.tokens[:1] == (5,) or hypothesis.tokens[:2] in ((4, 4), (4, 5))


def test_a_walk_by_hand() -> None:
    assert TWO_WAYS.walk([]) == (0, TWO_WAYS.choices[0])
    assert TWO_WAYS.walk([4]) == (1, TWO_WAYS.choices[1])
    assert TWO_WAYS.walk([5]) == (1, None)
    assert TWO_WAYS.walk([4, 5]) == (2, None)
    assert TWO_WAYS.walk([5, 4, 4]) == (1, None)
    assert TWO_WAYS.walk([4, 5, 1, 1]) == (2, None)
    assert Beginning().walk([]) == (0, None)
    assert Beginning().walk([7]) == (0, None)
    seven_eight = of_tokens([7, 8])
    assert seven_eight.walk([7]) == (1, seven_eight.choices[1])
    assert seven_eight.walk([7, 8, 9]) == (2, None)
    assert TWO_WAYS.choices[0].tokens.tolist() == [4, 5]


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10_000), kind=st.sampled_from(["random", "wild"]), beam=st.integers(1, 4),
       draw=st.booleans())
def test_every_hypothesis_begins_so(lookup_table: Any, specials: Specials, seed: int, kind: str, beam: int,
                                    draw: bool) -> None:
    table = lookup_table(seed=seed, kind=kind)
    options = SearchOptions(beam_size=beam, max_length=4, n_best=beam, sample=draw, no_repeat_ngram=2, min_length=3)
    found = search(table, [0, 1, 2], 3, options, specials, prefixes=[TWO_WAYS, [], [4, 4]])
    assert all(begins(one) for one in found[0])
    assert all(one.tokens[:2] == (4, 4) for one in found[2])
    assert found[1] == search(table, [1], 1, options, specials, indices=[1])[0]


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_the_best_of_all_ways_is_found(lookup_table: Any, specials: Specials, seed: int,
                                       every_outcome: Callable[..., Iterator[Hypothesis]]) -> None:
    table = lookup_table(seed=seed)
    options = SearchOptions(beam_size=300, max_length=4)
    (best,), = search(table, [0], 1, options, specials, prefixes=[TWO_WAYS])
    possible = [one for one in every_outcome(table, 0, options) if begins(one)]
    assert best.score == pytest.approx(max(one.score for one in possible), abs=1e-5)


def test_what_names_a_special_or_no_token_is_refused(lookup_table: Any, specials: Specials) -> None:
    for choice, said in ((Choice({3: 1}), "other than"), (Choice({}, ends(2)), "other than"),
                         (Choice({}, ends(-1)), "other than"), (Choice({}, ends(6)), "not in the vocabulary")):
        begun = Beginning((choice,))
        with pytest.raises(ValueError, match=said):
            search(lookup_table(), [0], 1, SearchOptions(), specials, prefixes=[begun])
