"""What is learned from, in numbers: as training has it."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from pellucid.config import RunConfig
from pellucid.config.mapping import from_mapping
from pellucid.data.corpus import open_corpus
from pellucid.data.examples import training_examples
from pellucid.data.splits import open_splits
from pellucid.data.tokenizers import train_tokenizers
from pellucid.errors import DataError
from pellucid.plan.workload import workload_of


def mixed(folder: Path, weights: dict[str, float], **keys: Any) -> RunConfig:
    """Of as many sources as weights, 300 pairs each of words of its own."""
    draw = random.Random(0)

    def text(name: str) -> str:
        return " ".join(f"{name}{draw.randrange(200)}" for _ in range(draw.randint(1, 8)))

    for name in weights:
        lines = [f"{text(name)}\t{text(name)}\n" for _ in range(300)]
        (folder / f"{name}.tsv").write_text("".join(lines) + "\tno source\n")
    train = [{"path": str(folder / f"{name}.tsv"), "weight": weight} for name, weight in weights.items()]
    return from_mapping({"tokenizer": {"kind": "word"}, "train": {"batch_sentences": 4},
                         "data": {"validation_share": 0, "test_share": 0, "train": train}} | keys)


@pytest.mark.parametrize("weights", [{"a": 1.0, "b": 1.0}, {"a": 1.0, "b": 0.05}, {"a": 0.5, "b": 2.5}])
def test_a_mixture_is_as_large_as_in_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                                  weights: dict[str, float]) -> None:
    """To the example, whatever luck would draw; and the words of a source that seldom comes are in the vocabulary, and
    those of a line that is none of its examples."""
    monkeypatch.setenv("PELLUCID_CACHE", str(tmp_path / "cache"))
    config = mixed(tmp_path, weights)
    pairs = open_splits(config, tmp_path / "run")["train"]
    tokenizers = train_tokenizers(config.tokenizer, pairs, config.task)
    examples = training_examples(open_corpus(pairs, tokenizers, config), tokenizers, config).in_epoch(0)
    found = workload_of(config, lambda text: None)
    assert (found.count, found.scale(), found.assumptions) == (len(examples), 1, ())
    assert (found.source_vocab, found.target_vocab) == (tokenizers.source.size, tokenizers.target.size)
    known = found.examples.in_epoch(0)
    for side, real in ((known.source, examples.source), (known.target, examples.target)):
        assert side.lengths.mean() == pytest.approx(real.lengths.mean(), rel=0.05)


def test_weights_that_leave_nothing_are_told(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="an epoch has no training pair"):
        workload_of(mixed(tmp_path, {"a": 1e-9}), lambda text: None)


def test_without_data_a_tokenizer_that_is_there_is_counted(tmp_path: Path) -> None:
    config = mixed(tmp_path, {"a": 1.0}, data={"train": "nowhere.tsv"})
    assert workload_of(config, lambda text: None).source_vocab == config.tokenizer.vocab_size
    tokenizers = train_tokenizers(config.tokenizer, [("one two", "three")], "seq2seq")
    tokenizers.save(tmp_path / "tokenizer")
    config = mixed(tmp_path, {"a": 1.0}, data={"train": "nowhere.tsv"},
                   tokenizer={"path": str(tmp_path / "tokenizer")})
    found = workload_of(config, lambda text: None)
    assert (found.source_vocab, found.target_vocab) == (tokenizers.source.size, tokenizers.target.size)
    assert len(found.assumptions) == 1  # of the lengths alone
