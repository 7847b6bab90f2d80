"""A tokenizer.json makes the same ids of a text as our tokenizer, and the same text of ids."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from typing import Any

import pytest
from tests.interop.conftest import sentences

from pellucid.data.tokenizers.imported import ImportedTokenizer, imported_content
from pellucid.data.tokenizers.interface import SPECIALS, UNK, Tidy
from pellucid.errors import ConfigError
from pellucid.interop.tokenizer_json import tokenizer_json

theirs = pytest.importorskip("tokenizers")

ODD = ["", " ", "  two  spaces ", "tab\there", "😀 unknown ☃☃", "the cat ☃ sleeps", "a\u00a0b", "x" * 300, "\u3000全角",
       "a\nb", "——……，。—— x", "<extra_id_0> a<extra_id_1>", "THE CAT İ", "a - b . c! (d)", "\u2028 x", "12 3.5",
       "a</s>b", "<s>", "the <s> cat </s>", "<unk> <pad>", "sees cat<s>", "cat</s><b>.<pad>,",
       "☃<s>", "_</s><unk></pad>☃"]
KINDS: list[dict[str, Any]] = [
    {"kind": "word"}, {"kind": "word", "lowercase": True, "strip_punctuation": True}, {"kind": "character"},
    {"kind": "character", "lowercase": True}, {}, {"lowercase": True, "strip_punctuation": True},
    {"symbols": ("cjk_punctuation", "latin_punctuation"), "sentinels": 5, "split_digits": True, "vocab_size": 300},
    {"symbols": ("latin_punctuation", "arrows"), "strip_punctuation": True, "vocab_size": 150},
    {"user_defined_symbols": ("cat", "<b>")}]
UNIGRAM: list[dict[str, Any]] = [
    {"algorithm": "unigram", "vocab_size": 60},
    {"algorithm": "unigram", "symbols": ("latin_punctuation",), "sentinels": 5, "vocab_size": 120}]


@pytest.mark.parametrize("keys", [*KINDS, *UNIGRAM], ids=str)
def test_ids_and_texts_are_the_same(keys: dict[str, Any], tokenizers: Any) -> None:
    ours = tokenizers(**keys)
    made = theirs.Tokenizer.from_str(json.dumps(tokenizer_json(ours, classify=False), ensure_ascii=False))
    made.encode_special_tokens = True
    draw = random.Random(1)
    letters = ["".join(draw.choices("thecaslpdogmunrb eou.,!é", k=draw.randint(1, 25))) for _ in range(100)]
    for text in [*sentences(300, 5), *ODD, *letters]:  # whose pieces are made in one order alone
        ids = ours.source.encode(text)
        assert made.encode(text).ids == [*ids, 3], text
        assert made.decode([2, *ids, 3], skip_special_tokens=True) == ours.source.decode(ids)


@pytest.mark.parametrize("keys", [*KINDS, *UNIGRAM], ids=str)
def test_no_text_becomes_a_special_token(keys: dict[str, Any], tokenizers: Any) -> None:
    ours = tokenizers(**keys)
    made = theirs.Tokenizer.from_str(json.dumps(tokenizer_json(ours, classify=False), ensure_ascii=False))
    made.encode_special_tokens = True
    for text in ("</s>", "<s>", "<pad>", "the </s> cat", "the</s>cat <s><pad>", "cat</s>", "<b><s><b>", "sees.<s>"):
        assert not {0, 2, 3} & set(made.encode(text, add_special_tokens=False).ids)


@pytest.mark.parametrize("name", ["<unk>", "[UNK]"])
def test_what_is_unknown_is_named_as_it_stands_whatever_the_file_calls_it(name: str) -> None:
    model = {"type": "WordLevel", "vocab": {"the": 0, "cat": 1, name: 2}, "unk_token": name}
    content = imported_content([*SPECIALS, "the", "cat"], ([], []), (name, "<s>", "</s>"), {
        "version": "1.0", "normalizer": {"type": "Lowercase"}, "pre_tokenizer": {"type": "Whitespace"}, "model": model},
        forced=False)
    made = ImportedTokenizer(content, Tidy(lowercase=False, strip_punctuation=False))
    assert made.encode("The ☃ CAT  Dogs ") == [4, UNK, 5, UNK]
    assert made.unknown("The ☃ CAT  Dogs ") == ["☃", "Dogs"]


def test_a_text_to_classify_begins_with_bos(tokenizers: Any) -> None:
    ours = tokenizers("classification", kind="character")
    made = theirs.Tokenizer.from_str(json.dumps(tokenizer_json(ours, classify=True)))
    assert made.encode("the").ids == [2, *ours.source.encode("the")]


def test_rules_of_another_package_are_refused(tokenizers: Any) -> None:
    made = tokenizers(kind="word")
    with pytest.raises(ConfigError, match=r"tokenizer\.kind spacy has no tokenizer\.json"):
        tokenizer_json(replace(made, config=replace(made.config, kind="spacy")), classify=False)


def test_a_word_that_is_spelled_as_a_special_one_is_refused() -> None:
    from pellucid.config import TokenizerConfig
    from pellucid.data.tokenizers.build import train_tokenizers

    made = train_tokenizers(TokenizerConfig(kind="word"), [("a <s> b", "b </s>")], "seq2seq")
    with pytest.raises(ConfigError, match="spelled <"):
        tokenizer_json(made, classify=False)
