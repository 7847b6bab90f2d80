"""Greedy search: y_t = argmax p(y | y_<t, x), the lowest id among equals."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from pellucid.search.constraints import Rules
from pellucid.search.observer import Decisions, Observer
from pellucid.search.options import Hypothesis, hypothesis
from pellucid.search.ranking import best_tokens
from pellucid.search.rows import Candidates, Rows
from pellucid.search.step import State, Step

Choose = Callable[[Tensor, Rows, Tensor, Rules], tuple[Tensor, Tensor]]


def greedy_search(step: Step[Any, State], state: State, rules: Rules,
                  observer: Observer | None = None) -> list[list[Hypothesis]]:
    """The one greedy hypothesis of each sentence; `state` has a row a sentence."""
    sentences = torch.arange(len(rules.indices), device="cpu")
    return [[only] for only in walk(step, state, sentences, rules, most_probable, observer)]


def most_probable(logits: Tensor, live: Rows, numbers: Tensor, rules: Rules) -> tuple[Tensor, Tensor]:
    """The most probable id that may follow each row and its log-probability, both [R]."""
    values, ids = best_tokens(logits, live, rules, 1)  # [R, 1]
    return ids.squeeze(1), values.squeeze(1)


def walk(step: Step[Any, State], state: State, sentences: Tensor, rules: Rules, choose: Choose,
         observer: Observer | None) -> list[Hypothesis]:
    """Extend each row by one chosen token at a time until it ends; a row that has ended leaves the batch.

    Args:
        state: one row for each entry of `sentences`.
        sentences: [R], the position in the batch of each row's sentence, ascending.
        choose: (logits [R', V], the rows so far, their numbers [R'] at the start, the rules) → the ids [R'] and their
            log-probabilities [R'].

    Returns:
        R hypotheses, in the order of the rows.
    """
    options, eos = rules.options, rules.specials.eos
    done: dict[int, Hypothesis] = {}
    live, numbers = Rows.empty(sentences), torch.arange(sentences.shape[0], device="cpu")
    latest = torch.full_like(sentences, rules.specials.bos)
    for length in range(1, options.max_length + 1):
        logits, state = step.step(state, latest)
        latest, log_p = choose(logits, live, numbers, rules)
        stops = latest == eos
        if length == options.max_length:
            stops = torch.ones_like(stops)
        if observer is not None:
            observer.step(Decisions(live, only_candidates(live, latest, log_p), ~stops[:, None], stops[:, None]))
        live = live.append(latest, log_p)
        if not bool(stops.any()):
            continue
        ended = live.select(stops.nonzero().squeeze(1))
        for number, tokens, terms in zip(
            numbers[stops].tolist(), ended.tokens.tolist(), ended.log_p.tolist(), strict=True):
            done[number] = hypothesis(tokens, terms, eos, options.length_penalty)
        others = (~stops).nonzero().squeeze(1)
        if others.shape[0] == 0:
            break
        state, live, numbers, latest = step.select(state, others), live.select(others), numbers[others], latest[others]
    return [done[number] for number in range(sentences.shape[0])]


def only_candidates(live: Rows, tokens: Tensor, log_p: Tensor) -> Candidates:
    """The tokens [R] that were chosen, as the one candidate of each row; log_p [R]."""
    totals = live.append(tokens, log_p).log_p.double().cumsum(1)[:, -1:]
    return Candidates(totals, torch.arange(len(tokens), device=tokens.device)[:, None], tokens[:, None], log_p[:, None])
