"""The softmax over some of the words against that over all of them."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.seeds import generator

from pellucid.nn.cross_entropy import label_smoothed_cross_entropy
from pellucid.nn.r_drop import r_drop_cross_entropy
from pellucid.nn.sampled_softmax import STEP, above_mean, enough_words, sampled_words

V, D = 3 * STEP, 6


def example(seed: int, targets: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    random = generator(seed)
    return (torch.randn(targets, D, generator=random, dtype=torch.float64),
            torch.randn(V, D, generator=random, dtype=torch.float64),
            torch.randint(V, (targets,), generator=random))


@settings(deadline=None, max_examples=20)
@given(seed=st.integers(0, 99), targets=st.integers(1, 40), count=st.integers(2, 2 * STEP))
def test_the_logits_are_those_of_all_words_and_what_each_stands_for(seed: int, targets: int, count: int) -> None:
    hidden, weight, ids = example(seed, targets)
    torch.manual_seed(seed)
    h, w, places = sampled_words(hidden, weight, ids, enough_words(ids, count))
    assert len(w) % STEP == 0
    assert len(w) >= count
    all_logits, logits = hidden @ weight.T, h @ w.T
    torch.testing.assert_close(logits.gather(1, places[:, None]), all_logits.gather(1, ids[:, None]))
    words = [int((weight == row[:D]).all(1).nonzero()) for row in w]
    assert len(set(words)) == len(words)
    present = set(ids.tolist())
    assert set(words[: len(present)]) == present
    stands_for = (V - len(present)) / (len(words) - len(present))
    torch.testing.assert_close(w[len(present):, D].exp(), torch.full_like(w[len(present):, D], stands_for))
    assert (w[: len(present), D] == 0).all()
    torch.testing.assert_close(logits[:, len(present):], all_logits[:, words[len(present):]] + w[len(present):, D])


def test_its_sum_of_exponentials_is_expected_to_be_that_of_all_words() -> None:
    hidden, weight, ids = example(0, 5)
    torch.manual_seed(0)
    drawn = []
    for _ in range(2000):
        h, w, _ = sampled_words(hidden, weight, ids, enough_words(ids, STEP))
        drawn.append((h @ w.T).exp().sum(1))
    found, whole = torch.stack(drawn), (hidden @ weight.T).exp().sum(1)
    assert ((found.mean(0) - whole).abs() < 4 * found.std(0) / 2000**0.5).all()


@pytest.mark.parametrize("count", [V, V - STEP + 1, 10 * V])
def test_no_fewer_words_than_there_are_is_the_plain_softmax(count: int) -> None:
    hidden, weight, ids = example(1, 7)
    found = sampled_words(hidden, weight, ids, enough_words(ids, count))
    assert found[0] is hidden
    assert found[1] is weight
    assert found[2] is ids


def test_half_the_words_at_least_are_drawn() -> None:
    hidden, weight, _ = example(2, 400)
    _, w, places = sampled_words(hidden, weight, torch.arange(400), enough_words(torch.arange(400), 1))
    assert len(w) == 2 * STEP
    assert places.tolist() == list(range(400))


def test_gradients_reach_hidden_states_and_the_words_that_are_there_alone() -> None:
    hidden, weight, ids = example(3, 9)
    hidden.requires_grad_()
    weight.requires_grad_()
    h, w, places = sampled_words(hidden, weight, ids, enough_words(ids, STEP))
    label_smoothed_cross_entropy(h @ w.T, places, 0.1).sum().backward()
    assert hidden.grad is not None
    assert weight.grad is not None
    assert (hidden.grad.abs().sum(1) > 0).all()
    assert int((weight.grad.abs().sum(1) > 0).sum()) == STEP


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 1.0])
def test_smoothing_is_spread_over_all_words(smoothing: float) -> None:
    hidden, weight, ids = example(4, 9)
    logits = hidden @ weight.T
    torch.testing.assert_close(
        label_smoothed_cross_entropy(logits, ids, 0.0).sum() + smoothing * above_mean(hidden, weight, ids),
        label_smoothed_cross_entropy(logits, ids, smoothing).sum())
    both = torch.stack([hidden, hidden.flip(1)])
    torch.testing.assert_close(
        r_drop_cross_entropy(both @ weight.T, ids, 0.0, 2.0).sum() + 0.5 * smoothing * above_mean(both, weight, ids),
        r_drop_cross_entropy(both @ weight.T, ids, smoothing, 2.0).sum())
