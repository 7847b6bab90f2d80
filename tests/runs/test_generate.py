"""Texts in, texts out: each line gets its own answer, in its own place, whatever stands around it."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pellucid.config import DecodeConfig, ModelConfig, TokenizerConfig
from pellucid.data.batching import pad
from pellucid.data.tokenizers.build import Tokenizers, train_tokenizers
from pellucid.data.tokenizers.interface import BOS, EOS
from pellucid.errors import PellucidWarning
from pellucid.model.build import build
from pellucid.model.stepper import evaluating
from pellucid.model.transformer import Transformer
from pellucid.runs.candidates import Generated
from pellucid.runs.generate import generate, score_targets
from pellucid.runs.texts import length_groups

WORDS = "a b c d e f g h".split()
GREEDY = DecodeConfig(beam_size=1, max_length=10)
BEAM = DecodeConfig(beam_size=3, n_best=3, max_length=10)


def sentences(count: int, seed: int) -> list[str]:
    draw = random.Random(seed)
    return [" ".join(draw.choices(WORDS, k=draw.randint(1, 6))) for _ in range(count)]


@pytest.fixture(scope="module")
def tokenizers() -> Tokenizers:
    pairs = [(text, text) for text in (*sentences(50, 1), *WORDS)]
    return train_tokenizers(TokenizerConfig(kind="word"), pairs, "seq2seq")


@pytest.fixture(scope="module")
def model(tokenizers: Tokenizers) -> Iterator[Transformer]:
    """It has learned a little of saying everything backwards."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    size = tokenizers.source.size
    made = build(ModelConfig(d_model=16, n_heads=2, d_ff=32, encoder_layers=1, decoder_layers=1, dropout=0.2,
                             max_length=16), size, size, shared=True)
    optimizer = torch.optim.Adam(made.parameters(), lr=5e-3)
    for number in range(80):
        texts = tokenizers.source.encode_batch(sentences(24, number))
        source, real = pad([np.asarray([*ids, EOS], dtype=np.int32) for ids in texts])
        target, _ = pad([np.asarray([*ids[::-1], EOS], dtype=np.int32) for ids in texts])
        shifted = torch.cat([torch.full((24, 1), BOS), target[:, :-1]], dim=1)
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(made(source, shifted, real).flatten(0, 1), target.flatten(),
                                          ignore_index=0).backward()
        optimizer.step()
    yield made.train()
    torch.set_num_threads(threads)


def same(found: list[Generated], expected: list[Generated]) -> None:
    assert [[h.text for h in each.hypotheses] for each in found] == [[h.text for h in e.hypotheses] for e in expected]
    for a, b in zip(found, expected, strict=True):
        assert [h.score for h in a.hypotheses] == pytest.approx([h.score for h in b.hypotheses], abs=1e-4)


@pytest.mark.parametrize("config", [GREEDY, BEAM, replace(BEAM, sample=True, temperature=1.2)],
                         ids=["greedy", "beam", "samples"])
def test_the_size_of_batches_changes_nothing(config: DecodeConfig, model: Transformer, tokenizers: Tokenizers) -> None:
    texts = sentences(25, 7)
    expected = generate(model, tokenizers, texts, config, 16)
    for budget in (1, 13, 40):
        same(generate(model, tokenizers, texts, replace(config, batch_tokens=budget), 16), expected)


@pytest.mark.parametrize("config", [GREEDY, BEAM], ids=["greedy", "beam"])
def test_the_order_is_that_of_the_lines(config: DecodeConfig, model: Transformer, tokenizers: Tokenizers) -> None:
    texts = sentences(25, 8)
    expected = generate(model, tokenizers, texts, config, 16)
    same(generate(model, tokenizers, texts[::-1], config, 16)[::-1], expected)
    same([generate(model, tokenizers, [text], config, 16)[0] for text in texts], expected)


def test_an_empty_line_for_an_empty_line(model: Transformer, tokenizers: Tokenizers) -> None:
    texts = ["", "a b", "   ", "c", "\t"]
    found = generate(model, tokenizers, texts, GREEDY, 16)
    assert [found[i].text for i in (0, 2, 4)] == ["", "", ""]
    same([found[1], found[3]], generate(model, tokenizers, ["a b", "c"], GREEDY, 16))
    assert generate(model, tokenizers, [], GREEDY, 16) == []
    assert generate(model, tokenizers, ["", ""], BEAM, 16)[1].score == 0.0


def test_a_sample_depends_on_the_line_number_and_the_seed(model: Transformer, tokenizers: Tokenizers) -> None:
    config = replace(GREEDY, sample=True, temperature=3.0)
    one = generate(model, tokenizers, ["", "a b c d", "a b c d"], config, 16)
    assert one[1] != one[2]
    again = generate(model, tokenizers, ["f", "a b c d"], config, 16)
    same([again[1]], [one[1]])
    assert generate(model, tokenizers, ["f", "a b c d"], replace(config, seed=9), 16)[1].text != one[1].text


def test_a_long_source_is_cut_as_in_training_with_its_end(model: Transformer, tokenizers: Tokenizers) -> None:
    long = " ".join(WORDS * 4)
    with pytest.warns(PellucidWarning, match="line 1 loses 28 of its 33 tokens"):
        cut = generate(model, tokenizers, [long], BEAM, 5)
    same(cut, generate(model, tokenizers, ["a b c d"], BEAM, 5))


def test_prefixes_begin_the_outputs(model: Transformer, tokenizers: Tokenizers) -> None:
    texts, prefixes = ["a b", "", "c d e"], ["h h", "a", ""]
    found = generate(model, tokenizers, texts, BEAM, 16, prefixes)
    assert all(h.text.startswith("h h") for h in found[0].hypotheses)
    assert found[1].text == ""
    same([found[2]], generate(model, tokenizers, [texts[2]], BEAM, 16))
    with pytest.raises(ValueError, match="3 texts and 2 prefixes"):
        generate(model, tokenizers, texts, BEAM, 16, prefixes[:2])


def test_the_best_comes_first_with_its_pieces(model: Transformer, tokenizers: Tokenizers) -> None:
    for found in generate(model, tokenizers, sentences(9, 3), BEAM, 16):
        assert [h.score for h in found.hypotheses] == sorted((h.score for h in found.hypotheses), reverse=True)
        best = found.hypotheses[0]
        assert (found.text, found.score, found.tokens) == (best.text, best.score, best.tokens)
        assert " ".join(best.tokens) == best.text


def test_progress_counts_every_line_and_the_mode_comes_back(model: Transformer, tokenizers: Tokenizers) -> None:
    told: list[int] = []
    generate(model, tokenizers, ["a", "", "a b c", "b"], replace(GREEDY, batch_tokens=2), 16, progress=told.append)
    assert told == [2, 3, 4]
    assert model.training
    seen = []

    def fail() -> None:
        with evaluating(model):
            seen.append(model.training)
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert seen == [False]
    assert model.training


def test_an_option_out_of_range_is_refused(model: Transformer, tokenizers: Tokenizers) -> None:
    with pytest.raises(ValueError, match="beam_size"):
        generate(model, tokenizers, ["a"], replace(GREEDY, beam_size=0), 16)


@settings(deadline=None)
@given(lengths=st.lists(st.integers(1, 20), max_size=50), budget=st.integers(1, 100))
def test_length_groups(lengths: list[int], budget: int) -> None:
    groups = list(length_groups(lengths, budget))
    flat = [i for group in groups for i in group]
    assert sorted(flat) == list(range(len(lengths)))
    assert [lengths[i] for i in flat] == sorted(lengths, reverse=True)
    for group, after in zip(groups, [*groups[1:], None]):
        longest = max(lengths[i] for i in group)
        assert len(group) == 1 or len(group) * longest <= budget
        assert after is None or (len(group) + 1) * longest > budget  # no group ends before it must


def test_the_score_of_a_target_is_the_log_softmax_of_its_tokens(model: Transformer, tokenizers: Tokenizers) -> None:
    def ids(text: str) -> Any:
        return np.asarray([*tokenizers.source.encode(text), EOS], dtype=np.int32)

    pairs = [(ids(a), ids(b)) for a, b in zip(sentences(12, 4), sentences(12, 5))]
    model.eval()
    for budget in (1, 20, 1000):
        for (source, target), row in zip(pairs, score_targets(model, pairs, budget), strict=True):
            with torch.no_grad():
                given = torch.tensor([[BOS, *target[:-1].tolist()]])
                logits = model(torch.from_numpy(source.astype(np.int64))[None], given)[0]
            expected = [logits[t].log_softmax(-1)[token].item() for t, token in enumerate(target.tolist())]
            assert row == pytest.approx(expected, abs=1e-4)
    model.train()
    assert score_targets(model, [], 100) == []
