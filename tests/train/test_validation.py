"""The validation loss: a mean over all real target tokens, without dropout or smoothing; and scores of a classifier."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from pellucid.config import RunConfig
from pellucid.data.batching import collate
from pellucid.data.corpus import Corpus, Sequences
from pellucid.data.encoding import Report
from pellucid.data.tokenizers.interface import EOS
from pellucid.evaluate.evaluate import pairs_of
from pellucid.model.build import build
from pellucid.model.classifier import Classifier
from pellucid.runs.run import load
from pellucid.train.averaging import MovingAverage
from pellucid.train.validation import mean_loss, of_loss, using
from pellucid.train.workers import Workers, can_fork

forks = pytest.mark.skipif(not can_fork(), reason="processes are not forked here")
V = 9
CHANGED: dict[str, Any] = {"model": {"dropout": 0.5, "attention_dropout": 0.5}, "train": {"label_smoothing": 0.3}}


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    """Lengths so different that a mean over sentences, or over batches, is far from one over tokens."""
    draw = np.random.default_rng(3)
    rows = [[*draw.integers(4, V, size=n).tolist(), EOS] for n in (1, 1, 1, 2, 9, 1, 8, 1, 10)]
    offsets = np.cumsum([0, *map(len, rows)]).astype(np.int64)
    side = Sequences(np.concatenate(rows).astype(np.int32), offsets)
    return Corpus(side, side, Report(9, 9, 0, 0, 0, 0))


def in_plain_words(model: torch.nn.Module, corpus: Corpus) -> float:
    """Sentence by sentence: the sum of −log P over tokens, over their number."""
    total, count = 0.0, 0
    for i in range(len(corpus)):
        batch = collate(corpus, np.asarray([i]))
        with torch.no_grad():
            logits = model(batch.source, batch.target_input)[0]
        total += F.cross_entropy(logits, batch.target[0], reduction="sum").item()
        count += batch.target.numel()
    return total / count


def test_perplexity_is_the_exponential_of_the_loss_and_finite() -> None:
    assert of_loss(math.log(7.0)) == {"loss": math.log(7.0), "perplexity": pytest.approx(7.0)}
    assert math.isfinite(of_loss(1e6)["perplexity"])


@pytest.mark.parametrize("sentences", [1, 2, 4, 9])
def test_it_is_the_mean_over_tokens_in_any_batches(corpus: Corpus, tiny: Callable[..., RunConfig],
                                                   sentences: int) -> None:
    config = tiny(**CHANGED)
    config = replace(config, train=replace(config.train, batch_sentences=sentences))
    model = build(config.model, V, V, shared=True)
    with using(None, model):
        found = mean_loss(model, corpus, config, "fp32", Workers(1, 1))
    assert model.training
    assert found == pytest.approx(in_plain_words(model.eval(), corpus), rel=1e-5)


def test_it_is_that_of_the_average_where_there_is_one(corpus: Corpus, tiny: Callable[..., RunConfig]) -> None:
    config = tiny(**CHANGED)
    model, other = build(config.model, V, V, shared=True), build(config.model, V, V, shared=True, seed=2)
    with using(MovingAverage(other, 0.9), model):
        found = mean_loss(model, corpus, config, "fp32", Workers(1, 1))
    assert found == pytest.approx(in_plain_words(other.eval(), corpus), rel=1e-5)
    assert found != pytest.approx(in_plain_words(model.eval(), corpus), rel=1e-3)


@pytest.mark.parametrize("workers", [1, pytest.param(3, marks=forks)])
def test_a_classifier_reads_a_row_once_for_its_loss_and_its_label(
        workers: int, tmp_path: Path, tiny: Callable[..., RunConfig], train_through: Any,
        monkeypatch: pytest.MonkeyPatch) -> None:
    read, real = list[int](), Classifier.forward

    def counted(model: Classifier, source: torch.Tensor, *others: Any) -> torch.Tensor:
        read.extend([] if model.training else [len(source)])
        return real(model, source, *others)

    monkeypatch.setattr(Classifier, "forward", counted)
    train_through(tiny(task="classification", train={"workers": workers, "average_last": 1},
                       data={"generated": {"task": "adjacent_duplicates", "validation": 30}}), tmp_path)
    assert sum(read) == 90 if workers == 1 else 0 < sum(read) < 90  # three validations; others have read the rest

    run = load(tmp_path)
    pairs = pairs_of(run, "validation", None)
    said = run.classify([text for text, _ in pairs])
    best = json.loads((tmp_path / "best.json").read_text())["step"]
    lines = map(json.loads, (tmp_path / "metrics.jsonl").read_text().splitlines())
    found = next(line for line in lines if line["event"] == "validation" and line["step"] == best)
    assert found["accuracy"] == pytest.approx(100 * np.mean([one.label == true for one, (_, true) in
                                                             zip(said, pairs, strict=True)]))
    assert found["loss"] == pytest.approx(-np.mean([np.log(one.probabilities[true]) for one, (_, true) in
                                                    zip(said, pairs, strict=True)]), rel=1e-5)
