"""Perplexity: by hand, its bounds, and what is refused."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pellucid.evaluate.perplexity import perplexity_statistics
from pellucid.evaluate.significance import approximate_randomisation, corpus_score, interval_of, paired_bootstrap

SENTENCES = st.lists(st.tuples(st.floats(0, 50), st.integers(1, 40)), min_size=1, max_size=20)


def test_by_hand() -> None:
    # 4 tokens of probability 1/2 and 2 of 1/16: 4·ln 2 + 2·ln 16 = 12·ln 2 nats over 6 tokens, so 2² = 4.
    found = perplexity_statistics([4 * math.log(2), 2 * math.log(16)], [4, 2])
    assert corpus_score(found) == pytest.approx(4)
    # left alone the sentences have ln 2 and ln 16 nats a token: a standard error of 1.5 ln 2, t = 12.7 of one degree
    low, high = interval_of(found)
    reach = 12.706 * 1.5 / 2
    assert low == pytest.approx(math.exp(2 * math.log(2) * math.exp(-reach)), rel=1e-3)
    assert high > 1e300


def test_a_uniform_model_has_the_vocabulary_as_perplexity() -> None:
    counts = [3, 7, 1, 12]
    found = perplexity_statistics([count * math.log(8000) for count in counts], counts)
    assert corpus_score(found) == pytest.approx(8000)
    assert interval_of(found) == pytest.approx((8000, 8000))


@given(SENTENCES)
@settings(max_examples=50, deadline=None)
def test_it_lies_between_the_best_and_the_worst_sentence(sentences: list[tuple[float, int]]) -> None:
    nats, counts = [nats for nats, _ in sentences], [count for _, count in sentences]
    found = perplexity_statistics(nats, counts)
    perplexity = corpus_score(found)
    alone = [math.exp(total / count) for total, count in sentences]
    low, high = interval_of(found)
    assert 1 <= low <= perplexity * (1 + 1e-9)
    assert high >= perplexity * (1 - 1e-9)
    assert min(alone) * (1 - 1e-9) <= perplexity <= max(alone) * (1 + 1e-9)
    assert perplexity == pytest.approx(corpus_score(perplexity_statistics(nats[::-1], counts[::-1])))


def test_beyond_the_largest_number_it_is_infinite() -> None:
    assert corpus_score(perplexity_statistics([1e6], [2])) == math.inf


def test_two_that_are_infinite_are_told_apart_by_their_nats() -> None:
    """Two models of equal sentences differ by nothing; one that is a nat a token worse everywhere does."""
    tokens = [2] * 30
    one, same, worse = (perplexity_statistics([2000.0 + i + extra for i in range(30)], tokens) for extra in (0, 0, 2))
    assert paired_bootstrap(one, same).p == 1
    assert approximate_randomisation(one, same) == 1
    assert paired_bootstrap(one, worse).p < 0.01
    assert approximate_randomisation(one, worse) < 0.01


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
        perplexity_statistics(nats, counts)
