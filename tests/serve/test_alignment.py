"""Words and their links: by place, and by where the decoder looked."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pellucid.config.mapping import from_mapping
from pellucid.data.tokenizers.build import train_tokenizers
from pellucid.data.tokenizers.interface import BOS, EOS
from pellucid.inspection.record import record_attention
from pellucid.model.build import build
from pellucid.runs.run import Run
from pellucid.serve.alignment import CrossAttention, proportional, words

PAIRS = [("the small Cat sleeps, here", "le petit Chat dort, ici"), ("a dog runs", "un chien court")]
TOKENIZERS: list[dict[str, object]] = [
    {"kind": "word"}, {"kind": "word", "lowercase": True, "strip_punctuation": True},
    {"kind": "sentencepiece", "vocab_size": 45}, {"kind": "character"}]


def make_run(tokenizer: dict[str, object], layers: int = 2, max_length: int = 20) -> Run:
    config = from_mapping({"tokenizer": {"shared": False, **tokenizer},
                           "model": {"d_model": 8, "n_heads": 2, "d_ff": 8, "encoder_layers": 1,
                                     "decoder_layers": layers, "dropout": 0.0, "max_length": max_length}})
    made = train_tokenizers(config.tokenizer, PAIRS, "seq2seq")
    torch.manual_seed(1)
    model = build(config.model, made.source.size, made.target.size)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_()  # so that attention is not even
    return Run(Path("none"), config, made, model.eval())


@pytest.mark.parametrize(("text", "marked"), [
    ("One, two.", "One|,|two|."), ("l'homme", "l|'|homme"), ("don_t x1", "don_t|x1"), ("我好a。b", "我|好|a|。|b"),
    ("나는 간다", "나는|간다"), ("नमस्ते", "नमस्ते"), ("ไทย", "ไ|ท|ย"), ("e\u0301t", "e\u0301t"),
    ("می\u200cخواهم Donau\xaddampf", "می\u200cخواهم|Donau\xaddampf"), ("👩\u200d👧👍🏽 ok", "👩\u200d👧|👍🏽|ok"),
    (" ", ""), ("", ""), ("--", "-|-")])
def test_words_by_hand(text: str, marked: str) -> None:
    assert [text[begin:end] for begin, end in words(text)] == (marked.split("|") if marked else [])


@settings(max_examples=200, deadline=None)
@given(text=st.text(max_size=40))
def test_words_hold_all_but_space(text: str) -> None:
    found = words(text)
    assert "".join(text[begin:end] for begin, end in found) == "".join(c for c in text if not c.isspace())
    assert found == sorted(found)
    assert len(words(" ".join(text.split(" ")).replace(" ", "   "))) == len(found)


def test_by_place_each_word_belongs_to_the_one_as_far_along() -> None:
    assert proportional([("a b c", "x y z"), ("a b", "w x y z"), ("a b c d", "x y"), ("", "x"), ("a", "")]) == [
        [(0, 0), (1, 1), (2, 2)], [(0, 0), (0, 1), (1, 2), (1, 3)], [(1, 0), (3, 1)], [], []]


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_each_word_is_linked_to_what_was_looked_at_most_by_the_upper_half(layers: int) -> None:
    run = make_run({"kind": "word"}, layers)
    source, target = "the dog sleeps, here", "un Chat dort, ici"
    with torch.inference_mode(), record_attention(run.model) as weights:
        run.model(torch.tensor([[*run.tokenizers.source.encode(source), EOS]]),
                  torch.tensor([[BOS, *run.tokenizers.target.encode(target)[:-1]]]))
    upper = [weights[f"decoder.layers.{layer}.cross_attention"][0].mean(0) for layer in range(layers // 2, layers)]
    tokens = torch.stack(upper).mean(0)[:, :4].argmax(1).tolist()  # "dort," and "sleeps," are two words, and a token
    word_of = [0, 1, 2, 4]
    wanted = [(word_of[tokens[0]], 0), (word_of[tokens[1]], 1), (word_of[tokens[2]], 2), (word_of[tokens[2]], 3),
              (word_of[tokens[3]], 4)]
    assert CrossAttention(run)([(source, target)]) == [wanted]


def test_marks_that_end_both_are_linked() -> None:
    run = make_run({"kind": "character"})
    source = "the dog, here,"
    (links,) = CrossAttention(run)([(source, "un Chat ,")])
    assert links[-1] == (len(words(source)) - 1, 2)
    assert links[:-1] == CrossAttention(run)([(source, "un Chat x")])[0][:-1]


@pytest.mark.parametrize("word", ["ici\u0301", "नमस्ते"])
def test_a_word_that_ends_in_an_accent_is_no_mark(word: str) -> None:
    (links,) = CrossAttention(make_run({"kind": "character"}))([("the dog, here,", f"un {word}")])
    assert links == [(1, 0), (1, 1)]


@pytest.mark.parametrize("tokenizer", TOKENIZERS, ids=str)
def test_links_are_of_words_that_are_there_and_the_same_in_any_batch(tokenizer: dict[str, object]) -> None:
    run = make_run(tokenizer, max_length=12)
    pairs = [*PAIRS, ("ZZ the qq cat", "Chat xx , yy"),
             ("", "un"), ("a", ""), ("a " * 30, "un " * 30), ("⁇ 我", "⁇ 我")]
    align = CrossAttention(run)
    found = align(pairs)
    assert found == [align([pair])[0] for pair in pairs]
    for (source, target), links in zip(pairs, found, strict=True):
        assert all(0 <= i < len(words(source)) and 0 <= j < len(words(target)) for i, j in links)
        assert len({j for _, j in links}) == len(links)
    assert [j for _, j in found[1]] == [0, 1, 2]


@pytest.mark.parametrize("tokenizer", TOKENIZERS, ids=str)
@pytest.mark.parametrize("text", ["the small Cat sleeps, here", "the XYZ Cat, the ÉÉ here", " a  dog "])
def test_tokens_are_found_where_they_stand(tokenizer: dict[str, object], text: str) -> None:
    run = make_run(tokenizer)
    ids = run.tokenizers.source.encode(text)
    spans = CrossAttention(run)._spans(0, text, ids)
    covered = np.zeros(len(text), dtype=int)
    for begin, end in spans:
        covered[begin:end] += 1
    assert len(spans) == len(ids)
    wanted = [not c.isspace() and not (tokenizer.get("strip_punctuation") and c == ",") for c in text]
    assert covered.tolist() == [int(one) for one in wanted]
