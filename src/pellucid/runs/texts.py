"""Texts in, texts out: tokenise, batch by length, search, put back in order."""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pellucid.config import DecodeConfig
from pellucid.data.corpus import shorten, source_ids
from pellucid.data.tokenizers.build import Tokenizers
from pellucid.engine.workers import each
from pellucid.errors import PellucidWarning
from pellucid.runs.decoder import Decoder
from pellucid.search.options import Hypothesis, SearchOptions

_TOLD = 5  # lines that are told to be cut, one by one


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
    """What came out for one line: the best text, and all hypotheses, best first.

    Attributes:
        cut: tokens of the line that were left out, because the model takes no longer ones.
    """

    hypotheses: tuple[Candidate, ...]
    cut: int = 0

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


def answers(decoder: Decoder, tokenizers: Tokenizers, texts: Sequence[str], max_source: int,
            prefixes: Sequence[str] | None = None, progress: Callable[[int], None] = lambda done: None,
            first: int = 0) -> list[Generated]:
    """For each text, what is found for it; an empty line for an empty line.

    Args:
        max_source: longer sources are cut to so many tokens, eos among them, with a warning.
        prefixes: for each text, how its output must begin.
        progress: called with the number of texts done.
        first: the number of the first text; a sample depends on the seed and on its text's number.

    Raises:
        ValueError: not as many prefixes as texts.
    """
    if prefixes is not None and len(prefixes) != len(texts):
        raise ValueError(f"{len(texts)} texts and {len(prefixes)} prefixes")
    filled = [i for i, text in enumerate(texts) if text.strip()]
    encoded = source_ids([texts[i] for i in filled], tokenizers, classify=False)
    warn_of_cuts({first + i: len(ids) for i, ids in zip(filled, encoded, strict=True)}, max_source, stacklevel=4)
    sources = [np.asarray(shorten(ids, max_source), dtype=np.int32) for ids in encoded]
    starts = tokenizers.target.encode_batch([prefixes[i] for i in filled]) if prefixes else [[]] * len(filled)
    results = [EMPTY] * len(texts)
    done = len(texts) - len(filled)

    def decode(group: Sequence[int]) -> list[list[Hypothesis]]:
        return decoder.search([sources[i] for i in group], [starts[i] for i in group],
                              [first + filled[i] for i in group])

    groups = list(length_groups([len(ids) for ids in sources], decoder.batch_tokens))
    for group, found in zip(groups, each(decode, groups, decoder.threads, decoder.use_threads), strict=True):
        for i, hypotheses in zip(group, found, strict=True):
            results[filled[i]] = Generated(tuple(_candidate(h, tokenizers) for h in hypotheses),
                                           max(0, len(encoded[i]) - max_source))
        done += len(group)
        progress(done)
    return results


def warn_of_cuts(lengths: Mapping[int, int], limit: int, stacklevel: int = 3, line: str = "line") -> None:
    """Says which texts, by number from 0, are longer than the model takes, and how much of them is lost.

    Args:
        stacklevel: as of `warnings.warn`; that of the caller's caller if left out.
        line: what a text is called.
    """
    cut = [f"{line} {number + 1} loses {length - limit:,} of its {length:,} tokens"
           for number, length in lengths.items() if length > limit]
    if cut:
        more = f", and {len(cut) - _TOLD:,} more" if len(cut) > _TOLD else ""
        warnings.warn(f"longer than the {limit:,} tokens that the model takes (model.max_length): "
                      f"{', '.join(cut[:_TOLD])}{more}", PellucidWarning, stacklevel)


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
