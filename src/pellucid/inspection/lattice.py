r"""The lattice of a search: what becomes of every candidate of every step, and for which length penalties it holds.

In logarithms a score falls on a line in α: :math:`\ln(-s) = \ln(-\log P) - \alpha c`, :math:`c = \ln((5 + |Y|) / 6)`.
The bound on what may still end has the largest c: what it cannot beat at one α, it cannot beat at any smaller one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from pellucid.data.tokenizers.interface import EOS, Tokenizer
from pellucid.errors import UserError
from pellucid.inspection.answers import Column, Ended, Node, State
from pellucid.inspection.examples import token_names
from pellucid.runs.openings import Opening
from pellucid.search.beam_search import IMPOSSIBLE, NBest
from pellucid.search.observer import Decisions
from pellucid.search.options import SearchOptions, hypothesis, largest_penalties, length_penalty

ENOUGH_NODES = 500  # a trace that has so many goes on for the α of the options alone
MOST_NODES = 20_000
MARGIN = 1e-9  # in logarithms of scores: rounding must not decide which α a trace holds


class Enough(Exception):
    """The trace is long enough."""


class Tracer:
    """Writes down, as an observer, what a search for one sentence decides.

    Args:
        options: of the search itself, which may be watched with a larger length penalty, so that it goes on.
        each_step: called at each step, before it is written down.

    Attributes:
        steps, finished: as of the trace.  sequences: the tokens of what finished.
        search_steps: of the search itself.  live: the log-probability of the best that lives.
    """

    def __init__(self, tokenizer: Tokenizer, options: SearchOptions, opening: Opening,
                 each_step: Callable[[], None] | None = None) -> None:
        self._each_step = each_step
        self._tokenizer, self._options, self._opening = tokenizer, options, opening
        self._largest, self._best = largest_penalties(options), NBest(options.n_best)
        self._ids: dict[tuple[int, ...], int] = {}  # of the nodes, by their tokens
        self._names: dict[int, str] = {}
        self.steps: list[Column] = []
        self.finished: list[Ended] = []
        self.sequences: list[tuple[int, ...]] = []
        self.search_steps, self.live = 0, -math.inf

    def step(self, decisions: Decisions) -> None:
        """Writes down one step.

        Raises:
            Enough: this goes on for penalties that are not the options' alone, and for long.
            UserError: it goes on for too long.
        """
        if self._each_step is not None:
            self._each_step()
        candidates = decisions.candidates
        totals: list[float] = candidates.totals[0].tolist()
        ranks = [rank for rank, total in enumerate(totals) if total > -math.inf]
        finished, kept = decisions.finished[0].tolist(), decisions.kept[0].tolist()
        self.live = max((totals[rank] for rank in ranks if kept[rank]), default=-math.inf)
        last_kept = min((totals[rank] for rank in ranks if kept[rank]), default=totals[0])
        nodes = []
        for rank in ranks:
            tokens, terms = candidates.sequence(decisions.rows, 0, rank)
            state: State = "finished" if finished[rank] else "kept" if kept[rank] else "pruned"
            is_over = tokens[-1] == EOS or len(tokens) == self._options.max_length
            rival = totals[self._options.beam_size - 1] if is_over else last_kept
            node = self._node(tokens, totals[rank], terms[-1], rank, state, rival)
            nodes.append(node)
            if finished[rank]:
                self._end(node, tokens, terms)
        self.steps.append(Column(len(self.steps) + 1, tuple(nodes)))
        self._decide()

    def _node(self, tokens: list[int], total: float, term: float, rank: int, state: State, rival: float) -> Node:
        number, token = len(self._ids), tokens[-1]
        self._ids[tuple(tokens)] = number
        if token not in self._names:
            self._names[token] = self._named([token])[0]
        return Node(number, self._ids.get(tuple(tokens[:-1])), self._names[token], token, total,
                    max(term, IMPOSSIBLE), rank, state, rival - total if state == "pruned" else None, self._say(tokens))

    def _end(self, node: Node, tokens: list[int], terms: list[float]) -> None:
        alpha = self._options.length_penalty
        score = node.log_probability / length_penalty(len(tokens), alpha)
        if self._best.admits(score):
            self._best.add(score, hypothesis(tokens, terms, EOS, alpha))
        self.sequences.append(tuple(tokens))
        self.finished.append(Ended(node.id, node.text, self._named(tokens), tuple(tokens), len(tokens),
                                   node.log_probability, tuple(max(term, IMPOSSIBLE) for term in terms), score,
                                   tokens[-1] == EOS))

    def _decide(self) -> None:
        """Whether the search itself is over, and whether this is to go on."""
        length = len(self.steps)
        is_over = self.live == -math.inf or not self._best.admits(self.live / self._largest[length])
        if is_over and self.search_steps == 0:
            self.search_steps = length
        if is_over and self.live > -math.inf and len(self._ids) >= ENOUGH_NODES:
            raise Enough
        if len(self._ids) > MOST_NODES:
            raise UserError(f"this search has more than {MOST_NODES:,} candidates, too many to be looked at",
                            fix="take a smaller decode.beam_size or decode.max_length")

    def decided_up_to(self) -> float:
        """The largest α for which the search would be over here."""
        return decided_up_to(self.finished, self.live, (len(self.steps) + 1, self._options.max_length),
                             self._options.n_best)

    def _say(self, tokens: list[int]) -> str:
        return self._opening.say(tokens[:-1] if tokens[-1] == EOS else tokens)

    def _named(self, tokens: list[int]) -> tuple[str, ...]:
        return token_names(self._tokenizer, np.asarray(tokens, dtype=np.int32))


def decided_up_to(finished: Sequence[Ended], live: float, lengths: tuple[int, int], n_best: int) -> float:
    """The largest α for which the `n_best` best of what has ended are ahead of all that what lives can become.

    Args:
        live: the largest log-probability of what lives.
        lengths: that it can have at least, and at most, when it ends.
    """
    found = []
    for one in finished:
        if one.log_probability == 0:
            found.append(math.inf)
            continue
        ahead = math.log(live / one.log_probability) - MARGIN if live < 0 else -math.inf
        longest = _logarithm(lengths[1] if ahead >= 0 else lengths[0])  # L of the bound is the largest lp
        found.append(ahead / (longest - _logarithm(one.length)))
    return sorted(found)[-n_best]


def _logarithm(length: int) -> float:
    """c of a hypothesis with so many tokens."""
    return math.log((5 + length) / 6)
