"""What training BPE pieces takes: by the text it is given, and no more than the configuration lets it have."""

from __future__ import annotations

import random

import pytest

from pellucid.config import TokenizerConfig
from pellucid.plan.tokenizer import memory_of, not_reckoned

PIECES = TokenizerConfig(vocab_size=8000)


def lines(count: int, space: str) -> list[tuple[str, str]]:
    """Pairs in words out of a few hundred."""
    draw = random.Random(0)
    words = ["".join(draw.choices("abcdefgh", k=5)) for _ in range(300)]
    return [(space.join(draw.choices(words, k=8)), space.join(draw.choices(words, k=8))) for _ in range(count)]


def total(config: TokenizerConfig, pairs: list[tuple[str, str]], count: int) -> int:
    return sum(memory_of(config, pairs, count, 2).values())


@pytest.mark.parametrize("space", ["", " "])
def test_a_part_tells_of_the_whole(space: str) -> None:
    pairs = lines(8000, space)
    assert total(PIECES, pairs[:2000], 8000) == pytest.approx(total(PIECES, pairs, 8000), rel=0.1)


def test_text_without_spaces_takes_more_than_words_that_come_again() -> None:
    assert total(PIECES, lines(2000, ""), 2000) > 3 * total(PIECES, lines(2000, " "), 2000)


def test_what_is_not_in_the_sample_takes_nothing() -> None:
    pairs = lines(2000, "")
    half = TokenizerConfig(vocab_size=8000, sample_lines=1000)
    assert total(half, pairs, 2000) == total(PIECES, pairs[:1000], 1000) == total(half, pairs, 10**7)
    few = TokenizerConfig(vocab_size=8000, sample_characters=40_000)
    assert total(few, pairs, 2000) == pytest.approx(total(PIECES, pairs, 2000) / 4, rel=0.05)


def test_a_vocabulary_for_each_side_is_learned_from_one_at_a_time_and_no_label_is() -> None:
    pairs = lines(2000, "")
    apart = TokenizerConfig(vocab_size=8000, shared=False)
    both, one = memory_of(PIECES, pairs, 2000, 2), memory_of(apart, pairs, 2000, 2)
    assert one["sample"] == both["sample"]
    assert one["words"] < 0.6 * both["words"]
    assert memory_of(PIECES, [(a, "label") for a, _ in pairs], 2000, 1)["words"] <= one["words"]


@pytest.mark.parametrize("config", [TokenizerConfig(kind="word"), TokenizerConfig(algorithm="unigram"),
                                    TokenizerConfig(path="tokenizer")])
def test_nothing_is_told_of_what_is_not_reckoned(config: TokenizerConfig) -> None:
    assert memory_of(config, lines(10, " "), 10, 2) == {}


def test_what_unigram_pieces_took_is_told_of_the_sample_that_is_learned_from() -> None:
    pairs = [("a" * 400, "b" * 600)] * 20
    unigram = TokenizerConfig(algorithm="unigram", sample_characters=10**8)
    (told,) = not_reckoned(unigram, pairs, 10**6)
    assert "2,575 to 5,627 MiB of 100,000,000 characters" in told  # 27 and 59 times 10⁸ bytes
    (few,) = not_reckoned(unigram, pairs, 1000)
    assert "of 1,000,000 characters" in few
    for config in (PIECES, TokenizerConfig(kind="word"), TokenizerConfig(algorithm="unigram", path="tokenizer")):
        assert not_reckoned(config, pairs, 10**6) == ()
