"""Every symbol of every category is one piece, alone and between others, and comes back as it was."""

from __future__ import annotations

import itertools
import random
import unicodedata
from dataclasses import replace

import pytest

from pellucid.config import TokenizerConfig
from pellucid.config.mapping import from_mapping
from pellucid.data.tokenizers import UNK, Tokenizers, train_tokenizers
from pellucid.data.tokenizers.interface import Tidy
from pellucid.data.tokenizers.symbols import CATEGORIES, symbols_of
from pellucid.errors import ConfigError
from pellucid.recipes import read_recipe

ALL = symbols_of(tuple(CATEGORIES))
LETTERS = "天地玄黄宇宙洪荒日月盈昃abc019"


@pytest.fixture(scope="module")
def made() -> Tokenizers:
    draw = random.Random(1)
    texts = ["".join(draw.choices(LETTERS, k=30)) for _ in range(200)]
    config = TokenizerConfig(vocab_size=len(ALL) + 150, symbols=tuple(CATEGORIES), split_digits=True)
    return train_tokenizers(config, [(text, text) for text in texts], "seq2seq")


def test_every_symbol_comes_back_as_one_piece(made: Tokenizers) -> None:
    source = made.source
    for symbol in ALL:
        for before, after in (("", ""), ("天", "地"), ("abc ", " 玄黄"), ("1", "0"), ("“", "”")):
            text = before + symbol + after
            ids = source.encode(text)
            assert UNK not in ids, symbol
            assert source.decode(ids) == text
            assert symbol in source.pieces(ids), (text, source.pieces(ids))
        assert [piece for piece in source.pieces(source.encode(symbol)) if piece != "▁"] == [symbol]


@pytest.mark.parametrize(("tidied", "gone"), [
    ({"strip_punctuation": True}, {"，", "。", "!", "——"}), ({"lowercase": True}, {"Α", "Ⅳ", "Å"}), ({}, set())])
def test_a_symbol_that_no_text_has_takes_no_place(tidied: dict[str, bool], gone: set[str]) -> None:
    config = TokenizerConfig(symbols=tuple(CATEGORIES), **tidied)
    tidy = Tidy(config.lowercase, config.strip_punctuation)
    kept = [symbol for symbol in ALL if tidy(symbol) == symbol]
    config = replace(config, vocab_size=len(kept) + 60)
    draw = random.Random(1)
    texts = ["".join(draw.choices(LETTERS, k=30)) for _ in range(200)]
    source = train_tokenizers(config, [(text, text) for text in texts], "seq2seq").source
    pieces = source.pieces(range(source.size))
    assert set(pieces) & set(ALL) == set(kept)
    assert not gone & set(pieces)
    assert {"±", "→", "α"} <= set(pieces)


def test_digits_stand_alone(made: Tokenizers) -> None:
    pieces = made.source.pieces(made.source.encode("天1909地"))
    assert [piece for piece in pieces if piece.isdigit()] == ["1", "9", "0", "9"]


def test_a_symbol_belongs_to_one_category_and_is_no_letter_or_digit_of_the_language() -> None:
    for a, b in itertools.combinations(CATEGORIES, 2):
        assert not set(CATEGORIES[a]) & set(CATEGORIES[b]), (a, b)
    for name, symbols in CATEGORIES.items():
        assert len(set(symbols)) == len(symbols), name
        for symbol in symbols:
            assert not any("一" <= c <= "鿿" or (c.isascii() and c.isalnum()) or c.isspace() for c in symbol), symbol


@pytest.mark.parametrize(("category", "kinds"), [
    ("latin_punctuation", "P"), ("currency", "S"), ("arrows", "S"), ("greek", "L"), ("shapes", "S")])
def test_a_category_holds_what_its_name_says(category: str, kinds: str) -> None:
    found = [unicodedata.category(symbol)[0] in kinds for symbol in CATEGORIES[category]]
    assert sum(found) > 0.6 * len(found)


@pytest.mark.parametrize(("category", "ranges"), [
    ("latin_punctuation", [(0x21, 0x2F), (0x3A, 0x40), (0x5B, 0x60), (0x7B, 0x7E)]),
    ("cjk_punctuation", [(0x3001, 0x3003)]), ("greek", [(0x391, 0x3A1), (0x3A3, 0x3A9), (0x3B1, 0x3C9)])])
def test_a_category_is_complete(category: str, ranges: list[tuple[int, int]]) -> None:
    wanted = {chr(code) for low, high in ranges for code in range(low, high + 1)}
    assert wanted <= set(CATEGORIES[category])


def test_every_currency_sign_of_its_block_is_there() -> None:
    wanted = {chr(code) for code in range(0x20A0, 0x20C0) if unicodedata.category(chr(code)) == "Sc"}
    assert wanted <= {*CATEGORIES["currency"]}


def test_the_recipe_names_every_category() -> None:
    assert set(from_mapping(read_recipe("wikipedia-zh-title").mapping).tokenizer.symbols) == set(CATEGORIES)


def test_an_unknown_category_is_refused() -> None:
    with pytest.raises(ConfigError, match="'greeek'") as caught:
        symbols_of(("greeek",))
    assert "greek" in caught.value.fix
