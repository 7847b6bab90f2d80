"""Perplexity: by hand, its bounds, and what is refused."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pellucid.evaluate.perplexity import perplexity_scores, perplexity_statistics
from pellucid.evaluate.significance import corpus_score

SENTENCES = st.lists(st.tuples(st.floats(0, 50), st.integers(1, 40)), min_size=1, max_size=20)


def test_by_hand() -> None:
    # 4 tokens of probability 1/2 and 2 of 1/16: 4·ln 2 + 2·ln 16 = 12·ln 2 nats over 6 tokens, so 2² = 4.
    scores = perplexity_scores([4 * math.log(2), 2 * math.log(16)], [4, 2], resamples=200)
    assert scores.perplexity == pytest.approx(4)
    assert scores.interval["perplexity"] == pytest.approx((2, 16))


def test_a_uniform_model_has_the_vocabulary_as_perplexity() -> None:
    counts = [3, 7, 1, 12]
    scores = perplexity_scores([count * math.log(8000) for count in counts], counts, resamples=50)
    assert scores.perplexity == pytest.approx(8000)
    assert scores.interval["perplexity"] == pytest.approx((8000, 8000))


@given(SENTENCES)
@settings(max_examples=50, deadline=None)
def test_it_lies_between_the_best_and_the_worst_sentence(sentences: list[tuple[float, int]]) -> None:
    nats, counts = [nats for nats, _ in sentences], [count for _, count in sentences]
    scores = perplexity_scores(nats, counts, resamples=20)
    alone = [math.exp(total / count) for total, count in sentences]
    low, high = scores.interval["perplexity"]
    assert min(alone) * (1 - 1e-9) <= min(low, scores.perplexity)
    assert max(high, scores.perplexity) <= max(alone) * (1 + 1e-9)
    assert scores.perplexity == pytest.approx(perplexity_scores(nats[::-1], counts[::-1], resamples=1).perplexity)


def test_beyond_the_largest_number_it_is_infinite() -> None:
    assert perplexity_scores([1e6], [2], resamples=5).interval["perplexity"] == (math.inf, math.inf)


def test_the_statistics_carry_the_score() -> None:
    assert corpus_score(perplexity_statistics([1.0, 2.0], [1, 2])) == pytest.approx(math.e)


@pytest.mark.parametrize(
    ("nats", "counts", "message"),
    [
        ([1.0], [1, 2], "1 log-likelihoods but 2 token counts"),
        ([1.0, 1.0], [3, 0], "sentence 2 has 0 tokens"),
        ([1.0, math.nan], [3, 1], "sentence 2 are not finite"),
        ([math.inf], [3], "sentence 1 are not finite"),
        ([], [], "at least one sentence"),
    ],
)
def test_what_cannot_be_scored_is_refused(nats: list[float], counts: list[int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        perplexity_scores(nats, counts)
