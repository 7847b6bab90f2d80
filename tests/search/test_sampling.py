"""Samples follow the distribution asked for, and nothing but the seed and the sentence."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.seeds import generator

from pellucid.search.options import SearchOptions
from pellucid.search.sampling import draw
from pellucid.search.search import search

LOGITS = (0.5, 1.0, 0.3, 0.0, -1.0, 2.0)  # pad and bos (0 and 2) are never drawn


def first_tokens(table: Any, options: SearchOptions, specials: Any, count: int) -> Counter[int]:
    found = search(table, [0] * count, count, options, specials)
    return Counter(each.tokens[0] if each.tokens else specials.eos for (each,) in found)


def expected(temperature: float, kept: tuple[int, ...]) -> dict[int, float]:
    weights = {token: math.exp(LOGITS[token] / temperature) for token in kept}
    return {token: weight / sum(weights.values()) for token, weight in weights.items()}


@pytest.mark.parametrize(
    ("asked", "kept"),
    [
        ({}, (1, 3, 4, 5)),
        ({"temperature": 0.5}, (1, 3, 4, 5)),
        ({"temperature": 3.0}, (1, 3, 4, 5)),
        ({"top_k": 2}, (1, 5)),
        ({"top_k": 3, "temperature": 2.0}, (1, 3, 5)),
        ({"top_p": 0.8}, (1, 5)),  # 0.64 < 0.8 ≤ 0.64 + 0.24
        ({"top_p": 0.9}, (1, 3, 5)),
        ({"top_k": 3, "top_p": 0.7}, (1, 5)),  # of the three: 0.67 < 0.7
        ({"top_k": 3, "top_p": 0.65}, (5,)),  # of the three, where it has 0.67, and not of all, where it has 0.64
        ({"top_k": 100}, (1, 3, 4, 5)),
    ],
    ids=str,
)
def test_frequencies(asked: dict[str, Any], kept: tuple[int, ...], lookup_table: Any, specials: Any) -> None:
    count = 4000
    options = SearchOptions(sample=True, max_length=1, **asked)
    seen = first_tokens(lookup_table(kind=LOGITS), options, specials, count)
    wanted = expected(asked.get("temperature", 1.0), kept)
    assert set(seen) == set(wanted)
    chi_square = sum((seen[token] - count * p) ** 2 / (count * p) for token, p in wanted.items())
    assert chi_square < 16.3  # the 0.1 % point for 3 degrees of freedom, the most there are here


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 999), cut=st.sampled_from([{"top_k": 1}, {"top_p": 1e-9}, {"temperature": 1e-9},
                                                        {"temperature": 5e-324}, {"temperature": 1e-50, "top_k": 3}]))
def test_the_narrowest_cut_is_greedy(seed: int, cut: dict[str, Any], lookup_table: Any, specials: Any) -> None:
    table = lookup_table(seed=seed)
    greedy = search(table, [1, 2], 2, SearchOptions(beam_size=1, max_length=8), specials)
    assert search(table, [1, 2], 2, SearchOptions(sample=True, seed=seed, max_length=8, **cut), specials) == greedy


def test_the_seed_and_the_sentence_set_the_sample(lookup_table: Any, specials: Any) -> None:
    table = lookup_table(kind=(0.0,) * 6)

    def samples(seed: int, indices: list[int], **asked: Any) -> list[Any]:
        options = SearchOptions(sample=True, seed=seed, **{"max_length": 9, **asked})
        return search(table, [0] * len(indices), len(indices), options, specials, indices=indices)

    assert samples(1, [3, 8]) == samples(1, [3, 8])
    assert samples(1, [3, 8]) == samples(1, [8, 3])[::-1]
    assert samples(1, [3]) != samples(2, [3])
    assert len({found[0].tokens for found in samples(1, list(range(50)))}) > 20
    # A longer limit, or more samples, adds to what is drawn and changes none of it.
    for (short,), (long,) in zip(samples(1, list(range(20)), max_length=4), samples(1, list(range(20))), strict=True):
        assert long.tokens[:4] == short.tokens
    for (one,), three in zip(samples(1, list(range(20))), samples(1, list(range(20)), n_best=3), strict=True):
        assert one in three


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 999),
    vocabulary=st.sampled_from([7, 300, 5000]),
    temperature=st.sampled_from([0.3, 1.0, 50.0]),
    top_k=st.sampled_from([0, 1, 5]),
    top_p=st.sampled_from([0.05, 0.95, 0.999999, 1.0]),
)
def test_draws_are_alike_alone_and_together(
    seed: int, vocabulary: int, temperature: float, top_k: int, top_p: float
) -> None:
    random = generator(seed)
    # Sharp and flat rows side by side: the flat ones need the whole vocabulary sorted, the sharp ones do not.
    log_p = torch.log_softmax(torch.randn(12, vocabulary, generator=random) * torch.arange(12)[:, None], dim=1)
    log_p[:, ::3] = -math.inf
    uniform = torch.rand(12, generator=random, dtype=torch.float64)
    options = SearchOptions(sample=True, temperature=temperature, top_k=top_k, top_p=top_p)
    together = draw(log_p, uniform, options)
    alone = [draw(log_p[row : row + 1], uniform[row : row + 1], options) for row in range(12)]
    assert together[0].tolist() == [int(ids) for ids, _ in alone]
    assert together[1].tolist() == [float(values) for _, values in alone]
    assert bool((together[1] > -math.inf).all())


@pytest.mark.parametrize("uniform", [0.0, 0.5, 1 - 2**-53])
@pytest.mark.parametrize("asked", [{}, {"top_k": 2}, {"top_p": 0.5}], ids=str)
def test_the_edges_of_the_interval_draw_what_is_possible(uniform: float, asked: dict[str, Any]) -> None:
    log_p = torch.tensor([[-math.inf, -1.0, -math.inf, -1.0, -math.inf]]).log_softmax(dim=1)
    ids, _ = draw(log_p, torch.tensor([uniform], dtype=torch.float64), SearchOptions(sample=True, **asked))
    assert int(ids) == (1 if uniform < 0.5 or "top_p" in asked else 3)


@given(seed=st.integers(0, 99_999), size=st.integers(1, 9), asked=st.sampled_from([{}, {"top_k": 3}, {"top_p": 0.6}]))
def test_the_largest_uniform_number_draws_the_last_that_is_kept(seed: int, size: int, asked: dict[str, Any]) -> None:
    """However the sums are rounded: what is behind it is impossible here."""
    log_p = torch.randn(1, size, generator=generator(seed)).log_softmax(dim=1)
    log_p = torch.nn.functional.pad(log_p, (0, 4), value=-math.inf)
    ids, values = draw(log_p, torch.tensor([1 - 2**-53], dtype=torch.float64), SearchOptions(sample=True, **asked))
    assert int(ids) < size
    assert float(values) > -math.inf


def test_a_nucleus_may_be_wider_than_what_is_sorted_at_first() -> None:
    """Of 600 equals half are kept: the first 300, of which each is drawn in its three hundredth."""
    log_p = torch.log_softmax(torch.zeros(3, 600), dim=1)
    uniform = torch.tensor([0.5, 255.5, 299.5], dtype=torch.float64) / 300
    ids, _ = draw(log_p, uniform, SearchOptions(sample=True, top_p=0.4999))
    assert ids.tolist() == [0, 255, 299]
