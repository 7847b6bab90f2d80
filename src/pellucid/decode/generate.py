"""Texts in, texts out: tokenise, batch by length, search, put back in order."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from pellucid.config import DecodeConfig
from pellucid.data.batching import pad
from pellucid.data.corpus import shorten, source_ids
from pellucid.data.tokenizers.build import Tokenizers
from pellucid.data.tokenizers.interface import BOS, EOS, PAD
from pellucid.decode.engine import Engine, step_for
from pellucid.decode.options import Hypothesis, SearchOptions, Specials
from pellucid.decode.search import search
from pellucid.decode.workers import each
from pellucid.model.transformer import Transformer

SPECIALS = Specials(bos=BOS, eos=EOS, pad=PAD)


@dataclass(frozen=True)
class Candidate:
    """One way to say it.

    Attributes:
        text: detokenised.  tokens: its pieces.
        score: log-probability over the length penalty.  log_probability: of the whole, in nats, eos included.
    """

    text: str
    tokens: tuple[str, ...]
    score: float
    log_probability: float


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


def search_options(config: DecodeConfig) -> SearchOptions:
    """The part of the configuration that search sees.

    Raises:
        ValueError: a value out of range.
    """
    return SearchOptions(beam_size=config.beam_size, length_penalty=config.length_penalty,
                         min_length=config.min_length, max_length=config.max_length, n_best=config.n_best,
                         no_repeat_ngram=config.no_repeat_ngram, sample=config.sample,
                         temperature=config.temperature, top_k=config.top_k, top_p=config.top_p, seed=config.seed)


def generate(model: Transformer, tokenizers: Tokenizers, texts: Sequence[str], config: DecodeConfig, max_source: int,
             prefixes: Sequence[str] | None = None,
             progress: Callable[[int], None] = lambda done: None, first: int = 0) -> list[Generated]:
    """For each text, what the model makes of it; an empty line for an empty line.

    Args:
        model: put into evaluation mode, and back.
        max_source: longer sources are cut to so many tokens, eos among them.
        prefixes: for each text, how its output must begin.
        progress: called with the number of texts done.
        first: the number of the first text; a sample depends on the seed and on its text's number.

    Raises:
        ValueError: an option out of range, or not as many prefixes as texts.
    """
    options = search_options(config)
    if prefixes is not None and len(prefixes) != len(texts):
        raise ValueError(f"{len(texts)} texts and {len(prefixes)} prefixes")
    filled = [i for i, text in enumerate(texts) if text.strip()]
    sources = [np.asarray(shorten(ids, max_source), dtype=np.int32)
               for ids in source_ids([texts[i] for i in filled], tokenizers, classify=False)]
    starts = tokenizers.target.encode_batch([prefixes[i] for i in filled]) if prefixes else [[]] * len(filled)
    results = [EMPTY] * len(texts)
    device = model.output.weight.device
    done = len(texts) - len(filled)
    with evaluating(model):
        step = step_for(model, config.precision)

        def decode(group: Sequence[int]) -> list[list[Hypothesis]]:
            ids, real = pad([sources[i] for i in group])
            source = (ids.to(device), None if real is None else real.to(device))
            return search(step, source, len(group), options, SPECIALS, [starts[i] for i in group],
                          [first + filled[i] for i in group])

        groups = list(length_groups([len(ids) for ids in sources], batch_tokens(isinstance(step, Engine), config)))
        for group, found in zip(groups, each(decode, groups, step), strict=True):
            for i, hypotheses in zip(group, found, strict=True):
                results[filled[i]] = Generated(tuple(_candidate(h, tokenizers) for h in hypotheses))
            done += len(group)
            progress(done)
    return results


def batch_tokens(by_engine: bool, config: DecodeConfig) -> int:
    """Source tokens of a batch; 1 for sentences that must be alone to come out exactly."""
    if by_engine:  # its rows do not see each other anyway
        return min(config.batch_tokens, Engine.batch_tokens)
    return 1 if config.exact else config.batch_tokens


@contextlib.contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """The model in evaluation mode, for as long as this lasts."""
    training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(training)


def _candidate(hypothesis: Hypothesis, tokenizers: Tokenizers) -> Candidate:
    ids = list(hypothesis.tokens)
    return Candidate(tokenizers.target.decode(ids), tuple(tokenizers.target.pieces(ids)), hypothesis.score,
                     hypothesis.log_probability)


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


def score_targets(model: Transformer, pairs: Sequence[tuple[NDArray[np.int32], NDArray[np.int32]]],
                  budget: int) -> list[list[float]]:
    """The log-probability of every token (eos included) of given targets, in nats.

    Args:
        pairs: (source ids, target ids), each ending with eos.
        budget: padded tokens a batch.
    """
    results: list[list[float]] = [[] for _ in pairs]
    device = model.output.weight.device
    with evaluating(model), torch.inference_mode():
        for group in length_groups([max(len(a), len(b)) for a, b in pairs], budget):
            source, real = pad([pairs[i][0] for i in group])
            target, _ = pad([pairs[i][1] for i in group])
            shifted = torch.cat([torch.full((len(group), 1), BOS), target[:, :-1]], dim=1)
            logits = model(source.to(device), shifted.to(device), None if real is None else real.to(device))
            chosen = logits.float().log_softmax(-1).gather(-1, target.to(device)[..., None])[..., 0]
            for i, row in zip(group, chosen.tolist(), strict=True):
                results[i] = row[: len(pairs[i][1])]
    return results
