"""Beam search with a length penalty: the hypotheses Y that maximise s(Y) = log P(Y | x) / lp(Y).

Section 6.1 of the paper; lp(Y) from Wu et al. 2016, eq. (14). At each step the 2k best extensions of a sentence's k
hypotheses are ranked: those among the first k that end in `eos` are finished, the first k of the others live on (k of
2k can end, so k are always left). The n_best finished hypotheses are kept; a sentence stops by itself, when nothing
live can come in among them.
"""

from __future__ import annotations

import bisect
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor

from pellucid.search.constraints import Rules
from pellucid.search.options import Hypothesis, hypothesis, largest_penalties, length_penalty
from pellucid.search.ranking import best_tokens
from pellucid.search.rows import Rows
from pellucid.search.step import Step

Source = TypeVar("Source")
State = TypeVar("State")

# In the place of -inf while searching, so that a hypothesis forced through the impossible still ranks behind all
# others, and before the dead ones, which are at -inf.
IMPOSSIBLE = -1e100


class Candidates(NamedTuple):
    """The extensions of each sentence's hypotheses, best first; -inf in `totals` marks one that does not exist."""

    totals: Tensor  # [N, c], float64: log-probability of the extended hypothesis
    parents: Tensor  # [N, c]: the row it extends
    tokens: Tensor  # [N, c]
    log_p: Tensor  # [N, c]: the model's log-probability of the token

    def gather(self, columns: Tensor) -> Candidates:
        """Columns [N, c'] of these."""
        return Candidates(*(each.gather(1, columns) for each in self))


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


def beam_search(step: Step[Source, State], state: State, rules: Rules) -> list[list[Hypothesis]]:
    """Up to `n_best` hypotheses of each sentence, best first; `state` has a row a sentence."""
    options, k, eos = rules.options, rules.options.beam_size, rules.specials.eos
    largest = largest_penalties(options)
    results = [NBest(options.n_best) for _ in rules.indices]
    open_results = results  # of the sentences still in the batch
    beam = Rows.empty(torch.arange(len(results)))
    totals = torch.zeros(len(results), 1, dtype=torch.float64)  # [N, 1], from the second step on [N, k]
    latest = torch.full_like(beam.sentences, rules.specials.bos)
    for length in range(1, options.max_length + 1):
        logits, state = step.step(state, latest)
        beam, totals = beam.to(logits.device), totals.to(logits.device)
        candidates = extend(*best_tokens(logits, beam, rules, 2 * k), totals, 2 * k)
        collect(candidates, beam, open_results, rules)
        if length == options.max_length:
            break

        survivors = candidates.gather(unfinished_first(candidates, eos)[:, :k])
        totals = survivors.totals.masked_fill(survivors.tokens == eos, -torch.inf)
        undecided = still_undecided(totals[:, 0], open_results, largest[length])
        if not undecided:
            break
        if len(undecided) < len(open_results):
            open_results = [open_results[place] for place in undecided]
            places = torch.tensor(undecided, device=totals.device)
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
    """The columns [N, c], those that end or do not exist moved to the back, in order otherwise."""
    over = (candidates.tokens == eos) | (candidates.totals == -torch.inf)
    return over.byte().argsort(dim=1, stable=True)


def collect(candidates: Candidates, beam: Rows, results: list[NBest], rules: Rules) -> None:
    """Let into `results` what ends among the first k candidates of each sentence, at the maximum length all of them."""
    options, eos = rules.options, rules.specials.eos
    length = beam.tokens.shape[1] + 1
    totals, tokens = candidates.totals[:, : options.beam_size], candidates.tokens[:, : options.beam_size]
    ends = totals > -torch.inf
    if length < options.max_length:
        ends &= tokens == eos
    places, columns = ends.nonzero(as_tuple=True)
    if places.shape[0] == 0:
        return
    scores = (totals[places, columns] / length_penalty(length, options.length_penalty)).tolist()
    for score, place, column in zip(scores, places.tolist(), columns.tolist(), strict=True):
        if results[place].admits(score):
            row = int(candidates.parents[place, column])
            ids = [*beam.tokens[row].tolist(), int(tokens[place, column])]
            log_p = [*beam.log_p[row].tolist(), float(candidates.log_p[place, column])]
            results[place].add(score, hypothesis(ids, log_p, eos, options.length_penalty))
