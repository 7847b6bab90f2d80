"""Nats per character: ``Σ −log p(reference) / characters``, which does not depend on how a tokenizer cuts the text.

Perplexity is per token, and tokens of different vocabularies are different things. The field's other unit is bits per
character, 1.4427 times as many; nats are the loss's. The end of a line is predicted, too, and counts as a character.
An unknown token costs less than the characters that it stands for, so that a model with unknowns is flattered.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pellucid.config import TokenizerConfig
from pellucid.data.tokenizers.interface import UNK, Tidy, Tokenizer
from pellucid.evaluate.significance import SentenceStatistics

NAME = "nats_per_character"


def per_character_statistics(
        negative_log_likelihoods: Sequence[float], characters: Sequence[int]) -> SentenceStatistics:
    """Nats per character as per-sentence statistics ``[n, 2]``: nats and characters.

    Args:
        negative_log_likelihoods: a sentence's summed token negative log-likelihood, in nats, for each of n sentences.
        characters: of each sentence, its end among them, as by `reference_characters`.

    Raises:
        ValueError: if the counts of sentences differ or are zero, a sentence has no character, or a sum is not finite.
    """
    if len(negative_log_likelihoods) != len(characters):
        raise ValueError(f"{len(negative_log_likelihoods)} log-likelihoods but {len(characters)} counts of characters")
    for i, count in enumerate(characters):
        if count < 1:
            raise ValueError(f"sentence {i + 1} has {count} characters: its end is one at least")
    table = np.array([negative_log_likelihoods, characters], dtype=np.float64).T
    return SentenceStatistics(NAME, table, _per_character, highest=math.inf, is_likelihood=True)


def reference_characters(tokenizer: Tokenizer, references: Sequence[str], token_counts: Sequence[int]) -> list[int]:
    """The characters (code points) of n references, and one for the end of each.

    Args:
        token_counts: the tokens of each that were scored, the end among them; of a reference that was cut, only the
            text of its tokens counts.
    """
    pairs = zip(references, tokenizer.encode_batch(references), token_counts, strict=True)
    return [len(text if len(ids) < count else tokenizer.decode(ids[:count - 1])) + 1 for text, ids, count in pairs]


def unknown_share(tokenizer: Tokenizer, references: Sequence[str]) -> float:
    """The share of unknown ones, 0–1, among the tokens of the references; 0 where there is no token."""
    rows = tokenizer.encode_batch(references)
    return sum(row.count(UNK) for row in rows) / max(1, sum(map(len, rows)))


def stripped_share(config: TokenizerConfig, references: Sequence[str]) -> float:
    """The share of punctuation, 0–1, among the characters of the references, where the tokenizer strips it, so that no
    output has any; 0 where it does not, or there is no character."""
    strip = Tidy(lowercase=False, strip_punctuation=config.strip_punctuation)
    return sum(len(text) - len(strip(text)) for text in references) / max(1, sum(map(len, references)))


def _per_character(sums: NDArray[np.float64]) -> float:
    nats, characters = sums.tolist()
    return float(nats / characters)
