"""A trace is what the search decided, held for every length penalty that it says it holds."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, replace

import numpy as np
import pytest
from tests.promises.tiny import SUBWORDS, tiny_classifier, tiny_run

from pellucid.data.tokenizers.interface import EOS
from pellucid.errors import ConfigError, UserError
from pellucid.inspection import lattice
from pellucid.inspection.answers import Ended, Node, Trace
from pellucid.inspection.contributions import contributions
from pellucid.inspection.lattice import decided_up_to
from pellucid.inspection.live import attention
from pellucid.inspection.trace import trace
from pellucid.runs.run import Run
from pellucid.runs.texts import CutWarning
from pellucid.search.beginnings import of_tokens
from pellucid.search.observer import Decisions
from pellucid.search.options import length_penalty


@pytest.fixture(scope="module")
def run(either_way: str) -> Run:
    return tiny_run(3, {}, {"precision": "fp32", "max_length": 30}, SUBWORDS)


def sorted_for(traced: Trace, alpha: float) -> list[Ended]:
    """What a page shows with the slider at α."""
    return sorted(traced.finished, key=lambda one: -one.log_probability / length_penalty(one.length, alpha))


@pytest.mark.parametrize("prefix", ["", "le ch", "猫"])
@pytest.mark.parametrize("beam_size", [1, 2, 5])
def test_a_trace_holds_what_generate_finds(beam_size: int, prefix: str, run: Run, either_way: str) -> None:
    options = replace(run.config.decode, beam_size=beam_size, n_best=beam_size)
    traced = trace(run, "the cat sleeps .", options, prefix)
    found = run.generate(["the cat sleeps ."], prefixes=[prefix], options=options)[0]
    best = [traced.finished[place] for place in traced.order][: beam_size]
    assert [(one.text, one.score, one.log_probability) for one in best] == [
        (one.text, one.score, one.log_probability) for one in found.hypotheses]
    assert all(node.text.startswith(prefix) for step in traced.steps for node in step.nodes)
    assert traced.source_tokens[-1] == "‹end›"
    decoder = "engine by steps" if either_way == "compiled" else "plain steps"
    assert (traced.beam_size, traced.prefix, traced.decoder) == (beam_size, prefix, decoder)
    json.dumps(asdict(traced), allow_nan=False)


def test_the_nodes_make_a_tree_whose_totals_add_up(run: Run) -> None:
    traced = trace(run, "it sleeps , a cat", replace(run.config.decode, beam_size=3))
    nodes = [node for step in traced.steps for node in step.nodes]
    assert [node.id for node in nodes] == list(range(len(nodes)))
    for step in traced.steps:
        assert [node.rank for node in step.nodes] == list(range(len(step.nodes)))
        totals = [node.log_probability for node in step.nodes]
        assert totals == sorted(totals, reverse=True)
        for node in step.nodes:
            assert (node.parent is None) == (step.length == 1)
            if node.parent is not None:
                parent = nodes[node.parent]
                assert parent.state == "kept"
                assert parent in traced.steps[step.length - 2].nodes
                assert node.log_probability == parent.log_probability + node.token_log_probability
            assert (node.lost_by is None) == (node.state != "pruned")
            assert node.lost_by is None or node.lost_by >= 0
    assert [one.id for one in traced.finished] == [node.id for node in nodes if node.state == "finished"]
    for one in traced.finished:
        assert one.length == len(one.tokens) == len(one.token_log_probabilities)
        assert (one.tokens[-1] == "‹end›") == one.finished
        assert sum(one.token_log_probabilities) == pytest.approx(one.log_probability, abs=1e-9)
    assert 0 < traced.search_steps <= len(traced.steps)


@pytest.mark.parametrize("longest", [3, 30])
def test_what_becomes_of_a_candidate_and_by_how_much_it_lost_follow_from_the_ranks(longest: int, run: Run) -> None:
    k = 3
    traced = trace(run, "it sleeps , a cat", replace(run.config.decode, beam_size=k, max_length=longest))
    pruned = set[bool]()
    for step in traced.steps:
        def is_over(node: Node, is_last: bool = step.length == longest) -> bool:
            return is_last or node.token_id == EOS

        lives = [node for node in step.nodes if not is_over(node)][:k]
        for node in step.nodes:
            is_through = node.rank < k if is_over(node) else node in lives
            last = step.nodes[k - 1] if is_over(node) else lives[-1]
            assert node.state == ("pruned" if not is_through else "finished" if is_over(node) else "kept")
            if not is_through:
                assert node.lost_by == last.log_probability - node.log_probability
                pruned.add(is_over(node))
    assert pruned == {True, False}


@pytest.mark.parametrize("alpha", [0.0, 1.0])
def test_the_search_itself_is_over_when_it_is_told_to_be(alpha: float, run: Run) -> None:
    class Counter:
        steps = 0

        def step(self, decisions: Decisions) -> None:
            self.steps += 1

    counter, options = Counter(), replace(run.config.decode, length_penalty=alpha)
    traced = trace(run, "the cat sleeps .", options)
    source = np.array([*run.tokenizers.source.encode("the cat sleeps ."), EOS])
    run.observed(counter, options).search([source], [of_tokens(())], [0])
    assert 1 < traced.search_steps == counter.steps < len(traced.steps)


@pytest.mark.parametrize(("prefix", "longest"), [("le ch", 30), ("", 4)])  # cut inside of a word; and at the end
def test_what_ended_is_looked_at_token_by_token(prefix: str, longest: int, run: Run) -> None:
    traced = trace(run, "the cat sleeps .", replace(run.config.decode, max_length=longest), prefix)
    otherwise = 0  # of how many the text alone would be written in other tokens
    for one in traced.finished:
        told = attention(run, traced.source, one.token_ids)
        assert (told.written, told.read) == (one.tokens, ("‹start›", *one.tokens[:-1]))
        assert told.log_probability == pytest.approx(one.log_probability, abs=1e-4)
        otherwise += attention(run, traced.source, one.text).written != one.tokens
    assert otherwise
    best = traced.finished[traced.order[0]]
    assert contributions(run, traced.source, best.token_ids).written == best.tokens


def test_alternatives_are_what_the_model_says_at_each_place(run: Run) -> None:
    traced = trace(run, "the cat sleeps .", alternatives=4)
    best = traced.finished[traced.order[0]]
    assert len(traced.alternatives) == best.length
    for told, term, name in zip(traced.alternatives, best.token_log_probabilities, best.tokens, strict=True):
        probabilities = [one.probability for one in told[:4]]
        assert probabilities == sorted(probabilities, reverse=True)
        assert len(told) <= 5
        chosen = [one for one in told if one.token == name]
        assert math.log(chosen[0].probability) == pytest.approx(term, abs=1e-4)
    assert all(len(told) == 1 for told in trace(run, "the cat", alternatives=0).alternatives)
    size = run.tokenizers.target.size
    for told in trace(run, "the cat", alternatives=10**6).alternatives:
        assert sum(one.probability for one in told) == pytest.approx(1, abs=1e-4)
        assert len({one.token_id for one in told}) == size


def test_a_trace_that_would_be_long_holds_fewer_penalties_and_says_so(run: Run,
                                                                     monkeypatch: pytest.MonkeyPatch) -> None:
    options = replace(run.config.decode, beam_size=4, n_best=2, max_length=200, length_penalty=0.2)
    monkeypatch.setattr(lattice, "ENOUGH_NODES", 40)
    traced = trace(run, "the cat sleeps .", options)
    low, high = traced.alphas
    assert (low, high < 2) == (0, True)
    assert high >= 0.2
    assert len(traced.steps) < 200
    for alpha in (low, 0.2, (low + high) / 2, high):
        found = run.generate(["the cat sleeps ."], options=replace(options, length_penalty=alpha))[0]
        assert [one.text for one in sorted_for(traced, alpha)[:2]] == [one.text for one in found.hypotheses]
    monkeypatch.setattr(lattice, "ENOUGH_NODES", 5)
    assert trace(run, "the cat sleeps .", replace(options, max_length=1)).alphas == (0, 2)  # nothing lives on
    monkeypatch.setattr(lattice, "MOST_NODES", 10)
    with pytest.raises(UserError, match="more than 10 candidates"):
        trace(run, "the cat sleeps .", options)


@pytest.mark.parametrize("alpha", [-2.0, 3.5])
def test_a_penalty_outside_of_the_range_widens_it(alpha: float, run: Run) -> None:
    traced = trace(run, "the cat", replace(run.config.decode, length_penalty=alpha))
    assert traced.alphas == (min(alpha, 0), max(alpha, 2))
    found = run.generate(["the cat"], options=replace(run.config.decode, length_penalty=alpha))[0]
    assert (sorted_for(traced, alpha)[0].text, traced.finished[traced.order[0]].text) == (found.text, found.text)


def ended(total: float, length: int) -> Ended:
    return Ended(0, "", (), (), length, total, (), 0.0, True)


def test_up_to_which_penalty_all_is_decided_by_hand() -> None:
    """With lp = (5 + |Y|) / 6: what has ended with 7 tokens has lp 2, what lives can have 4 at most, with 19."""
    held = decided_up_to([ended(-2.0, 7)], -8.0, (8, 19), 1)  # -2 / 2^α ≥ -8 / 4^α up to α = 2
    assert held == pytest.approx(2, abs=1e-6)
    assert decided_up_to([ended(-2.0, 7), ended(-4.0, 7)], -8.0, (8, 19), 2) == pytest.approx(1, abs=1e-6)
    # What lives is ahead at α = 0; with α < 0 it has 13 tokens at least, lp 3: -2 / 2^α ≥ -1 / 3^α up to this
    assert decided_up_to([ended(-2.0, 7)], -1.0, (13, 19), 1) == pytest.approx(-math.log(2) / math.log(1.5), abs=1e-6)
    assert decided_up_to([ended(0.0, 7)], -1.0, (8, 19), 1) == math.inf  # nothing is more probable than 1
    assert decided_up_to([ended(-1.0, 7)], 0.0, (8, 19), 1) == -math.inf


def test_what_cannot_be_traced_is_refused_in_words(run: Run) -> None:
    with pytest.raises(UserError, match="the text is empty"):
        trace(run, " \n")
    with pytest.raises(ConfigError, match="nothing to trace"):
        trace(run, "a", replace(run.config.decode, sample=True))
    with pytest.raises(ConfigError, match="cannot generate"):
        trace(tiny_classifier(1, {}), "a")
    with pytest.raises(ValueError, match="length_penalty"):
        trace(run, "a", replace(run.config.decode, length_penalty=math.nan))
    with pytest.raises(ValueError, match="alternatives"):
        trace(run, "a", alternatives=-1)
    with pytest.warns(CutWarning, match="loses"):
        assert len(trace(run, "the cat " * 40).source_tokens) == run.config.model.max_length


def test_unknown_parts_have_their_names(run: Run) -> None:
    traced = trace(run, "the ☃ sleeps", prefix="☃ le")
    assert "‹unknown: ☃›" in traced.source_tokens
    assert all(one.text.startswith("☃ le") for one in traced.finished)
