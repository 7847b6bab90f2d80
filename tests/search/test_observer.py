"""An observer is told what the search decides, all of it and nothing else; and changes nothing by being there."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.promises.plain import plain_steps

from pellucid.search.observer import Decisions
from pellucid.search.options import SearchOptions
from pellucid.search.search import search

SEARCHES = [SearchOptions(beam_size=3, max_length=7, n_best=2), SearchOptions(beam_size=1, max_length=7),
            SearchOptions(sample=True, n_best=3, max_length=7)]


class Recorder:
    """For each sentence and step, the candidates that exist: tokens, log-probability, rank, and what became of them."""

    def __init__(self) -> None:
        self.steps: dict[int, list[list[tuple[tuple[int, ...], float, int, str]]]] = {}

    def step(self, decisions: Decisions) -> None:
        rows, candidates = decisions.rows, decisions.candidates
        for place, totals in enumerate(candidates.totals.tolist()):
            told = []
            for column, total in enumerate(totals):
                state = (bool(decisions.kept[place, column]), bool(decisions.finished[place, column]))
                assert state != (True, True)
                assert total > -float("inf") or state == (False, False)  # what does not exist is neither
                if total > -float("inf"):
                    tokens, terms = candidates.sequence(rows, place, column)
                    assert sum(terms) == pytest.approx(total, abs=1e-9)
                    told.append((tuple(tokens), total, column, {(True, False): "kept", (False, True): "finished"}
                                 .get(state, "pruned")))
            sentence = int(rows.sentences[candidates.parents[place, 0]])
            self.steps.setdefault(sentence, []).append(told)


class Leaves:
    """Goes away at a step."""

    def __init__(self, at: int) -> None:
        self.at, self.seen = at, 0

    def step(self, decisions: Decisions) -> None:
        self.seen += 1
        if self.seen == self.at:
            raise ConnectionError("nobody is there any more")


def rules(table: Any, sentence: int, options: SearchOptions, prefix: Sequence[int], specials: Any) -> Any:
    """What may follow some tokens, and how probable it is."""
    def allowed(tokens: tuple[int, ...]) -> list[int]:
        t, n = len(tokens), options.no_repeat_ngram
        if t < len(prefix):
            return [prefix[t]]
        seen = {tokens[i : i + n] for i in range(t - n + 1)} if n else set()
        free = [token for token in range(table.vocabulary) if token not in (specials.pad, specials.bos)
                and not (token == specials.eos and t < options.min_length)
                and not (n and t >= n - 1 and (*tokens[t - n + 1 :], token) in seen)]
        return free or [specials.eos]

    return lambda tokens: table.log_p(sentence, (specials.bos, *tokens)), allowed


@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_what_is_told_is_what_a_plain_search_decides(data: Any, lookup_table: Any, specials: Any) -> None:
    k, max_length = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 7))
    table = lookup_table(vocabulary=data.draw(st.integers(5, 9)), seed=data.draw(st.integers(0, 999)))
    options = SearchOptions(beam_size=k, n_best=data.draw(st.integers(1, k)), max_length=max_length,
                            min_length=data.draw(st.integers(0, max_length - 1)),
                            length_penalty=data.draw(st.sampled_from([-1.0, 0.0, 0.6, 3.0])),
                            no_repeat_ngram=data.draw(st.integers(0, 3)))
    prefixes = [data.draw(st.lists(st.sampled_from([1, 4]), max_size=2)) for _ in range(3)]
    recorder = Recorder()
    found = search(table, [5, 6, 7], 3, options, specials, prefixes, observer=recorder)
    assert found == search(table, [5, 6, 7], 3, options, specials, prefixes)
    for sentence, prefix in enumerate(prefixes):
        wanted = list(plain_steps(*rules(table, 5 + sentence, options, prefix, specials), options, specials.eos))
        told = recorder.steps[sentence]
        assert len(told) <= len(wanted)  # it stops as soon as nothing can come in
        assert told == [[one[:4] for one in step] for step in wanted[: len(told)]]
        ended = {one[0] for step in told for one in step if one[3] == "finished"}
        assert {(*one.tokens, specials.eos) if one.finished else one.tokens for one in found[sentence]} <= ended


@pytest.mark.parametrize("options", SEARCHES, ids=["beam", "greedy", "samples"])
def test_an_observer_changes_nothing_and_may_end_the_search(options: SearchOptions, lookup_table: Any,
                                                            specials: Any) -> None:
    run = partial(search, options=options, specials=specials, sentences=2)
    plain, watched = lookup_table(seed=3), lookup_table(seed=3)
    recorder = Recorder()
    assert run(plain, [1, 2]) == run(watched, [1, 2], observer=recorder)
    assert plain.calls == watched.calls
    left = lookup_table(seed=3)
    with pytest.raises(ConnectionError, match="nobody"):
        run(left, [1, 2], observer=Leaves(2))
    assert left.calls == plain.calls[: len(left.calls)]
    assert [name for name, _ in left.calls].count("step") == 2


def test_of_greedy_and_of_samples_every_row_is_told_until_it_ends(lookup_table: Any, specials: Any) -> None:
    for options in SEARCHES[1:]:
        recorder = Recorder()
        found = search(lookup_table(seed=8), [1, 2], 2, options, specials, observer=recorder)
        for sentence, hypotheses in enumerate(found):
            told = [one for step in recorder.steps[sentence] for one in step]
            assert {one[3] for one in told} <= {"kept", "finished"}
            ended = {tokens: total for tokens, total, _, state in told if state == "finished"}
            for one in hypotheses:
                tokens = (*one.tokens, specials.eos) if one.finished else one.tokens
                assert ended[tokens] == one.log_probability
