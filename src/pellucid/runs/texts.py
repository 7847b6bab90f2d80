"""Texts in, texts out: tokenise, batch by length, search, put back in order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from pellucid.config import DecodeConfig
from pellucid.data.corpus import shorten, source_ids
from pellucid.data.tokenizers.build import Tokenizers
from pellucid.data.tokenizers.interface import BOS, EOS, PAD
from pellucid.search.options import Hypothesis, SearchOptions, Specials
from pellucid.engine.workers import each

SPECIALS = Specials(bos=BOS, eos=EOS, pad=PAD)
ENGINE_TOKENS = 1024  # of a batch's sources: as many as the caches of a processor hold the keys and values of


@dataclass(frozen=True)
class Candidate:
    """One way to say it.

    Attributes:
        text: detokenised.  tokens: its pieces.
        score: log-probability over the length penalty.  log_probability: of the whole, in nats, eos included.
        finished: it ended by itself; otherwise it was stopped at `decode.max_length`, and has no eos.
    """

    text: str
    tokens: tuple[str, ...]
    score: float
    log_probability: float
    finished: bool = True


@dataclass(frozen=True)
class Generated:
    """What came out for one line: the best text, and all hypotheses, best first."""

    hypotheses: tuple[Candidate, ...]

    @property
    def text(self) -> str:
        """The best hypothesis' text."""
        return self.hypotheses[0].text

    @property
    def score(self) -> float:
        """The best hypothesis' score."""
        return self.hypotheses[0].score

    @property
    def tokens(self) -> tuple[str, ...]:
        """The best hypothesis' pieces."""
        return self.hypotheses[0].tokens


EMPTY = Generated((Candidate("", (), 0.0, 0.0),))


def search_options(config: DecodeConfig, scores: bool = True) -> SearchOptions:
    """The part of the configuration that search sees.

    Args:
        scores: whether anybody will look at them.

    Raises:
        ValueError: a value out of range.
    """
    return SearchOptions(beam_size=config.beam_size, length_penalty=config.length_penalty,
                         min_length=config.min_length, max_length=config.max_length, n_best=config.n_best,
                         no_repeat_ngram=config.no_repeat_ngram, sample=config.sample,
                         temperature=config.temperature, top_k=config.top_k, top_p=config.top_p, seed=config.seed,
                         scores=scores)


class Searcher(Protocol):
    """What searches: a model, or what was packed of one.

    Attributes:
        threads: batches that it searches side by side, each on a thread of its own.
        batch_tokens: source tokens of a batch.
    """

    threads: int
    batch_tokens: int

    def search(self, sources: Sequence[NDArray[np.int32]], options: SearchOptions, prefixes: Sequence[Sequence[int]],
               numbers: Sequence[int]) -> list[list[Hypothesis]]:
        """For each source its hypotheses, best first; arguments as those of `decode.search.search`."""

    def use_threads(self, count: int) -> None:
        """How many threads one search takes, when the calling thread calls it."""


def answers(searcher: Searcher, tokenizers: Tokenizers, texts: Sequence[str], options: SearchOptions, max_source: int,
            prefixes: Sequence[str] | None = None, progress: Callable[[int], None] = lambda done: None,
            first: int = 0) -> list[Generated]:
    """For each text, what is found for it; an empty line for an empty line.

    Args:
        max_source: longer sources are cut to so many tokens, eos among them.
        prefixes: for each text, how its output must begin.
        progress: called with the number of texts done.
        first: the number of the first text; a sample depends on the seed and on its text's number.

    Raises:
        ValueError: not as many prefixes as texts.
    """
    if prefixes is not None and len(prefixes) != len(texts):
        raise ValueError(f"{len(texts)} texts and {len(prefixes)} prefixes")
    filled = [i for i, text in enumerate(texts) if text.strip()]
    sources = [np.asarray(shorten(ids, max_source), dtype=np.int32)
               for ids in source_ids([texts[i] for i in filled], tokenizers, classify=False)]
    starts = tokenizers.target.encode_batch([prefixes[i] for i in filled]) if prefixes else [[]] * len(filled)
    results = [EMPTY] * len(texts)
    done = len(texts) - len(filled)

    def decode(group: Sequence[int]) -> list[list[Hypothesis]]:
        return searcher.search([sources[i] for i in group], options, [starts[i] for i in group],
                               [first + filled[i] for i in group])

    groups = list(length_groups([len(ids) for ids in sources], searcher.batch_tokens))
    for group, found in zip(groups, each(decode, groups, searcher.threads, searcher.use_threads), strict=True):
        for i, hypotheses in zip(group, found, strict=True):
            results[filled[i]] = Generated(tuple(_candidate(h, tokenizers) for h in hypotheses))
        done += len(group)
        progress(done)
    return results


def batch_tokens(by_engine: bool, config: DecodeConfig) -> int:
    """Source tokens of a batch; 1 for sentences that must be alone to come out exactly."""
    if by_engine:  # its rows do not see each other anyway
        return min(config.batch_tokens, ENGINE_TOKENS)
    return 1 if config.exact else config.batch_tokens


def _candidate(hypothesis: Hypothesis, tokenizers: Tokenizers) -> Candidate:
    ids = list(hypothesis.tokens)
    return Candidate(tokenizers.target.decode(ids), tuple(tokenizers.target.pieces(ids)), hypothesis.score,
                     hypothesis.log_probability, hypothesis.finished)


def length_groups(lengths: Sequence[int], budget: int) -> Iterator[list[int]]:
    """Indices of about equal lengths together, longest first, at most `budget` padded tokens a group (or one)."""
    order = sorted(range(len(lengths)), key=lambda i: (-lengths[i], i))
    group: list[int] = []
    for i in order:
        if group and (len(group) + 1) * lengths[group[0]] > budget:
            yield group
            group = []
        group.append(i)
    if group:
        yield group
