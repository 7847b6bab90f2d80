"""Lengths, padding and sizes by hand."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from pellucid.config.mapping import from_mapping
from pellucid.data.sample import corpus_of
from pellucid.doctor.examine import of_sizes
from pellucid.doctor.reading import Window
from pellucid.doctor.tokens import (
    Encoded,
    LengthCheck,
    batch_facts,
    encode,
    length_facts,
    sample_tokenizers,
    suited_vocabulary,
    well_seen,
)

CONFIG = from_mapping({"tokenizer": {"kind": "word", "shared": False, "min_frequency": 2},
                       "model": {"max_length": 4}, "train": {"batch_tokens": 8, "steps": 10}})
PAIRS = [("a b", "x"), ("a b", "x y"), ("a c", "x y z"), ("", "x")]


def encoded(source: list[int], target: list[int], counts: dict[int, int] | None = None) -> Encoded:
    both = Counter(counts or {})
    return Encoded((np.asarray(source), np.asarray(target)), (both, both))


def test_tokens_and_unknown_ones() -> None:
    found = encode(PAIRS, sample_tokenizers(CONFIG, PAIRS, ()), CONFIG)
    assert [side.tolist() for side in found.lengths] == [[3, 3, 3], [2, 3, 4]]  # eos counted
    assert found.unknown == pytest.approx(2 / 18)  # c and z stand there once


def test_long_texts_are_found_and_short_ones_never_encoded() -> None:
    check = LengthCheck(CONFIG, sample_tokenizers(CONFIG, PAIRS, ()))
    check.add(Window([7, 8, 9], ["a b c", "a b c d", "a"], ["x", "abcdefghij", "x y z y x"]))
    assert (check.source.numbers, check.target.numbers) == ([8], [9])  # 4 tokens and eos are more than 4


def test_a_text_may_have_more_tokens_than_characters() -> None:
    config = from_mapping({"tokenizer": {"kind": "character", "lowercase": True}, "model": {"max_length": 8}})
    assert len("İ".lower()) == 2  # i and a dot
    check = LengthCheck(config, sample_tokenizers(config, [("İi", "x")] * 9, ()))
    check.add(Window([1, 2], ["İİİ", "İİİİ"], ["x", "x"]))
    assert check.source.numbers == [2]  # 8 tokens and eos


def test_histogram() -> None:
    facts = length_facts(encoded([1, 4, 5, 8, 9, 16], [2] * 6))
    assert facts["source"]["histogram"] == {"1-4": 2, "5-8": 2, "9-16": 2}
    assert (facts["source"]["longest"], facts["target"]["median"]) == (16, 2)


def test_a_vocabulary_is_well_seen_by_hand() -> None:
    counts = {1: 100, 2: 99, 3: 50, 4: 7}
    assert well_seen(encoded([], [], counts), 1.0) == 0.25
    assert well_seen(encoded([], [], counts), 2.0) == 0.75


def test_the_largest_half_that_suits() -> None:
    pairs = [(f"{word} {word} ab", word) for word in ("cat", "dog", "bird", "horse") for _ in range(120)]
    pairs += [(f"{i:04d}", f"{i * 7:04d}") for i in range(3000)]
    config = from_mapping({"tokenizer": {"kind": "sentencepiece", "vocab_size": 1000}})
    seen = well_seen(encode(pairs, sample_tokenizers(config, pairs, ()), config), 1.0)
    assert seen < 0.95
    size = suited_vocabulary(config, pairs, (), seen, 20.0)
    assert size == 250  # at 20 times as many, half of 500 are seen too rarely
    assert suited_vocabulary(config, pairs, (), 0.96, 1.0) is None


def test_what_is_advised_needs_no_second_label_in_the_sample_and_counts_no_empty_line() -> None:
    texts = [f"{word} {word} ab" for word in ("cat", "dog", "bird", "horse") for _ in range(700)]
    config = from_mapping({"task": "classification", "tokenizer": {"kind": "sentencepiece", "vocab_size": 500}})
    every_second = [pair for text in texts for pair in (("", "a"), (text, "a"))]  # 5,600 lines: every second is taken
    assert suited_vocabulary(config, every_second, "ab", 0.5, 20.0) == suited_vocabulary(
        config, [(text, "a") for text in texts], "ab", 0.5, 20.0)


def test_batches_by_hand() -> None:
    corpus = corpus_of([np.ones(n) for n in (2, 2, 2, 3)], [np.ones(n) for n in (2, 2, 4, 4)])
    facts = batch_facts(corpus, sample_tokenizers(CONFIG, PAIRS, ()), CONFIG, 1.0)  # 12 target tokens in batches of 8
    assert facts["batches_per_epoch"] == 2
    assert facts["epochs"] == 5
    assert facts["filled"] == pytest.approx(21 / 25, abs=1e-4)  # (2·3 + 4·3) where 6 + 8 are, 3 + 4 where they are
    assert "suited_batch_tokens" not in facts  # 256, the smallest that is advised, would make one batch of all


@pytest.mark.parametrize(("train", "scale", "suited"), [
    ({"batch_tokens": 256}, 10, None), ({"batch_tokens": 512}, 10, 256), ({"batch_sentences": 4}, 10, None),
    ({"batch_sentences": 1}, 10_000, 256), ({"batch_tokens": 4}, 20_000, 256),
    ({"batch_tokens": 16}, 2_000_000, 32_768)])
def test_a_size_of_batches_is_advised_where_it_helps(train: dict[str, int], scale: float, suited: int | None) -> None:
    config = replace(CONFIG, train=from_mapping({"train": train}).train)
    corpus = corpus_of([np.ones(n) for n in (2, 2, 2, 3)], [np.ones(n) for n in (2, 2, 4, 4)])  # 12 target tokens
    facts = batch_facts(corpus, sample_tokenizers(CONFIG, PAIRS, ()), config, scale)
    assert facts.get("suited_batch_tokens") == suited


@pytest.mark.parametrize(("train", "more"), [
    ({"batch_tokens": 512}, ""), ({"batch_sentences": 8}, " (in a file, in place of batch_sentences)")])
def test_batch_sentences_are_spoken_of_where_they_are_configured(train: dict[str, int], more: str) -> None:
    found = of_sizes({"batches_per_epoch": 9, "suited_batch_tokens": 256}, from_mapping({"train": train}).train)
    assert [finding.do for finding in found] == [f"try --train.batch_tokens 256{more}"]
