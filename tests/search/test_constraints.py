"""Each rule forbids what it says, and nothing else."""

from __future__ import annotations

import math

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pellucid.search.beginnings import Beginning, Choice
from pellucid.search.constraints import (
    Rules,
    allow_only,
    constrain,
    forbid_end,
    forbid_repeated_ngrams,
    forbid_tokens,
)
from pellucid.search.options import SearchOptions, Specials


def forbidden(log_p: torch.Tensor) -> list[set[int]]:
    return [{token for token, value in enumerate(row) if value == -math.inf} for row in log_p.tolist()]


def test_tokens_and_end() -> None:
    assert forbidden(forbid_tokens(torch.zeros(2, 5), (0, 2))) == [{0, 2}, {0, 2}]
    assert forbidden(forbid_end(torch.zeros(1, 5), 1, 2, 3)) == [{3}]
    assert forbidden(forbid_end(torch.zeros(1, 5), 2, 2, 3)) == [set()]


def test_some_rows_may_take_certain_tokens_alone() -> None:
    log_p = torch.arange(15.0).view(3, 5)
    held = allow_only(log_p.clone(), {1: torch.tensor([4]), 2: torch.tensor([3, 0])})
    assert forbidden(held) == [set(), {0, 1, 2, 3}, {1, 2, 4}]
    assert held[0].equal(log_p[0])
    assert held[1, 4] == 9
    assert (held[2, 0], held[2, 3]) == (10, 13)


def test_where_all_is_forbidden_the_best_that_the_beginning_allows_is_the_last_resort() -> None:
    """4 and 5 have been said, and nothing may be said twice; the first row is to go on with one of them."""
    either = Choice({}, np.array([4, 5]))
    beginnings = Beginning((Choice({4: 1}), Choice({5: 2}), either)), Beginning()
    rules = Rules(SearchOptions(no_repeat_ngram=1), Specials(bos=2, eos=3, pad=0), beginnings, (0, 1))
    log_p = torch.tensor([[0.0, -1.0, 0.0, -4.0, -3.0, -2.0]] * 2)
    held, resort = constrain(log_p, torch.tensor([[4, 5]] * 2), torch.tensor([0, 1]), rules)
    assert forbidden(held) == [set(range(6)), {0, 2, 4, 5}]
    assert (resort.tokens.tolist(), resort.log_p.tolist()) == ([5, 3], [-2.0, -4.0])


def test_what_is_forbidden_stays_so() -> None:
    log_p = forbid_tokens(torch.zeros(1, 5), (4,))
    assert forbidden(allow_only(log_p, {0: torch.tensor([4])})) == [{0, 1, 2, 3, 4}]


@settings(max_examples=200, deadline=None)
@given(
    rows=st.lists(st.lists(st.integers(0, 3), min_size=9, max_size=9), min_size=1, max_size=4),
    length=st.integers(0, 9),
    n=st.integers(0, 4),
)
def test_repeated_ngrams(rows: list[list[int]], length: int, n: int) -> None:
    generated = torch.tensor(rows)[:, :length]
    expected = []
    for row in generated.tolist():
        ngrams = [tuple(row[i : i + n]) for i in range(length - n + 1)] if n else []
        # With fewer than n tokens there is no n-gram yet, and none to repeat.
        expected.append({t for t in range(4) if n and ngrams and (*row[length - n + 1 :], t) in ngrams})
    assert forbidden(forbid_repeated_ngrams(torch.zeros(len(rows), 4), generated, n)) == expected
