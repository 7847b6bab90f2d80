"""What the doctor advises against unknown tokens goes with the tokenizer there is, and works."""

from __future__ import annotations

from typing import Any

import pytest

from pellucid.config.mapping import from_mapping
from pellucid.data.tokenizers.build import train_tokenizers
from pellucid.doctor.examine import against_unknown
from pellucid.doctor.tokens import encode

PAIRS = [(f"{chr(0x5000 + i)}的一是不了{chr(0x5500 + i)}", "的一是不了人我在") for i in range(400)]


def unknown_and_advice(options: dict[str, Any]) -> tuple[float, str]:
    config = from_mapping({"tokenizer": options})
    tokenizers = train_tokenizers(config.tokenizer, PAIRS, "seq2seq")
    unknown = encode(PAIRS, tokenizers, config).unknown
    return unknown, against_unknown(config, tokenizers, unknown > 0)


@pytest.mark.parametrize(("options", "advised"), [
    ({"kind": "sentencepiece", "vocab_size": 760, "character_coverage": 0.98},
     {"character_coverage": 1.0, "vocab_size": 860}),
    ({"kind": "sentencepiece", "vocab_size": 815}, {"character_coverage": 1.0, "vocab_size": 860}),
    ({"kind": "character", "vocab_size": 100}, {"vocab_size": 1000}),
    ({"kind": "character", "min_frequency": 2}, {"min_frequency": 1})])
def test_the_advice_works(options: dict[str, Any], advised: dict[str, Any]) -> None:
    before, advice = unknown_and_advice(options)
    assert before > 0
    assert all(f"tokenizer.{key}" in advice for key in advised)
    assert unknown_and_advice(options | advised)[0] == 0


def test_coverage_is_advised_where_training_has_what_is_unknown() -> None:
    """Else the whole of it is known already, and it is the data that lacks these characters."""
    for coverage in (None, 0.98, 1.0):
        config = from_mapping({"tokenizer": {"vocab_size": 860, "character_coverage": coverage}})
        tokenizers = train_tokenizers(config.tokenizer, PAIRS, "seq2seq")
        assert "nothing, where training never sees" in against_unknown(config, tokenizers, False)
        assert ("character_coverage 1.0" in against_unknown(config, tokenizers, True)) == (coverage != 1)


def test_sentencepiece_is_not_advised_to_who_has_it() -> None:
    for coverage in (0.98, 1.0):
        options = {"kind": "sentencepiece", "vocab_size": 860, "character_coverage": coverage}
        assert "kind sentencepiece" not in unknown_and_advice(options)[1]
    assert "kind sentencepiece" in unknown_and_advice({"kind": "word", "vocab_size": 100})[1]
