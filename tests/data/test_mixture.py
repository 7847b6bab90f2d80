"""Mixtures: shares are as the weights say, every example of a source is seen equally often, in every size of block."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pellucid.config.mapping import from_mapping
from pellucid.data import blocks, examples, mixture
from pellucid.data.batching import Batches
from pellucid.data.corpus import Corpus, Sequences, open_corpus
from pellucid.data.encoding import Report
from pellucid.data.examples import Drawn, training_examples
from pellucid.data.mixture import Mixed
from pellucid.data.splits import open_splits
from pellucid.data.tokenizers.build import train_tokenizers
from pellucid.errors import ConfigError

WEIGHTS = st.sampled_from([0.25, 0.5, 1.0, 1.3, 2.0, 3.75])
SOURCES = st.lists(st.tuples(st.integers(1, 40), WEIGHTS), min_size=1, max_size=4)


def corpus_of(weights: list[tuple[int, float]]) -> Corpus:
    """Examples of 1 to 5 tokens, each with its own number as the first one."""
    count = sum(count for count, _ in weights)
    rows = [np.full(1 + i % 5, i + 4) for i in range(count)]
    side = Sequences(np.concatenate(rows).astype(np.int32), np.cumsum([0, *map(len, rows)]))
    return Corpus(side, side, Report(count, count, 0, 0, 0, 0), weights=tuple(weights))


def is_seen(weights: list[tuple[int, float]]) -> bool:
    return all(int(count * weight + 0.5) > 0 for count, weight in weights)


def test_the_tokens_of_whole_weights_are_told_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (blocks, mixture):
        monkeypatch.setattr(module, "BLOCK", 4)
    corpus = corpus_of([(7, 2.0), (0, 3.0), (9, 1.0)])  # of a source that has nothing left, nothing is asked
    mixed = Mixed(corpus, 1)
    rows = [mixed.window(0, range(block, block + 1))[1] for block in range(4)]
    tokens = [int(corpus.source.lengths_of(each).sum()) for each in rows]
    assert mixed.totals().tolist() == [[len(each), count, count] for each, count in zip(rows, tokens, strict=True)]
    assert sum(map(len, rows)) == 2 * 7 + 9


@settings(max_examples=60, deadline=None)
@given(weights=SOURCES.filter(is_seen), block=st.integers(1, 50), seed=st.integers(0, 3))
def test_an_epoch_has_the_shares_that_the_weights_say(weights: list[tuple[int, float]], block: int, seed: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        for module in (blocks, mixture):
            patch.setattr(module, "BLOCK", block)
        corpus = corpus_of(weights)
        mixed, totals = Mixed(corpus, seed), Mixed(corpus, seed).totals()
        for epoch in range(4):
            rows = mixed.window(epoch, range(mixed.blocks))[1]
            assert len(rows) == totals[:, 0].sum()
            in_parts = [mixed.window(epoch, range(one, one + 1))[1] for one in range(mixed.blocks)]
            assert list(map(len, in_parts)) == totals[:, 0].tolist()
            assert sorted(np.concatenate(in_parts).tolist()) == sorted(rows.tolist())
            assert rows.tolist() == Mixed(corpus, seed).window(epoch, range(mixed.blocks))[1].tolist()
            first = 0
            for count, weight in weights:
                times = np.bincount(rows[(rows >= first) & (rows < first + count)] - first, minlength=count)
                assert times.sum() == int(weight) * count + int(weight % 1 * count + 0.5)
                assert set(times.tolist()) <= {int(weight), int(weight) + 1}
                first += count


def test_sources_of_one_size_take_their_turns_apart() -> None:
    rows = Mixed(corpus_of([(20, 0.5), (20, 0.5)]), seed=1).window(0, range(1))[1]
    assert set(rows[rows < 20]) != set(rows[rows >= 20] - 20)


def test_four_epochs_of_a_quarter_have_each_example_once() -> None:
    mixed = Mixed(corpus_of([(8, 0.25), (3, 2.0)]), seed=1)
    epochs = [mixed.window(epoch, range(1))[1] for epoch in range(4)]
    assert Counter(np.concatenate(epochs).tolist()) == {**dict.fromkeys(range(8), 1), **dict.fromkeys(range(8, 11), 8)}
    assert len({tuple(sorted(rows.tolist())) for rows in epochs}) == 4
    assert len(mixed.in_epoch(0)) == 8


@settings(max_examples=25, deadline=None)
@given(weights=SOURCES.filter(is_seen), block=st.integers(2, 60), tokens=st.integers(5, 60))
def test_batches_have_the_examples_of_the_epoch(weights: list[tuple[int, float]], block: int, tokens: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        for module in (blocks, mixture):
            patch.setattr(module, "BLOCK", block)
        patch.setattr(blocks, "WINDOW", 2)
        corpus = corpus_of(weights)
        batches = Batches(Mixed(corpus, 5), tokens, None, 5)
        for epoch in range(3):
            rows = np.concatenate(batches.examples(epoch))
            expected = Mixed(corpus, 5).window(epoch, range(corpus.blocks))[1]
            assert sorted(rows.tolist()) == sorted(expected.tolist())


def test_a_weight_that_leaves_nothing_is_refused() -> None:
    with pytest.raises(ConfigError, match="leaves none of 9 examples"):
        Mixed(corpus_of([(100, 1.0), (9, 0.05)]), seed=1)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PELLUCID_CACHE", str(tmp_path / "cache"))


@pytest.mark.usefixtures("cache")
@pytest.mark.parametrize("weight", [0.05, 0.01])
def test_a_window_without_an_example_may_be_drawn(monkeypatch: pytest.MonkeyPatch, weight: float) -> None:
    """Neither those that tell how long examples become when drawn, nor all that are batched, have any."""
    for module in (blocks, mixture, examples):
        monkeypatch.setattr(module, "BLOCK", 5)
    monkeypatch.setattr(blocks, "WINDOW", 2)
    monkeypatch.setattr(examples, "WINDOW", 2)
    mixed = Mixed(corpus_of([(100, weight)]), 1)
    batches = Batches(Drawn(mixed, [lambda sources, targets, random: (sources, targets)], 1), 3, None, 1)
    for epoch in range(2):
        drawn = [batches._find(epoch * batches.per_epoch + i) for i in range(batches.per_epoch)]
        found = [int(corpus.source[row][0]) - 4 for corpus, rows in drawn for row in rows]
        assert sorted(found) == sorted(mixed.window(epoch, range(mixed.blocks))[1].tolist())


@pytest.mark.usefixtures("cache")
def test_weights_go_from_the_file_to_the_batches(tmp_path: Path) -> None:
    for name, count in (("a", 30), ("b", 10)):
        (tmp_path / name).mkdir()
        for shard in range(2):
            lines = [f"{name} {shard} {i}\t{i}\n" for i in range(count)]
            (tmp_path / name / f"{shard}.tsv").write_text("".join(lines) + "\tempty\n")
    config = from_mapping({"tokenizer": {"kind": "word"}, "data": {"validation_share": 0, "train": [
        {"path": f"{tmp_path}/a"}, {"path": f"{tmp_path}/b", "weight": 2.5}]}, "train": {"batch_sentences": 4}})
    pairs = open_splits(config, tmp_path / "run")["train"]
    tokenizers = train_tokenizers(config.tokenizer, pairs, config.task)
    corpus = open_corpus(pairs, tokenizers, config)
    assert corpus.weights == ((60, 1.0), (20, 2.5))
    batches = Batches(training_examples(corpus, tokenizers, config), 0, 4, config.seed)
    rows = np.concatenate(batches.examples(0))
    assert [(rows < 60).sum(), (rows >= 60).sum()] == [60, 50]
    plain = from_mapping({"tokenizer": {"kind": "word"}, "data": {"validation_share": 0, "train": [
        f"{tmp_path}/a", f"{tmp_path}/b"]}})
    alike = open_corpus(open_splits(plain, tmp_path / "run")["train"], tokenizers, plain)
    assert alike.weights == ()
    assert training_examples(alike, tokenizers, plain) is alike
    assert alike.source.tokens.tolist() == corpus.source.tokens.tolist()
