"""What a tokenizer does not know of a text is named; what it knows is what its tokens spell."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pellucid.config import TokenizerConfig
from pellucid.data.tokenizers import UNK, Tokenizers, train_tokenizers

TEXTS = ["abc é中", "cab ab", "中é c b a", "bbc abc  ab"] * 9
KINDS: dict[str, dict[str, Any]] = {
    "bpe": {"vocab_size": 16, "character_coverage": 1.0}, "word": {"kind": "word"}, "character": {"kind": "character"},
    "unigram": {"vocab_size": 14, "algorithm": "unigram", "character_coverage": 1.0}}


@pytest.fixture(scope="module", params=KINDS)
def tokenizers(request: pytest.FixtureRequest) -> Tokenizers:
    return train_tokenizers(TokenizerConfig(**KINDS[request.param]), [(text, text) for text in TEXTS], "seq2seq")


@settings(max_examples=100, deadline=None)
@given(text=st.text("abcé中 ☃ж", max_size=20))
def test_what_is_unknown_is_named_and_what_is_known_is_spelt(tokenizers: Tokenizers, text: str) -> None:
    tokenizer, is_word = tokenizers.source, tokenizers.config.kind == "word"
    ids, unknown = tokenizer.encode(text), tokenizer.unknown(text)
    assert len(unknown) == ids.count(UNK)
    assert all(part in text and (is_word or set(part) & {"☃", "ж"}) for part in unknown)
    spellings = tokenizer.spellings()
    assert len(spellings) == tokenizer.size
    assert spellings[:4] == [""] * 4
    if text and not unknown and (not is_word or " ".join(text.split()) == text):
        assert "".join(spellings[i] for i in ids) == tokenizer.spelled(text)
