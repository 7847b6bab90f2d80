"""A model small enough to know by heart: search needs a step, and a table is one."""

from __future__ import annotations

import itertools
import math
import random
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import pytest
import torch
from torch import Tensor

from pellucid.kernels.compiled import use_kernels
from pellucid.search.options import Hypothesis, SearchOptions, Specials, length_penalty

SPECIALS = Specials(bos=2, eos=3, pad=0)


@dataclass
class LookupTable:
    """Logits drawn once for each (sentence, prefix), by a hash: the same in any batch, in any order.

    A source is a list of sentence ids; the state is each row's (sentence id, prefix), so that a wrong `select` shows.
    `kind` is "random", or "wild" for infinities, ties and rows with nothing possible, or a fixed row of logits.
    """

    vocabulary: int = 6
    kind: str | tuple[float, ...] = "random"
    seed: int = 0
    calls: list[tuple[str, list[int]]] = field(default_factory=list)
    known: dict[tuple[int, tuple[int, ...]], list[float]] = field(default_factory=dict)

    def start(self, source: Sequence[int]) -> list[tuple[int, tuple[int, ...]]]:
        return [(sentence, ()) for sentence in source]

    def step(
        self, state: list[tuple[int, tuple[int, ...]]], tokens: Tensor
    ) -> tuple[Tensor, list[tuple[int, tuple[int, ...]]]]:
        assert tokens.dtype == torch.int64
        assert tokens.shape == (len(state),)
        assert all(0 <= token < self.vocabulary for token in tokens.tolist())
        self.calls.append(("step", [sentence for sentence, _ in state]))
        state = [(sentence, (*prefix, token)) for (sentence, prefix), token in zip(state, tokens.tolist(), strict=True)]
        return torch.tensor([self.logits(*row) for row in state]), state

    def select(self, state: list[tuple[int, tuple[int, ...]]], rows: Tensor) -> list[tuple[int, tuple[int, ...]]]:
        assert rows.dtype == torch.int64
        assert rows.tolist() != list(range(len(state))), "a select that changes nothing"
        self.calls.append(("select", rows.tolist()))
        return [state[row] for row in rows.tolist()]

    def logits(self, sentence: int, prefix: tuple[int, ...]) -> list[float]:
        if not isinstance(self.kind, str):
            return list(self.kind)
        key = (sentence, prefix)
        if key not in self.known:
            draw = random.Random(zlib.crc32(repr((self.seed, key)).encode()))
            row = [draw.gauss(0, 2) for _ in range(self.vocabulary)]
            if self.kind == "wild":
                palette = draw.choice(
                    [[-math.inf], [0.0], [0.0, -math.inf], [math.inf, 1.0], [math.inf, -math.inf, 0.0], [3e38, -3e38]]
                )
                row = [draw.choice([value, *palette]) for value in row] if draw.random() < 0.5 else row
                row = [draw.choice(palette) for _ in row] if draw.random() < 0.3 else row
            self.known[key] = row
        return self.known[key]

    def log_p(self, sentence: int, prefix: tuple[int, ...]) -> list[float]:
        """The log softmax of one row (finite logits)."""
        row: list[float] = torch.log_softmax(torch.tensor([self.logits(sentence, prefix)]), -1)[0].tolist()
        return row


def allowed(generated: tuple[int, ...], prefix: Sequence[int], vocabulary: int, options: SearchOptions) -> list[int]:
    """The tokens that the rules leave open after `generated`, in the plainest words."""
    t, n = len(generated), options.no_repeat_ngram
    if t < len(prefix):
        return [prefix[t]]
    seen = {generated[i : i + n] for i in range(t - n + 1)} if n else set()
    tokens = [
        token
        for token in range(vocabulary)
        if token not in (SPECIALS.pad, SPECIALS.bos)
        and not (token == SPECIALS.eos and t < options.min_length)
        and not (n and len(generated) >= n - 1 and (*generated[t - n + 1 :], token) in seen)
    ]
    return tokens or [SPECIALS.eos]


def outcomes(
    table: LookupTable, sentence: int, options: SearchOptions, prefix: Sequence[int] = ()
) -> Iterator[Hypothesis]:
    """Every sequence that a search can return: those that end, and those cut at the maximum length."""

    def walk(generated: tuple[int, ...], terms: tuple[float, ...]) -> Iterator[Hypothesis]:
        log_p = table.log_p(sentence, (SPECIALS.bos, *generated))
        for token in allowed(generated, prefix, table.vocabulary, options):
            longer, longer_terms = (*generated, token), (*terms, log_p[token])
            if token == SPECIALS.eos or len(longer) == options.max_length:
                yield as_hypothesis(longer, longer_terms, options)
            else:
                yield from walk(longer, longer_terms)

    return walk((), ())


def as_hypothesis(tokens: tuple[int, ...], terms: tuple[float, ...], options: SearchOptions) -> Hypothesis:
    *_, total = itertools.accumulate(terms)
    finished = tokens[-1] == SPECIALS.eos
    score = total / length_penalty(len(tokens), options.length_penalty)
    return Hypothesis(tokens[:-1] if finished else tokens, score, total, terms, finished)


def plain_beam_search(
    table: LookupTable, sentence: int, options: SearchOptions, prefix: Sequence[int] = ()
) -> list[Hypothesis]:
    """Beam search in lists, one sentence at a time, always to the maximum length: what the early stop must equal."""
    k = options.beam_size
    beams: list[tuple[float, tuple[int, ...], tuple[float, ...]]] = [(0.0, (), ())]
    found: list[Hypothesis] = []
    for length in range(1, options.max_length + 1):
        candidates = []
        for total, generated, terms in beams:
            log_p = table.log_p(sentence, (SPECIALS.bos, *generated))
            tokens = allowed(generated, prefix, table.vocabulary, options)
            for token in sorted(tokens, key=lambda token: -log_p[token]):
                candidates.append((total + log_p[token], (*generated, token), (*terms, log_p[token])))
        candidates = sorted(candidates, key=lambda candidate: -candidate[0])[: 2 * k]
        for rank, (_, generated, terms) in enumerate(candidates):
            if rank < k and (generated[-1] == SPECIALS.eos or length == options.max_length):
                found.append(as_hypothesis(generated, terms, options))
        beams = [candidate for candidate in candidates if candidate[1][-1] != SPECIALS.eos][:k]
    return sorted(found, key=lambda each: -each.score)[: options.n_best]


@pytest.fixture(autouse=True, scope="module")
def plain_ranking() -> None:
    """Log-probabilities are compared to the last bit, so they are torch's, whichever tests ran before."""
    use_kernels(torch.device("cpu"), False)


@pytest.fixture(scope="session")
def specials() -> Specials:
    return SPECIALS


@pytest.fixture(scope="session")
def lookup_table() -> type[LookupTable]:
    return LookupTable


@pytest.fixture(scope="session")
def every_outcome() -> Callable[..., Iterator[Hypothesis]]:
    return outcomes


@pytest.fixture(scope="session")
def beam_search_without_early_stop() -> Callable[..., list[Hypothesis]]:
    return plain_beam_search
