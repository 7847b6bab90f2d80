"""Validation once an epoch, and what it tells of the outputs."""

from __future__ import annotations

import copy
import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from pellucid.config.mapping import from_mapping
from pellucid.config.reader import merge
from pellucid.kernels.compiled import use_kernels
from pellucid.train import validation
from pellucid.train.journal import Reporter, read_metrics
from pellucid.train.train import train
from pellucid.train.validation import sample_lines

TINY: dict[str, Any] = {
    "data": {"generated": {"task": "copy", "train": 70, "validation": 10, "test": 10, "symbols": 6, "min_length": 3,
                           "max_length": 6}},
    "tokenizer": {"kind": "word"},
    "model": {"d_model": 16, "n_heads": 2, "d_ff": 24, "encoder_layers": 1, "decoder_layers": 1, "max_length": 32},
    "train": {"epochs": 3, "batch_sentences": 20, "warmup_steps": 1, "validate_every": None, "precision": "fp32",
              "kernels": "plain"},
    "decode": {"beam_size": 3, "max_length": 8},
}


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
         new_cache: Callable[[Path], str]) -> Iterator[Callable[[dict[str, Any]], str]]:
    """A function: trains a configuration laid over TINY, and gives what was told."""
    monkeypatch.setenv("PELLUCID_CACHE", new_cache(tmp_path / "cache"))

    def run(over: dict[str, Any]) -> str:
        stream = io.StringIO()
        train(from_mapping(merge(TINY, over)), tmp_path / "run", Reporter(stream))
        return stream.getvalue()

    yield run
    use_kernels(torch.device("cpu"), False)


@pytest.mark.parametrize(("accumulate", "steps"), [(1, [4, 8, 12]), (3, [2, 4])])
def test_an_epoch_ends_in_a_validation(told: Callable[[dict[str, Any]], str], tmp_path: Path, accumulate: int,
                                       steps: list[int]) -> None:
    """70 examples are four batches; three of them an update make two updates an epoch, the last begun in the next."""
    told({"train": {"accumulate": accumulate}})
    events = read_metrics(tmp_path / "run" / "metrics.jsonl")
    assert [event["step"] for event in events if event["event"] == "validation"] == steps


def test_samples_are_told_at_each_validation_and_change_nothing(told: Callable[[dict[str, Any]], str],
                                                                tmp_path: Path) -> None:
    def losses() -> list[float]:
        return [event["loss"] for event in read_metrics(tmp_path / "run" / "metrics.jsonl")]

    without = told({})
    before = losses()
    (tmp_path / "run").rename(tmp_path / "before")
    with_samples = told({"train": {"show_samples": 2}})
    assert "sampled" not in without
    assert losses() == before
    first = (tmp_path / "run" / "data" / "validation.tsv").read_text().split("\t")[0]
    assert with_samples.count(f"  source   {first}\n  sampled ") == 3
    assert with_samples.count("\n  beam 3   ") == 2 * 3
    (tmp_path / "run").rename(tmp_path / "beam")
    assert told({"train": {"show_samples": 1}, "decode": {"beam_size": 1}}).count("\n  greedy   ") == 3


def test_samples_of_a_pretraining_have_lost_their_spans(told: Callable[[dict[str, Any]], str], tmp_path: Path) -> None:
    """The model is asked what it is trained and scored for: not about whole texts, of which it never saw one."""
    said = told({"data": {"objective": "span_corruption"}, "tokenizer": {"sentinels": 4},
                 "train": {"show_samples": 2}}).splitlines()
    whole = [line.split("\t")[0] for line in (tmp_path / "run" / "data" / "validation.tsv").read_text().splitlines()]
    asked = [line.split()[1:] for line in said if line.startswith("  source ")]
    assert len(asked) == 3 * 2
    for words, text in zip(asked[:2], whole, strict=False):
        assert words.count("<extra_id_0>") == 1
        at = words.index("<extra_id_0>")
        assert text.split()[:at] == words[:at]
        assert len(text.split()) == len(words)  # one number is lost, and a sentinel in its place


@pytest.mark.parametrize("kernels", ["plain", "auto"])
def test_samples_are_of_the_weights_at_that_moment(told: Callable[[dict[str, Any]], str], kernels: str,
                                                   monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy of the model, which nothing was ever made from, says the same at each validation."""
    seen = []

    def checked(model: Any, *arguments: Any) -> list[str]:
        lines = sample_lines(model, *arguments)
        assert lines == sample_lines(copy.deepcopy(model), *arguments)
        seen.append(lines)
        return lines

    monkeypatch.setattr(validation, "sample_lines", checked)
    told({"model": {"d_model": 64, "d_ff": 64},
          "train": {"show_samples": 2, "kernels": kernels, "learning_rate": 0.03}})
    assert len(seen) == 3
    assert seen[0] != seen[-1]
