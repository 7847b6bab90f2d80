"""Greedy search: y_t = argmax p(y | y_<t, x), the lowest id among equals."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import torch
from torch import Tensor

from pellucid.decode.constraints import Rules, constrain
from pellucid.decode.distribution import log_probabilities, top_candidates
from pellucid.decode.options import Hypothesis
from pellucid.decode.rows import Rows, hypothesis
from pellucid.decode.step import Step

Source = TypeVar("Source")
State = TypeVar("State")

Choose = Callable[[Tensor, Tensor, int], tuple[Tensor, Tensor]]


def greedy_search(step: Step[Source, State], state: State, rules: Rules) -> list[list[Hypothesis]]:
    """The one greedy hypothesis of each sentence; `state` has a row a sentence."""
    sentences = torch.arange(len(rules.indices))
    return [[only] for only in walk(step, state, sentences, rules, most_probable)]


def most_probable(log_p: Tensor, rows: Tensor, length: int) -> tuple[Tensor, Tensor]:
    """The id with the highest log_p [R, V] in each row and its value, both [R]."""
    values, ids = top_candidates(log_p, 1)  # [R, 1]
    return ids.squeeze(1), values.squeeze(1)


def walk(step: Step[Source, State], state: State, sentences: Tensor, rules: Rules, choose: Choose) -> list[Hypothesis]:
    """Extend each row by one chosen token at a time until it ends; a row that has ended leaves the batch.

    Args:
        state: one row for each entry of `sentences`.
        sentences: [R], the position in the batch of each row's sentence, ascending.
        choose: (log_p [R', V] under the rules, rows [R'], tokens so far) → the ids [R'] and their values [R'];
            `rows` numbers the rows as they were at the start.

    Returns:
        R hypotheses, in the order of the rows.
    """
    options, eos = rules.options, rules.specials.eos
    done: dict[int, Hypothesis] = {}
    live, numbers = Rows.empty(sentences), torch.arange(sentences.shape[0])
    latest = torch.full_like(sentences, rules.specials.bos)
    for length in range(1, options.max_length + 1):
        logits, state = step.step(state, latest)
        live, numbers = live.to(logits.device), numbers.to(logits.device)
        log_p = log_probabilities(logits, live.sentences, rules.indices)
        log_p, last_resort = constrain(log_p, live.tokens, live.sentences, rules)
        latest, chosen_log_p = last_resort.settle(*choose(log_p, numbers, length - 1))
        live = live.append(latest, chosen_log_p.clamp(max=0.0))  # a rounded log softmax may exceed it

        stops = latest == eos
        if length == options.max_length:
            stops = torch.ones_like(stops)
        if not bool(stops.any()):
            continue
        ended = live.select(stops.nonzero().squeeze(1))
        for number, tokens, terms in zip(
            numbers[stops].tolist(), ended.tokens.tolist(), ended.log_p.tolist(), strict=True
        ):
            done[number] = hypothesis(tokens, terms, eos, options.length_penalty)
        kept = (~stops).nonzero().squeeze(1)
        if kept.shape[0] == 0:
            break
        state, live, numbers, latest = step.select(state, kept), live.select(kept), numbers[kept], latest[kept]
    return [done[number] for number in range(sentences.shape[0])]
