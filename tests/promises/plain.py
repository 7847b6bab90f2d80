"""Beam search in lists and in the plainest words, one sentence at a time, which says what becomes of every candidate:
what the search and its lattice are held to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from pellucid.search.options import SearchOptions

Tokens = tuple[int, ...]


class Decided(NamedTuple):
    """One candidate of a step."""

    tokens: Tokens  # of the hypothesis, without bos, eos among them
    total: float  # its log-probability
    rank: int
    state: str  # kept, finished or pruned
    lost_by: float | None


def plain_steps(log_p: Callable[[Tokens], list[float]], allowed: Callable[[Tokens], list[int]], options: SearchOptions,
                eos: int) -> Iterator[list[Decided]]:
    """What is decided at each step, to the maximum length or until nothing lives: greedily for a beam of one, where the
    search is over at the first end.

    Args:
        log_p: of every token that may follow these tokens.
        allowed: those that the rules leave open.
    """
    k = options.beam_size
    beams: list[tuple[Tokens, float]] = [((), 0.0)]
    for length in range(1, options.max_length + 1):
        found = []
        for tokens, total in beams:
            known = log_p(tokens)
            found += [((*tokens, token), total + known[token]) for token in sorted(allowed(tokens))]
        found = sorted(found, key=lambda one: -one[1])[: 2 * k if k > 1 else 1]  # stable: the earlier beam, lower token
        last = length == options.max_length
        going = [] if last else [one for one in found if one[0][-1] != eos][:k]
        decided = []
        for rank, (tokens, total) in enumerate(found):
            ends = last or tokens[-1] == eos
            if ends and rank < k:
                decided.append(Decided(tokens, total, rank, "finished", None))
            elif (tokens, total) in going:
                decided.append(Decided(tokens, total, rank, "kept", None))
            else:
                rival = found[k - 1] if ends else going[-1]
                decided.append(Decided(tokens, total, rank, "pruned", rival[1] - total))
        yield decided
        beams = going if k > 1 or not any(one.state == "finished" for one in decided) else []
        if not beams:
            return
