"""Perplexity: ``exp(Σ −log p(token) / tokens)``, the exponential of the mean negative log-likelihood per token."""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pellucid.evaluate.intervals import LIKELIHOOD, Bounds, by_jackknife
from pellucid.evaluate.significance import SentenceStatistics


def perplexity_statistics(negative_log_likelihoods: Sequence[float], token_counts: Sequence[int]) -> SentenceStatistics:
    """Perplexity as per-sentence statistics ``[n, 2]``: nats and tokens.

    Args:
        negative_log_likelihoods: a sentence's summed token negative log-likelihood, in nats, for each of n sentences.
        token_counts: the tokens each sum runs over, the end-of-sentence token included if it was predicted.

    Raises:
        ValueError: if the counts of sentences differ or are zero, a sentence has no token, or a sum is not finite.

    Above e⁷⁰⁹ a perplexity is infinite; two of them are tested by their nats a token.
    """
    if len(negative_log_likelihoods) != len(token_counts):
        raise ValueError(f"{len(negative_log_likelihoods)} log-likelihoods but {len(token_counts)} token counts")
    for i, count in enumerate(token_counts):
        if count < 1:
            raise ValueError(f"sentence {i + 1} has {count} tokens: perplexity needs at least one")
    table = np.array([negative_log_likelihoods, token_counts], dtype=np.float64).T
    return SentenceStatistics("perplexity", table, _perplexity, _interval, math.inf, tested=_nats,
                              is_likelihood=True)


def _nats(sums: NDArray[np.float64]) -> float:
    """A token, which is finite where the perplexity is not."""
    return float(sums[0] / sums[1])


def _perplexity(sums: NDArray[np.float64]) -> float:
    return _exponential(_nats(sums))


def _interval(metric: SentenceStatistics) -> Bounds:
    low, high = by_jackknife(metric.by_source, _nats, LIKELIHOOD)
    return _exponential(low), _exponential(high)


def _exponential(nats: float) -> float:
    try:
        return math.exp(nats)
    except OverflowError:
        return math.inf
