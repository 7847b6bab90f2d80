"""Log-probabilities at any logits, and an order of candidates that leaves nothing to chance."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.seeds import generator

from pellucid.search.distribution import log_probabilities, top_candidates


@settings(max_examples=120, deadline=None)
@given(
    rows=st.sampled_from([1, 2, 9, 17]),
    vocabulary=st.sampled_from([1, 5, 7, 64, 333, 1000, 1003]),
    count=st.integers(1, 12),
    levels=st.sampled_from([1, 2, 5, 40, 10**6]),
    seed=st.integers(0, 10**6),
)
def test_candidates_are_those_of_a_stable_sort(rows: int, vocabulary: int, count: int, levels: int, seed: int) -> None:
    random = generator(seed)
    log_p = torch.randint(levels, (rows, vocabulary), generator=random).float()
    log_p[torch.rand(rows, vocabulary, generator=random) < 0.3] = -math.inf
    values, ids = top_candidates(log_p, count)
    sorted_values, sorted_ids = log_p.sort(dim=1, descending=True, stable=True)
    assert values.shape == ids.shape == (rows, count)
    m = min(count, vocabulary)
    assert values[:, :m].equal(sorted_values[:, :m])
    real = values[:, :m] > -math.inf
    assert ids[:, :m][real].equal(sorted_ids[:, :m][real])
    assert bool((values[:, m:] == -math.inf).all())
    assert bool((ids[:, m:] == 0).all())


@pytest.mark.parametrize("vocabulary", [6, 333, 8000, 40000])
def test_a_row_alone_equals_the_row_in_a_batch(vocabulary: int) -> None:
    logits = torch.randn(33, vocabulary, generator=generator(1)) * 4
    together = log_probabilities(logits, torch.arange(33), tuple(range(33)))
    best = top_candidates(together, 8)
    for row in (0, 1, 7, 32):
        alone = log_probabilities(logits[row : row + 1], torch.zeros(1, dtype=torch.int64), (0,))
        assert alone[0].equal(together[row])
        assert all(a[0].equal(b[row]) for a, b in zip(top_candidates(alone, 8), best, strict=True))


def test_infinite_logits_are_taken_at_their_limit() -> None:
    logits = torch.tensor(
        [[0.0, math.inf, 2.0, math.inf], [-math.inf] * 4, [0.0, -math.inf, -math.inf, 0.0], [-math.inf, 9, 9, 9]]
    )
    probabilities = log_probabilities(logits, torch.arange(4), (0, 1, 2, 3)).exp()
    third = pytest.approx(1 / 3)
    assert probabilities.tolist() == [[0, 0.5, 0, 0.5], [0] * 4, [0.5, 0, 0, 0.5], [0, third, third, third]]


@pytest.mark.parametrize("column", range(5))
def test_nan_anywhere_is_found(column: int) -> None:
    logits = torch.tensor([[0.0, math.inf, 1.0, -math.inf, 0.0]] * 3)
    logits[2, column] = math.nan
    with pytest.raises(ValueError, match="sentence 8 "):
        log_probabilities(logits, torch.tensor([0, 0, 1]), (7, 8))
