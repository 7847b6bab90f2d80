"""A wide beam is exhaustive search; a narrow one is the textbook's; stopping early changes neither."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pellucid.search.beam_search import IMPOSSIBLE, beam_search, extend, is_identity, largest_penalties
from pellucid.search.beginnings import Beginning
from pellucid.search.constraints import Rules
from pellucid.search.options import SearchOptions, length_penalty
from pellucid.search.search import search

alphas = st.sampled_from([-1.0, 0.0, 0.6, 1.0, 3.0])
prefixes = st.lists(st.sampled_from([1, 4, 5]), max_size=3)


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_a_wide_beam_finds_the_best_of_all_sequences(
    data: Any, lookup_table: Any, every_outcome: Any, specials: Any
) -> None:
    table = lookup_table(vocabulary=data.draw(st.sampled_from([5, 6])), seed=data.draw(st.integers(0, 999)))
    max_length = data.draw(st.integers(1, 4))
    options = SearchOptions(
        beam_size=100,  # more than the 3^4 hypotheses alive at once
        n_best=data.draw(st.sampled_from([1, 2, 7, 100])),
        max_length=max_length,
        min_length=data.draw(st.integers(0, max_length - 1)),
        length_penalty=data.draw(alphas),
        no_repeat_ngram=data.draw(st.integers(0, 3)),
    )
    prefix = [token for token in data.draw(prefixes) if token < table.vocabulary]
    everything = sorted(every_outcome(table, 7, options, prefix), key=lambda each: -each.score)

    (found,) = search(table, [7], 1, options, specials, prefixes=[prefix])

    assert [each.score for each in found] == [each.score for each in everything[: options.n_best]]
    assert all(each in everything for each in found)


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_stopping_early_never_changes_the_answer(
    data: Any, lookup_table: Any, beam_search_without_early_stop: Any, specials: Any
) -> None:
    beam_size = data.draw(st.integers(2, 5))
    table = lookup_table(vocabulary=data.draw(st.integers(5, 7)), seed=data.draw(st.integers(0, 9999)))
    options = SearchOptions(
        beam_size=beam_size,
        n_best=data.draw(st.integers(1, beam_size)),
        max_length=12,
        min_length=data.draw(st.sampled_from([0, 0, 4])),
        length_penalty=data.draw(alphas),
        no_repeat_ngram=data.draw(st.sampled_from([0, 0, 2])),
    )
    prefix = [token for token in data.draw(prefixes) if token < table.vocabulary]
    expected = beam_search_without_early_stop(table, 3, options, prefix)
    assert search(table, [3], 1, options, specials, prefixes=[prefix]) == [expected]


def test_the_early_stop_saves_steps(lookup_table: Any, specials: Any) -> None:
    # The end has probability 0.99 at each step: after one step nothing can be better, whatever follows.
    table = lookup_table(kind=(0.0, 0.0, 0.0, 7.0, 0.0, 0.0))
    options = SearchOptions(beam_size=2, max_length=50, length_penalty=0.0)
    search(table, [0, 1], 2, options, specials)
    assert [name for name, _ in table.calls] == ["step"]


@pytest.mark.parametrize("alpha", [-2.0, 0.0, 0.6, 2.0])
def test_the_bound_divides_by_the_largest_penalty_ahead(alpha: float) -> None:
    penalties = largest_penalties(SearchOptions(max_length=9, length_penalty=alpha))
    assert penalties == [max(length_penalty(m, alpha) for m in range(n + 1, 10)) for n in range(9)]


def test_length_penalty_by_hand() -> None:
    assert length_penalty(1, 0.6) == 1.0
    assert length_penalty(7, 1.0) == 2.0
    assert length_penalty(19, 0.5) == 2.0
    assert length_penalty(100, 0.0) == 1.0


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 999))
def test_a_beam_of_one_is_greedy_search(seed: int, lookup_table: Any, specials: Any) -> None:
    # With α = 0 nothing behind the greedy choice can overtake it; for other α a single beam may look past the end.
    table = lookup_table(seed=seed)
    options = SearchOptions(beam_size=1, max_length=8, length_penalty=0.0)
    rules = Rules(options, specials, (Beginning(),) * 3, (0, 1, 2))
    greedy = search(table, [4, 5, 6], 3, options, specials)
    assert beam_search(table, table.start([4, 5, 6]), rules) == greedy


@pytest.mark.parametrize("beam_size", [1, 2, 3])
def test_ties_go_to_the_lowest_id(beam_size: int, lookup_table: Any, specials: Any) -> None:
    table = lookup_table(kind=(0.0,) * 6)
    options = SearchOptions(beam_size=beam_size, n_best=beam_size, min_length=2, max_length=3, length_penalty=0.0)
    (found,) = search(table, [0], 1, options, specials)
    # 1 before 3 (eos) before 4: (1, 1, 1) is cut, (1, 1) ends, (1, 1, 4) is cut.
    expected = [(1, 1, 1), (1, 1), (1, 1, 4)][:beam_size]
    assert [each.tokens for each in found] == expected
    assert [each.finished for each in found] == [False, True, False][:beam_size]


def test_n_best_is_sorted_and_distinct(lookup_table: Any, specials: Any) -> None:
    options = SearchOptions(beam_size=5, n_best=5, max_length=9)
    for found in search(lookup_table(vocabulary=7), list(range(50)), 50, options, specials):
        assert len(found) == 5
        assert [each.score for each in found] == sorted((each.score for each in found), reverse=True)
        assert len({each.tokens for each in found}) == 5


def test_rows_are_what_the_step_was_promised(lookup_table: Any, specials: Any) -> None:
    table = lookup_table()
    search(table, [5, 1, 9, 2], 4, SearchOptions(beam_size=3, max_length=10), specials)
    place = {5: 0, 1: 1, 9: 2, 2: 3}
    steps = [sentences for name, sentences in table.calls if name == "step"]
    assert steps[0] == [5, 1, 9, 2]
    remaining = set(place)
    for sentences in steps[1:]:
        assert [place[each] for each in sentences] == sorted(place[each] for each in sentences)
        assert all(sentences.count(each) == 3 for each in set(sentences))
        assert set(sentences) <= remaining
        remaining = set(sentences)
    assert len(remaining) < 4, "no sentence was dropped in this example"


def test_what_is_reported_is_what_was_given_whatever_ranks() -> None:
    """In the place of -inf a hypothesis ranks with a finite number, which its log-probability must not show; float64
    is the type in which it ranks."""
    values = torch.tensor([[-torch.inf, -torch.inf], [-1.0, -2.0]], dtype=torch.float64)
    given, ids = values.clone(), torch.tensor([[3, 1], [4, 5]])
    found = extend(values, ids, torch.zeros(2, 1, dtype=torch.float64), 2)
    assert torch.equal(values, given)
    assert found.log_p.tolist() == [[-math.inf, -math.inf], [-1, -2]]
    assert found.totals[0].tolist() == [IMPOSSIBLE, -math.inf]


@pytest.mark.parametrize(("rows", "count", "expected"), [
    ([0, 1, 2], 3, True), ([0, 2, 1], 3, False), ([0, 1], 3, False), ([0, 0, 1], 3, False), ([0, 1, 2], 2, False),
    ([], 0, True)])
def test_rows_that_stay_where_they_are(rows: list[int], count: int, expected: bool) -> None:
    assert is_identity(torch.tensor(rows, dtype=torch.int64), count) is expected
