"""How many characters SentencePiece learns where nobody says it: all that fit, and never fewer than 99.95 %."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from pellucid.config import TokenizerConfig
from pellucid.config.mapping import from_mapping
from pellucid.data.tokenizers import UNK, Tokenizers, train_tokenizers
from pellucid.data.tokenizers.sentencepiece import coverage_by_need
from pellucid.errors import ConfigError

COMMON, RARE = "天地玄黄宇宙洪荒日月盈昃", [chr(0x5000 + i) for i in range(300)]
DRAW = random.Random(1)
LINES = ["".join(DRAW.choices(COMMON, k=360)) + rare for rare in RARE]  # each rare one stands there once
PAIRS = [(line, line) for line in LINES]


def made(vocab_size: int, coverage: float | None, algorithm: str = "bpe") -> Tokenizers:
    options = from_mapping({"tokenizer": {"vocab_size": vocab_size, "character_coverage": coverage,
                                          "algorithm": algorithm}}).tokenizer
    return train_tokenizers(options, PAIRS, "seq2seq")


def unknown(tokenizers: Tokenizers) -> int:
    return sum(tokenizers.source.encode(line).count(UNK) for line in LINES)


@pytest.mark.parametrize("algorithm", ["bpe", "unigram"])
def test_nothing_is_unknown_where_all_characters_fit(algorithm: str) -> None:
    assert unknown(made(440, None, algorithm)) == 0
    assert unknown(made(440, 0.9995, algorithm)) == 54  # which was the default: one in 2,000


def test_what_is_said_goes_before_the_need() -> None:
    assert made(440, 1.0).source.serialized() == made(440, None).source.serialized()
    assert made(440, 0.9995).config.character_coverage == 0.9995
    assert made(440, None).config == TokenizerConfig(vocab_size=440)


def test_a_quarter_of_the_vocabulary_is_left_to_pieces_of_several_characters() -> None:
    """Of 400 ids that are not special 300 are for characters: the twelve, the space and 287 of the rare ones."""
    counts = Counter({" ": 300} | dict.fromkeys(COMMON, 9000) | dict.fromkeys(RARE, 1))
    counts["\0"] = counts["▅"] = 10**6  # SentencePiece's own
    assert coverage_by_need(counts, 404, []) == (108_300 + 287) / 108_600
    assert coverage_by_need(counts, 404, [*COMMON, *RARE]) == 1  # symbols have their places
    assert coverage_by_need(counts, 408, ["<a>", "<b>", "<c>", "<d>"]) == coverage_by_need(counts, 404, [])
    assert coverage_by_need(counts, 440, []) == 1
    assert coverage_by_need(counts, 5, []) == coverage_by_need(counts, 4, list("abc")) == 0.9995
    assert coverage_by_need(Counter(), 404, []) == 0.9995  # of no text, which is refused elsewhere


def test_the_most_frequent_are_known_where_not_all_fit() -> None:
    """SentencePiece counts as we do: so many characters as were reckoned, and no one more."""
    lines = [line[:-1] * 6 + line for line in LINES]
    source = train_tokenizers(TokenizerConfig(vocab_size=404), [(line, line) for line in lines], "seq2seq").source
    assert sum(len(piece) == 1 for piece in source.pieces(range(4, source.size))) == 300
    assert sum(source.encode(line).count(UNK) for line in lines) == 13


@pytest.mark.parametrize("coverage", [0.5, 0.9799, 1.0001, 0, -1])
def test_what_sentencepiece_does_not_take_is_refused(coverage: float) -> None:
    with pytest.raises(ConfigError, match="out of range") as error:
        made(440, coverage)
    assert "at least 0.98 and at most 1" in error.value.fix


def test_at_the_lowest_that_it_takes() -> None:
    assert unknown(made(100, 0.98)) == 2 * len(LINES)  # nor is the space known that begins each
