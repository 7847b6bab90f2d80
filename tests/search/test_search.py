"""What holds for every search: it ends, it is exact about scores, and no sentence feels its neighbours."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pellucid.search.options import SearchOptions
from pellucid.search.search import search

SEARCHES = [
    {"beam_size": 1},
    {"beam_size": 3},
    {"beam_size": 4, "n_best": 4, "length_penalty": 1.5},
    {"sample": True},
    {"sample": True, "n_best": 3, "top_k": 2, "temperature": 1.7},
    {"sample": True, "n_best": 2, "top_p": 0.7},
]
searches = st.sampled_from(SEARCHES)
prefixes = st.lists(st.sampled_from([1, 4, 5]), max_size=4)


@settings(max_examples=120, deadline=None)
@given(data=st.data())
def test_batch_size_order_and_neighbours_change_nothing(data: Any, lookup_table: Any, specials: Any) -> None:
    table = lookup_table(kind=data.draw(st.sampled_from(["random", "wild"])), seed=data.draw(st.integers(0, 99)))
    sentences = data.draw(st.lists(st.integers(0, 10**6), min_size=1, max_size=12, unique=True))
    starts = [data.draw(prefixes) for _ in sentences]
    options = SearchOptions(**data.draw(searches), max_length=7, no_repeat_ngram=data.draw(st.sampled_from([0, 2])))

    def run(order: list[int]) -> dict[int, Any]:
        chosen = [sentences[i] for i in order]
        found = search(table, chosen, len(order), options, specials, [starts[i] for i in order], chosen)
        return dict(zip(order, found, strict=True))

    together = run(list(range(len(sentences))))
    assert run(data.draw(st.permutations(range(len(sentences))))) == together
    alone = [run([i])[i] for i in range(len(sentences))]
    assert alone == list(together.values())


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_any_logits_come_to_an_end(data: Any, lookup_table: Any, specials: Any) -> None:
    table = lookup_table(
        kind=data.draw(st.sampled_from(["wild", (0.0,) * 6, (-math.inf,) * 6, (math.inf,) * 6])),
        seed=data.draw(st.integers(0, 9999)),
    )
    max_length = data.draw(st.integers(1, 6))
    options = SearchOptions(
        **data.draw(searches),
        max_length=max_length,
        min_length=data.draw(st.integers(0, max_length - 1)),
        no_repeat_ngram=data.draw(st.integers(0, 3)),
    )
    sentences = data.draw(st.integers(1, 4))
    starts = [data.draw(st.lists(st.sampled_from([1, 4, 5]), max_size=8)) for _ in range(sentences)]
    for start, found in zip(
        starts, search(table, list(range(sentences)), sentences, options, specials, starts), strict=True
    ):
        assert 1 <= len(found) <= options.n_best
        assert [each.score for each in found] == sorted((each.score for each in found), reverse=True)
        assert len({each.tokens for each in found}) == len(found)
        for each in found:
            assert not math.isnan(each.score)
            assert each.score <= 0
            assert len(each.token_log_probabilities) == len(each.tokens) + each.finished <= max_length
            assert each.finished or len(each.tokens) == max_length
            assert each.tokens[: len(start)] == tuple(start)[:max_length]
            assert not {specials.bos, specials.eos, specials.pad} & set(each.tokens)
    assert sum(name == "step" for name, _ in table.calls) <= max_length


@pytest.mark.parametrize("asked", SEARCHES, ids=str)
def test_scores_are_the_models_own(asked: dict[str, Any], lookup_table: Any, specials: Any) -> None:
    table = lookup_table()
    options = SearchOptions(**asked, max_length=6, min_length=2, no_repeat_ngram=2)
    for sentence, found in enumerate(search(table, list(range(20)), 20, options, specials, [[4]] * 20)):
        for each in found:
            text = (*each.tokens, specials.eos) if each.finished else each.tokens
            terms = [table.log_p(sentence, (specials.bos, *text[:t]))[text[t]] for t in range(len(text))]
            assert each.token_log_probabilities == tuple(terms)
            assert each.log_probability == pytest.approx(math.fsum(terms), abs=1e-12)
            penalty = ((5 + len(text)) / 6) ** options.length_penalty
            assert each.score == pytest.approx(math.fsum(terms) / penalty, abs=1e-12)


@pytest.mark.parametrize("asked", SEARCHES, ids=str)
@pytest.mark.parametrize("length", [1, 3])
def test_the_longest_length_cuts(asked: dict[str, Any], length: int, lookup_table: Any, specials: Any) -> None:
    table = lookup_table(kind=(0.0, 5.0, 0.0, -math.inf, 1.0, 0.0))  # the end is impossible
    for each in search(table, [0], 1, SearchOptions(**asked, max_length=length), specials)[0]:
        assert len(each.tokens) == length
        assert not each.finished


@pytest.mark.parametrize("asked", SEARCHES, ids=str)
def test_nan_is_named(asked: dict[str, Any], lookup_table: Any, specials: Any) -> None:
    table = lookup_table()
    whole = table.logits
    table.logits = lambda sentence, prefix: (
        [0.0, 0.0, 0.0, -9.0, math.nan, 0.0] if (sentence, len(prefix)) == (31, 3) else whole(sentence, prefix)
    )
    options = SearchOptions(**asked, max_length=5, min_length=3)
    with pytest.raises(ValueError, match=r"sentence 101 .*NaN"):
        search(table, [30, 31, 32], 3, options, specials, indices=[100, 101, 102])


@pytest.mark.parametrize("asked", SEARCHES, ids=str)
def test_what_is_forced_may_be_impossible(asked: dict[str, Any], lookup_table: Any, specials: Any) -> None:
    table = lookup_table(kind=(0.0, 0.0, 0.0, 0.0, -math.inf, 1.0))
    for each in search(table, [0], 1, SearchOptions(**asked, max_length=4), specials, [[5, 4]])[0]:
        assert each.tokens[:2] == (5, 4)
        assert each.log_probability == each.score == each.token_log_probabilities[1] == -math.inf


def test_nothing_in_nothing_out(lookup_table: Any, specials: Any) -> None:
    assert search(lookup_table(), [], 0, SearchOptions(), specials) == []


def test_the_first_step_is_not_expanded(lookup_table: Any, specials: Any) -> None:
    table = lookup_table()
    search(table, [1, 2], 2, SearchOptions(beam_size=4, max_length=3), specials)
    assert table.calls[0] == ("step", [1, 2])


@pytest.mark.parametrize("asked", SEARCHES, ids=str)
def test_a_single_step_computes_no_gradient(asked: dict[str, Any], lookup_table: Any, specials: Any) -> None:
    table = lookup_table()
    plain = table.step
    grad_modes = []

    def step(state: Any, tokens: torch.Tensor) -> Any:
        grad_modes.append(torch.is_grad_enabled())
        return plain(state, tokens)

    table.step = step
    search(table, [1], 1, SearchOptions(**asked, max_length=2), specials)
    assert set(grad_modes) == {False}


def test_misfits_are_refused(lookup_table: Any, specials: Any) -> None:
    table, options = lookup_table(), SearchOptions()
    with pytest.raises(ValueError, match="prefixes must be 2, one a sentence, not 1"):
        search(table, [0, 1], 2, options, specials, prefixes=[[4]])
    with pytest.raises(ValueError, match="indices must be 2 numbers"):
        search(table, [0, 1], 2, options, specials, indices=[4])
    with pytest.raises(ValueError, match="indices must be 1 numbers from 0 up"):
        search(table, [0], 1, options, specials, indices=[-4])
    with pytest.raises(ValueError, match="other than"):
        search(table, [0], 1, options, specials, prefixes=[[4, specials.eos]])
    with pytest.raises(ValueError, match="token 6 is not in the vocabulary: the model scores 6 tokens"):
        search(table, [0], 1, options, specials, prefixes=[[6]])


@pytest.mark.parametrize(
    "wrong",
    [
        {"beam_size": 0},
        {"beam_size": 2.0},
        {"beam_size": True},
        {"max_length": 0},
        {"min_length": -1},
        {"min_length": 256},
        {"n_best": 5},
        {"n_best": 0},
        {"no_repeat_ngram": -1},
        {"temperature": 0.0},
        {"temperature": math.inf},
        {"temperature": math.nan},
        {"top_k": -1},
        {"top_p": 0.0},
        {"top_p": 1.1},
        {"top_p": math.nan},
        {"length_penalty": math.nan},
        {"length_penalty": 6.0},
        {"seed": -1},
    ],
    ids=str,
)
def test_options_out_of_range_are_refused_by_name(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=f"^{next(iter(wrong))} must be "):
        SearchOptions(**wrong)


@pytest.mark.parametrize("right", [
    {"length_penalty": -5.0}, {"length_penalty": 5.0}, {"min_length": 255}, {"n_best": 4}, {"top_p": 1.0},
    {"n_best": 9, "sample": True}], ids=str)
def test_the_ends_of_a_range_belong_to_it(right: dict[str, Any]) -> None:
    assert right.items() <= vars(SearchOptions(**right)).items()
