"""Beam search with a length penalty: the hypotheses Y that maximise s(Y) = log P(Y | x) / lp(Y).

Section 6.1 of the paper; lp(Y) from Wu et al. 2016, eq. (14). At each step the 2k best extensions of a sentence's k
hypotheses are ranked: those among the first k that end in `eos` are finished, the first k of the others live on (k of
2k can end, so k are always left). The n_best finished hypotheses are kept; a sentence stops by itself, when nothing
live can come in among them.
"""

from __future__ import annotations

import bisect
from typing import Any

import torch
from torch import Tensor

from pellucid.search.constraints import Rules
from pellucid.search.observer import Decisions, Observer
from pellucid.search.options import Hypothesis, hypothesis, largest_penalties, length_penalty
from pellucid.search.ranking import best_tokens
from pellucid.search.rows import Candidates, Rows
from pellucid.search.step import State, Step

# In the place of -inf while searching, so that a hypothesis forced through the impossible still ranks behind all
# others, and before the dead ones, which are at -inf.
IMPOSSIBLE = -1e100


class NBest:
    """The `n_best` best finished hypotheses of a sentence so far; among equals the one that came first stays."""

    def __init__(self, n_best: int) -> None:
        self.n_best = n_best
        self.negated_scores: list[float] = []  # ascending
        self.hypotheses: list[Hypothesis] = []

    def admits(self, score: float) -> bool:
        """Whether a hypothesis with this score would come in."""
        return len(self.hypotheses) < self.n_best or score > -self.negated_scores[-1]

    def add(self, score: float, new: Hypothesis) -> None:
        """Let it in, behind its equals, and the last one out if they are too many."""
        place = bisect.bisect_right(self.negated_scores, -score)
        self.negated_scores.insert(place, -score)
        self.hypotheses.insert(place, new)
        del self.negated_scores[self.n_best :], self.hypotheses[self.n_best :]


def beam_search(step: Step[Any, State], state: State, rules: Rules,
                observer: Observer | None = None) -> list[list[Hypothesis]]:
    """Up to `n_best` hypotheses of each sentence, best first; `state` has a row a sentence."""
    options, k, eos = rules.options, rules.options.beam_size, rules.specials.eos
    largest = largest_penalties(options)
    results = [NBest(options.n_best) for _ in rules.indices]
    open_results = results  # of the sentences still in the batch
    beam = Rows.empty(torch.arange(len(results), device="cpu"))  # where what is so small is found fastest
    totals = torch.zeros(len(results), 1, dtype=torch.float64, device="cpu")  # [N, 1], from the second step on [N, k]
    latest = torch.full_like(beam.sentences, rules.specials.bos)
    for length in range(1, options.max_length + 1):
        logits, state = step.step(state, latest)
        candidates = extend(*best_tokens(logits, beam, rules, 2 * k), totals, 2 * k)
        collect(candidates, beam, open_results, rules)
        if observer is not None:
            observer.step(decisions(candidates, beam, rules))
        if length == options.max_length:
            break

        survivors = candidates.gather(unfinished_first(candidates, eos)[:, :k])
        totals = survivors.totals.masked_fill(survivors.tokens == eos, -torch.inf)
        undecided = still_undecided(totals[:, 0], open_results, largest[length])
        if not undecided:
            break
        if len(undecided) < len(open_results):
            open_results = [open_results[place] for place in undecided]
            places = torch.tensor(undecided, device="cpu")
            totals, survivors = totals[places], Candidates(*(each[places] for each in survivors))
        parents, latest = survivors.parents.flatten(), survivors.tokens.flatten()  # [N·k]
        if not is_identity(parents, len(beam.sentences)):
            state, beam = step.select(state, parents), beam.select(parents)
        beam = beam.append(latest, survivors.log_p.flatten())
    return [each.hypotheses for each in results]


def still_undecided(best_totals: Tensor, results: list[NBest], largest_penalty: float) -> list[int]:
    """The places of the sentences whose best unfinished hypothesis may still come in among its results. For the
    others, stopping changes nothing:

    Let a hypothesis have log-probability a ≤ 0 and n tokens. Whatever it becomes has m tokens, n < m ≤ max_length, and
    log-probability b ≤ a, for each further term is a log-probability: at most 0, in rounded arithmetic too (see
    `best_tokens`; rounded sums and quotients keep order). Its score is then b / lp(m) ≤ a / lp(m) ≤ a / L with
    L = max lp(m) over those m, because a ≤ 0 and 0 < lp(m) ≤ L. This holds for every α: L is lp(max_length) for α > 0,
    lp(n + 1) for α < 0. Where the bound a / L of the largest a would not come in, nothing will.

    Args:
        best_totals: [N], the largest a of each sentence, -inf where nothing can go on.
        largest_penalty: L.
    """
    bounds = (best_totals / largest_penalty).tolist()
    return [place for place, bound in enumerate(bounds) if bound > -torch.inf and results[place].admits(bound)]


def is_identity(rows: Tensor, count: int) -> bool:
    """Whether choosing `rows` of `count` leaves all where they are."""
    return len(rows) == count and bool((rows[1:] > rows[:-1]).all())


def extend(values: Tensor, ids: Tensor, totals: Tensor, count: int) -> Candidates:
    """The `count` best extensions of each sentence's hypotheses; ties go to the earlier hypothesis, then the lower id.

    Args:
        values, ids: [N·b, c], the best tokens of each hypothesis; they are left as they are.
        totals: [N, b], the log-probability of each hypothesis, -inf if it is dead.
    """
    sentences, beams = totals.shape
    ranks = values.to(torch.float64, copy=True)
    ranks[:, 0].clamp_(min=IMPOSSIBLE)
    sums = (totals.view(-1, 1) + ranks).view(sentences, beams * count)
    sums, order = sums.sort(dim=1, descending=True, stable=True)
    order = order[:, :count]
    first_rows = torch.arange(0, sentences * beams, beams, device=order.device)[:, None]
    return Candidates(
        totals=sums[:, :count], parents=first_rows + order // count, tokens=ids.view(sentences, -1).gather(1, order),
        log_p=values.view(sentences, -1).gather(1, order))


def unfinished_first(candidates: Candidates, eos: int) -> Tensor:
    """The columns [N, c], those that end moved to the back, in order otherwise."""
    return (candidates.tokens == eos).byte().argsort(dim=1, stable=True)


def ended(candidates: Candidates, beam: Rows, rules: Rules) -> Tensor:
    """Which of the candidates end [N, c]: of the first k those in `eos`, at the maximum length all of them."""
    ends = candidates.totals > -torch.inf
    ends[:, rules.options.beam_size :] = False
    if beam.tokens.shape[1] + 1 < rules.options.max_length:
        ends &= candidates.tokens == rules.specials.eos
    return ends


def collect(candidates: Candidates, beam: Rows, results: list[NBest], rules: Rules) -> None:
    """Let into `results` what ends among the candidates of each sentence."""
    alpha, length = rules.options.length_penalty, beam.tokens.shape[1] + 1
    places, columns = ended(candidates, beam, rules).nonzero(as_tuple=True)
    scores = (candidates.totals[places, columns] / length_penalty(length, alpha)).tolist()
    for score, place, column in zip(scores, places.tolist(), columns.tolist(), strict=True):
        if results[place].admits(score):
            sequence = candidates.sequence(beam, place, column)
            results[place].add(score, hypothesis(*sequence, rules.specials.eos, alpha))


def decisions(candidates: Candidates, beam: Rows, rules: Rules) -> Decisions:
    """What becomes of the candidates, for who watches."""
    finished, eos = ended(candidates, beam, rules), rules.specials.eos
    kept = torch.zeros_like(finished)
    if beam.tokens.shape[1] + 1 < rules.options.max_length:
        kept.scatter_(1, unfinished_first(candidates, eos)[:, : rules.options.beam_size], True)
        kept &= (candidates.tokens != eos) & (candidates.totals > -torch.inf)
    return Decisions(beam, candidates, kept, finished)
