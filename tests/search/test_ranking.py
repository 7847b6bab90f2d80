"""Ranked where the logits are, in one copy, as on a GPU: as the plain way ranks them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.seeds import generator

from pellucid.search import ranking
from pellucid.search.beginnings import Beginning
from pellucid.search.constraints import Rules
from pellucid.search.options import SearchOptions, Specials
from pellucid.search.rows import Rows
from pellucid.search.search import search


def rules_of(rows: int, min_length: int) -> tuple[Rows, Rules]:
    """Rows of one token, and what they obey."""
    options, specials = SearchOptions(min_length=min_length), Specials(bos=2, eos=3, pad=0)
    live = Rows(torch.arange(rows, device="cpu"), torch.full((rows, 1), 9, device="cpu"),
                torch.zeros(rows, 1, device="cpu"))
    return live, Rules(options, specials, (Beginning(),) * rows, tuple(range(rows)))


@given(rows=st.integers(1, 5), vocabulary=st.integers(13, 60) | st.integers(500, 900), count=st.integers(1, 9),
       min_length=st.integers(0, 2), levels=st.sampled_from([3, 40, 10**6]), seed=st.integers(0, 10_000),
       dtype=st.sampled_from([torch.float32, torch.bfloat16]))
def test_it_ranks_as_the_plain_way_or_says_that_it_cannot(
        rows: int, vocabulary: int, count: int, min_length: int, levels: int, seed: int, dtype: torch.dtype) -> None:
    logits = torch.randint(levels, (rows, vocabulary), generator=generator(seed)).float().div(levels / 12).to(dtype)
    live, rules = rules_of(rows, min_length)
    values, ids = ranking._in_one_copy(logits, live, rules, count)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ranking, "_is_simple", lambda *asked: False)
        expected, expected_ids = ranking.best_tokens(logits, live, rules, count)
    is_known = ~values[:, 0].isnan()
    assert torch.equal(ids[is_known], expected_ids[is_known])
    torch.testing.assert_close(values[is_known], expected[is_known], atol=1e-5, rtol=1e-5)
    logits[:, [0, 2]] = -torch.inf
    logits[:, 3] = -torch.inf if min_length > 1 else logits[:, 3]
    equal = (logits.float() == logits.float().sort(1, descending=True)[0][:, count - 1, None]).sum(1).cpu()
    assert (is_known | (equal > ranking._EQUALS)).all()  # of more equals than that some may have been left out


def test_what_is_no_number_goes_the_plain_way() -> None:
    logits = torch.zeros(3, 40)
    logits[:, 5], logits[1, 7], logits[2, 8] = 4.0, torch.nan, torch.inf
    values, _ = ranking._in_one_copy(logits, *rules_of(3, 0), 1)
    assert values[:, 0].isfinite().tolist() == [True, False, False]


@pytest.mark.parametrize("asked", [{"beam_size": 1}, {"beam_size": 4}, {"beam_size": 4, "n_best": 3},
                                   {"beam_size": 3, "min_length": 4}], ids=str)
@pytest.mark.parametrize("prefixes", [None, [[4], [], [5, 6, 7]]], ids=["free", "begun"])
def test_every_search_finds_the_same(asked: dict[str, Any], prefixes: list[list[int]] | None, lookup_table: Any,
                                     specials: Specials, monkeypatch: pytest.MonkeyPatch) -> None:
    table, options = lookup_table(vocabulary=40), SearchOptions(**{"max_length": 9, **asked})
    plain = search(table, [0, 1, 2], 3, options, specials, prefixes)
    monkeypatch.setattr(ranking, "_is_simple", lambda *asked: True)
    ranked: list[int] = []

    def in_one_copy(*asked: Any) -> Any:
        ranked.append(len(asked[0]))
        return ranking._in_one_copy(*asked)

    monkeypatch.setattr(ranking, "_in_one_pass", in_one_copy)
    assert search(table, [0, 1, 2], 3, options, specials, prefixes) == plain
    assert ranked
