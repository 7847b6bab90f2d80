"""Subword sampling: other pieces, the same text, and a pure function of the seed."""

from __future__ import annotations

import math
import random
import subprocess
import sys
from collections import Counter
from random import Random
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pellucid.config import TokenizerConfig
from pellucid.data.segmentations import MergeDropout, UnigramSampling
from pellucid.data.subword_sampling import SubwordSampling
from pellucid.data.tokenizers import BOS, EOS, UNK, train_tokenizers
from pellucid.data.tokenizers.sentencepiece import SentencePieceTokenizer

WORDS = ["lower", "lowest", "newer", "newest", "wider", "widest", "low", "new", "wide"]
DRAW = Random(0)
TEXTS = [" ".join(DRAW.choices(WORDS, k=6)) for _ in range(300)]


Algorithm = Literal["bpe", "unigram"]


def options(algorithm: Algorithm, size: int) -> TokenizerConfig:
    return TokenizerConfig(algorithm=algorithm, vocab_size=size, sentinels=2)


def trained(algorithm: Algorithm, size: int) -> SentencePieceTokenizer:
    tokenizer = train_tokenizers(options(algorithm, size), [(text, text) for text in TEXTS], "seq2seq").source
    assert isinstance(tokenizer, SentencePieceTokenizer)
    return tokenizer


BPE, UNIGRAM = trained("bpe", 40), trained("unigram", 26)


def sampling(tokenizer: SentencePieceTokenizer, strength: float) -> SubwordSampling:
    return SubwordSampling(tokenizer, options("bpe" if tokenizer is BPE else "unigram", 40), strength)


def resegment(tokenizer: SentencePieceTokenizer, rows: list[list[int]], strength: float, seed: int) -> list[list[int]]:
    return sampling(tokenizer, strength).resegmented(rows, 2**31, Random(seed))


both = pytest.mark.parametrize("tokenizer", [BPE, UNIGRAM], ids=["bpe", "unigram"])


@both
@settings(max_examples=100, deadline=None)
@given(texts=st.lists(st.text(st.sampled_from("lowernist  é"), max_size=30), max_size=5),
       seed=st.integers(0, 2**32 - 2), strength=st.floats(0.01, 0.99))
def test_the_text_is_the_same(tokenizer: SentencePieceTokenizer, texts: list[str], seed: int, strength: float) -> None:
    rows = tokenizer.encode_batch(texts)
    drawn = resegment(tokenizer, rows, strength, seed)
    assert [tokenizer.decode(row) for row in drawn] == [tokenizer.decode(row) for row in rows]
    assert [row.count(UNK) for row in drawn] == [row.count(UNK) for row in rows]


@both
def test_the_seed_decides_and_nothing_else(tokenizer: SentencePieceTokenizer) -> None:
    rows = tokenizer.encode_batch(TEXTS)
    first = resegment(tokenizer, rows, 0.2, 5)
    random.seed(9)
    resegment(tokenizer, rows[:7], 0.5, 6)
    assert resegment(tokenizer, rows, 0.2, 5) == first
    assert resegment(tokenizer, rows, 0.2, 6) != first
    assert resegment(tokenizer, rows[:1], 0.2, 5) == resegment(tokenizer, rows[:1], 0.2, 5)
    assert len({tuple(map(tuple, resegment(tokenizer, rows[:1], 0.2, seed))) for seed in range(50)}) > 5
    assert tokenizer.encode_batch(TEXTS) == rows  # what is not sampled does not change


def test_strength_is_the_dropout_of_merges_or_sharpens_the_unigram_model() -> None:
    rows = BPE.encode_batch(TEXTS)
    lengths = [sum(map(len, resegment(BPE, rows, strength, 1))) for strength in (1e-6, 0.1, 0.5, 0.999999)]
    characters = sum(len(text) + 1 for text in TEXTS)  # one for the space that SentencePiece puts before a text
    assert lengths[0] == sum(map(len, rows))
    assert lengths == sorted(lengths)
    assert lengths[-1] == characters  # without a merge, every character is a piece
    best = UNIGRAM.encode_batch(TEXTS)
    changed = [sum(a != b for a, b in zip(best, resegment(UNIGRAM, best, strength, 1)))
               for strength in (0.1, 0.5, 0.99)]
    assert changed == sorted(changed, reverse=True)
    assert len(best) >= changed[0] > changed[-1] > 0


def test_sentinels_stay_whole() -> None:
    ids = BPE.encode("lower<extra_id_1> newest<extra_id_0>")
    assert [i for i in ids if i < 6] == [5, 4]
    (drawn,) = resegment(BPE, [ids], 0.9, 1)
    assert [i for i in drawn if i < 6] == [5, 4]
    assert drawn != ids


def test_ends_stay_and_what_would_be_too_long_stays_as_it_was() -> None:
    rows = BPE.encode_batch(TEXTS)
    for head, tail in (([], [EOS]), ([BOS], [])):
        framed = [[*head, *row, *tail] for row in rows]
        free = sampling(BPE, 0.3).resegmented(framed, 1000, Random(1))
        assert all(row[: len(head)] == head and row[len(row) - len(tail) :] == tail for row in free)
        assert all(BPE.decode(new) == BPE.decode(old) for new, old in zip(free, framed, strict=True))
        limit = sorted(map(len, free))[150]
        held = sampling(BPE, 0.3).resegmented(framed, limit, Random(1))
        assert held == [new if len(new) <= limit else old for new, old in zip(free, framed, strict=True)]
        assert held not in (free, framed)
    assert sampling(BPE, 0.3).resegmented([[EOS], [BOS]], 5, Random(1)) == [[EOS], [BOS]]


def segmentations(word: str, pieces: dict[str, tuple[int, float]]) -> list[list[str]]:
    """All of them."""
    if not word:
        return [[]]
    return [[word[:end], *rest] for end in range(1, len(word) + 1) if word[:end] in pieces
            for rest in segmentations(word[end:], pieces)]


def test_segmentations_come_as_often_as_the_unigram_model_says() -> None:
    pieces = {"a": (0, -1.0), "b": (1, -2.0), "ab": (2, -2.5), "ba": (3, -1.5), "aba": (4, -4.0)}
    alpha, random, draws = 0.7, Random(2), 20_000
    weights = {tuple(pieces[p][0] for p in each): math.exp(alpha * sum(pieces[p][1] for p in each))
               for each in segmentations("abab", pieces)}
    sampled = UnigramSampling(pieces, alpha)
    counts = Counter(tuple(sampled.draw("abab", random) or ()) for _ in range(draws))
    assert counts.keys() == weights.keys()
    for ids, weight in weights.items():
        share = weight / sum(weights.values())
        assert abs(counts[ids] / draws - share) < 5 * math.sqrt(share * (1 - share) / draws)


def test_merges_are_left_out_with_their_probability() -> None:
    """abc, of the merges ab and then abc: with p each is left out at each step."""
    pieces = {"a": (0, -9.0), "b": (1, -9.0), "c": (2, -9.0), "ab": (3, -1.0), "abc": (4, -2.0)}
    random, sampled, p, draws = Random(3), MergeDropout(pieces, 0.3), 0.3, 20_000
    counts = Counter(tuple(sampled.draw("abc", random) or ()) for _ in range(draws))
    for ids, share in {(0, 1, 2): p, (3, 2): (1 - p) * p, (4,): (1 - p) ** 2}.items():
        assert abs(counts[ids] / draws - share) < 5 * math.sqrt(share * (1 - share) / draws)


@pytest.mark.parametrize("algorithm", ["bpe", "unigram"])
def test_another_process_draws_the_same(algorithm: str) -> None:
    program = f"""
import importlib.util, sys
spec = importlib.util.spec_from_file_location("sampled", {__file__!r})
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
tokenizer = module.BPE if {algorithm!r} == "bpe" else module.UNIGRAM
print(module.resegment(tokenizer, tokenizer.encode_batch(module.TEXTS[:20]), 0.3, 7))
"""
    told = [subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
            for _ in range(2)]
    tokenizer = BPE if algorithm == "bpe" else UNIGRAM
    assert told == [f"{resegment(tokenizer, tokenizer.encode_batch(TEXTS[:20]), 0.3, 7)}\n"] * 2


def test_a_word_without_a_segmentation_has_none() -> None:
    pieces = {"a": (4, -1.0), "ab": (5, -2.0), "abc": (6, -3.0)}
    for word, ids in (("abc", [6]), ("aab", [4, 5]), ("b", None), ("ba", None), ("abd", None)):
        assert UnigramSampling(pieces, 1.0).draw(word, Random(0)) == ids
    assert MergeDropout(pieces, 0.0).draw("abc", Random(0)) == [6]
    assert MergeDropout(pieces, 0.0).draw("abd", Random(0)) is None
    assert MergeDropout(pieces, 1.0).draw("ab", Random(0)) is None


def test_what_is_forgotten_is_drawn_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    words, scores = [word for word in WORDS for _ in range(2)] * 5, UNIGRAM.scores()
    remembering, random = UnigramSampling(scores, 0.5), Random(1)
    expected = [remembering.draw(word, random) for word in words]
    monkeypatch.setattr("pellucid.data.segmentations._KEPT", 2)
    forgetting, random = UnigramSampling(scores, 0.5), Random(1)
    assert [forgetting.draw(word, random) for word in words] == expected
    assert len(forgetting._ends) <= 2
