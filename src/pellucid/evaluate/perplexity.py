"""Perplexity: ``exp(Σ −log p(token) / tokens)``, the exponential of the mean negative log-likelihood per token."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from pellucid.evaluate.significance import (
    DEFAULT_RESAMPLES,
    DEFAULT_SEED,
    SentenceStatistics,
    bootstrap_interval,
    corpus_score,
)


@final
@dataclass(frozen=True)
class PerplexityScores:
    """Perplexity over a corpus, with the 95 % bootstrap interval under ``interval["perplexity"]``."""

    perplexity: float
    interval: dict[str, tuple[float, float]]


def perplexity_statistics(negative_log_likelihoods: Sequence[float], token_counts: Sequence[int]) -> SentenceStatistics:
    """Perplexity as per-sentence statistics ``[n, 2]``: nats and tokens.

    Args:
        negative_log_likelihoods: a sentence's summed token negative log-likelihood, in nats, for each of n sentences.
        token_counts: the tokens each sum runs over, the end-of-sentence token included if it was predicted.

    Raises:
        ValueError: if the counts of sentences differ or are zero, a sentence has no token, or a sum is not finite.
    """
    if len(negative_log_likelihoods) != len(token_counts):
        raise ValueError(f"{len(negative_log_likelihoods)} log-likelihoods but {len(token_counts)} token counts")
    for i, count in enumerate(token_counts):
        if count < 1:
            raise ValueError(f"sentence {i + 1} has {count} tokens: perplexity needs at least one")
    table = np.array([negative_log_likelihoods, token_counts], dtype=np.float64).T
    return SentenceStatistics("perplexity", table, _perplexity)


def perplexity_scores(negative_log_likelihoods: Sequence[float], token_counts: Sequence[int],
                      resamples: int = DEFAULT_RESAMPLES, seed: int = DEFAULT_SEED) -> PerplexityScores:
    """Perplexity and its interval; arguments and errors as in `perplexity_statistics`. Above e⁷⁰⁹ it is infinite."""
    metric = perplexity_statistics(negative_log_likelihoods, token_counts)
    return PerplexityScores(corpus_score(metric), {metric.name: bootstrap_interval(metric, resamples, seed)})


def _perplexity(sums: NDArray[np.float64]) -> float:
    nats, tokens = sums.tolist()
    try:
        return math.exp(nats / tokens)
    except OverflowError:
        return math.inf
