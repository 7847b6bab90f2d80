"""Averages of weights are averages, of the checkpoints they should be of."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from pellucid.ablate.outcome import trained_scores
from pellucid.data.splits import open_splits
from pellucid.runs.run import load
from pellucid.train import train as train_run
from pellucid.train.averaging import MovingAverage, mean_of
from pellucid.train.validation import mean_loss
from pellucid.train.workers import Workers


def test_the_mean_is_the_arithmetic_mean_in_the_dtype_of_the_weights() -> None:
    torch.manual_seed(0)
    sets = [{"a": torch.randn(5, 3), "b": torch.randn(4, dtype=torch.float64)} for _ in range(7)]
    mean = mean_of(iter(sets))
    assert mean["a"].dtype == torch.float32
    torch.testing.assert_close(mean["a"], torch.stack([s["a"] for s in sets]).mean(0))
    torch.testing.assert_close(mean["b"], torch.stack([s["b"] for s in sets]).mean(0))
    assert torch.equal(mean_of([sets[0]])["a"], sets[0]["a"])


def test_the_moving_average_is_its_equation() -> None:
    torch.manual_seed(0)
    model = nn.Linear(3, 2)
    average = MovingAverage(model, 0.7)
    expected = {name: p.detach().double() for name, p in model.named_parameters()}
    for step in range(1, 30):
        with torch.no_grad():
            for p in model.parameters():
                p.add_(torch.randn_like(p))
        average.update(model, step)
        d = min(0.7, (1 + step) / (10 + step))
        expected = {name: d * expected[name] + (1 - d) * p.detach().double() for name, p in model.named_parameters()}
        for name, tensor in average.weights.items():
            torch.testing.assert_close(tensor.double(), expected[name], rtol=1e-5, atol=1e-5)


def weights(out: Path, name: str) -> dict[str, torch.Tensor]:
    return load_file(out / "checkpoints" / name / "model.safetensors")


def test_the_average_is_that_of_the_last_milestones_and_no_interruption_enters(tmp_path: Path, tiny: Any,
                                                                              train_through: Any) -> None:
    config = tiny(train={"average_last": 3, "steps": 11})  # milestones 3, 6, 9 and the last step
    train_through(config, tmp_path, (2, 7, 8, 10))
    milestones = [f"step-{step:08d}" for step in (6, 9, 11)]
    expected = mean_of(weights(tmp_path, name) for name in milestones)
    found = weights(tmp_path, "average")
    assert all(torch.equal(found[name], tensor) for name, tensor in expected.items())
    names = {path.name for path in (tmp_path / "checkpoints").iterdir()}
    best = json.loads((tmp_path / "best.json").read_text())["checkpoint"]
    assert names - {best} == {*milestones, "average"} - {best}


def test_there_is_no_average_of_one(tmp_path: Path, tiny: Any, train_through: Any) -> None:
    assert train_through(tiny(train={"steps": 3}), tmp_path)["best"] == "step-00000003"
    assert not (tmp_path / "checkpoints" / "average").exists()


def test_the_best_of_average_and_checkpoints_is_pointed_to_with_its_own_score(tmp_path: Path, tiny: Any,
                                                                            train_through: Any) -> None:
    for number, over in enumerate(({}, {"learning_rate": 0.3, "schedule": "constant"}, {"ema_decay": 0.9},
                                   {"ema_decay": 0.9, "learning_rate": 0.3, "schedule": "constant"})):
        out = tmp_path / str(number)
        config = tiny(train={"average_last": 3, "patience": None, **over}, model={"dropout": 0.0})
        summary = train_through(config, out)
        best = json.loads((out / "best.json").read_text())
        assert (best["checkpoint"], best["score"]) == (summary["best"], summary["score"])
        told = trained_scores(out, summary)
        assert (told["loss"], told["perplexity"]) == pytest.approx((best["score"], math.exp(best["score"])))
        metrics = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
        seen = min(line["loss"] for line in metrics if line["event"] == "validation")
        run = load(out)
        assert best["score"] <= seen
        splits = open_splits(config, out)
        corpus = train_run.open_corpus(splits["validation"], run.tokenizers, config)
        assert mean_loss(run.model, corpus, config, "fp32", Workers(1, None)) == pytest.approx(best["score"], rel=1e-5)


def test_with_a_moving_average_the_model_file_is_the_average_and_the_trained_weights_are_kept(
        tmp_path: Path, tiny: Any, train_through: Any) -> None:
    plain, averaged = tmp_path / "plain", tmp_path / "averaged"
    train_through(tiny(train={"steps": 4, "validate_every": 1, "average_last": 4}), plain)
    train_through(tiny(train={"steps": 4, "validate_every": 1, "average_last": 4, "ema_decay": 0.5}), averaged)
    trained = [weights(plain, f"step-{step:08d}") for step in (1, 2, 3, 4)]
    for step in (1, 2, 3, 4):
        moments = load_file(averaged / f"checkpoints/step-{step:08d}/optimizer.safetensors")
        for name, tensor in trained[step - 1].items():
            assert torch.equal(moments[f"trained.{name}"], tensor)  # the average never changes what is trained
    for step in (2, 3, 4):
        d = min(0.5, (1 + step) / (10 + step))
        before, after = weights(averaged, f"step-{step - 1:08d}"), weights(averaged, f"step-{step:08d}")
        for name, tensor in after.items():
            torch.testing.assert_close(tensor, d * before[name] + (1 - d) * trained[step - 1][name])
