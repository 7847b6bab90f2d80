"""Sampling: y_t ~ p(y | y_<t, x)^(1/T), among the most probable tokens only if asked.

Each sample has its own stream of uniform numbers, set by (seed, sentence index, number of the sample), and its t-th
token uses the t-th of them. So what is drawn for a sentence does not depend on the batch it is in, on its place there,
or on how many samples and how long a hypothesis were asked for.
"""

from typing import Any

import numpy
import torch
from torch import Tensor

from pellucid.search.constraints import Rules
from pellucid.search.distribution import top_candidates
from pellucid.search.greedy import walk
from pellucid.search.observer import Observer
from pellucid.search.options import Hypothesis, SearchOptions
from pellucid.search.ranking import under_rules
from pellucid.search.rows import Rows, ranked
from pellucid.search.step import State, Step

_NUCLEUS = 256  # tokens sorted in search of a nucleus before the whole vocabulary is: a sort is the dearest part


def sample(step: Step[Any, State], state: State, rules: Rules,
           observer: Observer | None = None) -> list[list[Hypothesis]]:
    """`n_best` draws for each sentence, best score first, repeated ones once; `state` has a row a sentence."""
    options, each = rules.options, rules.options.n_best
    rows = torch.arange(len(rules.indices), device="cpu").repeat_interleave(each)
    draws = uniforms(rules)  # [N·n_best, max_length]
    if each > 1:
        state = step.select(state, rows)

    def choose(logits: Tensor, live: Rows, numbers: Tensor, rules: Rules) -> tuple[Tensor, Tensor]:
        uniform = draws[numbers, live.tokens.shape[1]].to(logits.device)
        log_p, last_resort = under_rules(logits, live, rules)
        ids, values = last_resort.settle(*draw(log_p, uniform, options))
        return ids.cpu(), values.clamp(max=0.0).cpu()  # a rounded log softmax may exceed it

    samples = walk(step, state, rows, rules, choose, observer)
    return [ranked(samples[start : start + each]) for start in range(0, len(samples), each)]


def uniforms(rules: Rules) -> Tensor:
    """The uniform numbers in [0, 1) of every sample: [N · n_best, max_length], float64."""
    options = rules.options
    streams = [numpy.random.Generator(numpy.random.Philox(numpy.random.SeedSequence([options.seed, index, number])))
               for index in rules.indices for number in range(options.n_best)]
    return torch.from_numpy(numpy.stack([stream.random(options.max_length) for stream in streams]))


def draw(log_p: Tensor, uniform: Tensor, options: SearchOptions) -> tuple[Tensor, Tensor]:
    """One token a row by inversion: the first whose cumulative probability exceeds uniform · (what is kept).

    Args:
        log_p: [R, V]; -inf is never drawn, unless the row has nothing else.
        uniform: [R], float64, in [0, 1).

    Returns:
        The ids [R] and their log_p [R].
    """
    peak = log_p.amax(dim=1, keepdim=True).clamp(min=torch.finfo(log_p.dtype).min)
    probabilities = torch.softmax((log_p - peak).double() / options.temperature, dim=1)  # [R, V]
    ids, cumulative, total = _kept(log_p, probabilities, options)
    target = uniform[:, None] * total  # [R, 1], below the total: 1 - 2⁻⁵³ of it, the most there is, rounds down
    place = torch.searchsorted(cumulative, target, right=True).clamp(max=cumulative.shape[1] - 1)
    chosen = ids.gather(1, place)
    return chosen.squeeze(1), log_p.gather(1, chosen).squeeze(1)


def _kept(log_p: Tensor, probabilities: Tensor, options: SearchOptions) -> tuple[Tensor, Tensor, Tensor]:
    """The ids [R, m] to draw from, their cumulative probabilities [R, m], and how much of that counts [R, 1]."""
    vocabulary = log_p.shape[1]
    if options.top_k == 0 and options.top_p == 1:
        cumulative = probabilities.cumsum(dim=1)
        ids = torch.arange(vocabulary, device=log_p.device).expand_as(log_p)
        return ids, cumulative, cumulative[:, -1:]

    count = min(options.top_k or _NUCLEUS, vocabulary)
    ids, cumulative = _most_probable(log_p, probabilities, count)
    if options.top_k == 0 and bool((cumulative[:, -1] < options.top_p).any()):
        ids, cumulative = _most_probable(log_p, probabilities, vocabulary)
    mass = cumulative[:, -1:] if options.top_k else torch.ones_like(cumulative[:, -1:])
    # The nucleus: a token is in while the probability before it is below p; the first always is.
    nucleus = (cumulative[:, :-1] < options.top_p * mass).sum(dim=1, keepdim=True)
    return ids, cumulative, cumulative.gather(1, nucleus)


def _most_probable(log_p: Tensor, probabilities: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The `count` most probable ids [R, m] and their cumulative probabilities [R, m].

    The order is that of log_p: two tokens may round to one probability, and the greedy choice must come first.
    """
    ids = top_candidates(log_p, count)[1]
    return ids, probabilities.gather(1, ids).cumsum(dim=1)
