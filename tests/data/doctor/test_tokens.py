"""Lengths, padding and sizes by hand."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from pellucid.config import from_mapping
from pellucid.data.doctor.reading import Window
from pellucid.data.doctor.tokens import (
    Encoded,
    LengthCheck,
    batch_facts,
    encode,
    length_facts,
    sample_tokenizers,
    suited_vocabulary,
)

CONFIG = from_mapping({"tokenizer": {"kind": "word", "shared": False, "min_frequency": 2},
                       "model": {"max_length": 4}, "train": {"batch_tokens": 8, "steps": 10}})
PAIRS = [("a b", "x"), ("a b", "x y"), ("a c", "x y z"), ("", "x")]


def encoded(source: list[int], target: list[int], counts: dict[int, int] | None = None) -> Encoded:
    both = Counter(counts or {})
    return Encoded((np.asarray(source), np.asarray(target)), (both, both))


def test_tokens_and_unknown_ones() -> None:
    found = encode(PAIRS, sample_tokenizers(CONFIG, PAIRS), CONFIG)
    assert [side.tolist() for side in found.lengths] == [[3, 3, 3], [2, 3, 4]]  # eos counted
    assert found.unknown == pytest.approx(2 / 18)  # c and z stand there once


def test_long_texts_are_found_and_short_ones_never_encoded() -> None:
    check = LengthCheck(CONFIG, sample_tokenizers(CONFIG, PAIRS))
    check.add(Window([7, 8, 9], ["a b c", "a b c d", "a"], ["x", "abcdefghij", "x y z y x"]))
    assert (check.source.numbers, check.target.numbers) == ([8], [9])  # 4 tokens and eos are more than 4


def test_histogram() -> None:
    facts = length_facts(encoded([1, 4, 5, 8, 9, 16], [2] * 6))
    assert facts["source"]["histogram"] == {"1-4": 2, "5-8": 2, "9-16": 2}
    assert (facts["source"]["longest"], facts["target"]["median"]) == (16, 2)


def test_a_vocabulary_suits_when_nearly_all_of_it_is_seen_a_hundred_times() -> None:
    all_seen = dict.fromkeys(range(1000), 100)
    assert suited_vocabulary(encoded([], [], all_seen), 1.0) is None
    assert suited_vocabulary(encoded([], [], dict.fromkeys(range(1000), 50)), 2.0) is None
    assert suited_vocabulary(encoded([], [], {**all_seen, **dict.fromkeys(range(1000, 2000), 9)}), 1.0) == 1000


def test_batches_by_hand() -> None:
    facts = batch_facts(encoded([2, 2, 2, 3], [2, 2, 4, 4]), CONFIG, 1.0)  # 12 target tokens in batches of 8
    assert facts["batches_per_epoch"] == 2
    assert facts["epochs"] == 5
    assert facts["filled"] == pytest.approx(21 / 25, abs=1e-4)  # (2·3 + 4·3) where 6 + 8 are, 3 + 4 where they are
    assert facts["suited_batch_tokens"] == 256  # the smallest that is advised
