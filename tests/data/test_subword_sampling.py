"""Subword sampling: other pieces, the same text, and a pure function of the seed."""

from __future__ import annotations

import random
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pellucid.config import TokenizerConfig
from pellucid.data.subword_sampling import resegment_rows
from pellucid.data.tokenizers import BOS, EOS, UNK, train_tokenizers
from pellucid.data.tokenizers.sentencepiece import SentencePieceTokenizer

WORDS = ["lower", "lowest", "newer", "newest", "wider", "widest", "low", "new", "wide"]
DRAW = Random(0)
TEXTS = [" ".join(DRAW.choices(WORDS, k=6)) for _ in range(300)]


def trained(algorithm: str, size: int) -> SentencePieceTokenizer:
    config = TokenizerConfig(algorithm=algorithm, vocab_size=size, sentinels=2)  # type: ignore[arg-type]
    tokenizer = train_tokenizers(config, [(text, text) for text in TEXTS], "seq2seq").source
    assert isinstance(tokenizer, SentencePieceTokenizer)
    return tokenizer


BPE, UNIGRAM = trained("bpe", 40), trained("unigram", 26)
both = pytest.mark.parametrize("tokenizer", [BPE, UNIGRAM], ids=["bpe", "unigram"])


@both
@settings(max_examples=100, deadline=None)
@given(texts=st.lists(st.text(st.sampled_from("lowernist  é"), max_size=30), max_size=5),
       seed=st.integers(0, 2**32 - 2), strength=st.floats(0.01, 0.99))
def test_the_text_is_the_same(tokenizer: SentencePieceTokenizer, texts: list[str], seed: int, strength: float) -> None:
    rows = tokenizer.encode_batch(texts)
    drawn = tokenizer.resegment(rows, strength, seed)
    assert [tokenizer.decode(row) for row in drawn] == [tokenizer.decode(row) for row in rows]
    assert [row.count(UNK) for row in drawn] == [row.count(UNK) for row in rows]


@both
def test_the_seed_decides_and_nothing_else(tokenizer: SentencePieceTokenizer) -> None:
    rows = tokenizer.encode_batch(TEXTS)
    first = tokenizer.resegment(rows, 0.2, 5)
    random.seed(9)
    tokenizer.resegment(rows[:7], 0.5, 6)
    assert tokenizer.resegment(rows, 0.2, 5) == first
    assert tokenizer.resegment(rows, 0.2, 6) != first
    assert tokenizer.resegment(rows[:1], 0.2, 5) == tokenizer.resegment(rows[:1], 0.2, 5)
    assert len({tuple(map(tuple, tokenizer.resegment(rows[:1], 0.2, seed))) for seed in range(50)}) > 5
    assert tokenizer.encode_batch(TEXTS) == rows  # what is not sampled does not change


def test_strength_is_the_dropout_of_merges_or_sharpens_the_unigram_model() -> None:
    rows = BPE.encode_batch(TEXTS)
    lengths = [sum(map(len, BPE.resegment(rows, strength, 1))) for strength in (1e-6, 0.1, 0.5, 0.999999)]
    characters = sum(len(text) + 1 for text in TEXTS)  # one for the space that SentencePiece puts before a text
    assert lengths[0] == sum(map(len, rows))
    assert lengths == sorted(lengths)
    assert lengths[-1] == characters  # without a merge, every character is a piece
    best = UNIGRAM.encode_batch(TEXTS)
    changed = [sum(a != b for a, b in zip(best, UNIGRAM.resegment(best, strength, 1))) for strength in (0.1, 0.5, 0.99)]
    assert changed == sorted(changed, reverse=True)
    assert len(best) >= changed[0] > changed[-1] > 0


def test_sentinels_stay_whole() -> None:
    ids = BPE.encode("lower<extra_id_1> newest<extra_id_0>")
    assert [i for i in ids if i < 6] == [5, 4]
    (drawn,) = BPE.resegment([ids], 0.9, 1)
    assert [i for i in drawn if i < 6] == [5, 4]
    assert drawn != ids


def test_ends_stay_and_what_would_be_too_long_stays_as_it_was() -> None:
    rows = BPE.encode_batch(TEXTS)
    for head, tail in (([], [EOS]), ([BOS], [])):
        framed = [[*head, *row, *tail] for row in rows]
        free = resegment_rows(framed, BPE, 0.3, 1000, Random(1))
        assert all(row[: len(head)] == head and row[len(row) - len(tail) :] == tail for row in free)
        assert all(BPE.decode(new) == BPE.decode(old) for new, old in zip(free, framed, strict=True))
        limit = sorted(map(len, free))[150]
        held = resegment_rows(framed, BPE, 0.3, limit, Random(1))
        assert held == [new if len(new) <= limit else old for new, old in zip(free, framed, strict=True)]
        assert held not in (free, framed)
    assert resegment_rows([[EOS], [BOS]], BPE, 0.3, 5, Random(1)) == [[EOS], [BOS]]
