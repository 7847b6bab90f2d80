"""A run that starts from another one begins where that one was best, resumes exactly, and refuses what does not fit."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from pellucid.config import RunConfig
from pellucid.errors import CheckpointError, ConfigError
from pellucid.evaluate.evaluate import evaluate_runs
from pellucid.runs.folder import tokenizer_options
from pellucid.runs.run import load
from pellucid.train import train as train_run
from pellucid.train.dry_run import dry_run
from pellucid.train.initialize import source_of
from pellucid.train.journal import read_metrics

Tiny = Callable[..., RunConfig]
Through = Callable[..., dict[str, Any]]


@pytest.fixture
def source(tmp_path: Path, tiny: Tiny, train_through: Through) -> Path:
    """A seq2seq run whose best weights are not its last ones."""
    train_through(tiny(train={"average_last": 1, "learning_rate": 3.0, "schedule": "constant"}), tmp_path / "source")
    return tmp_path / "source"


@pytest.fixture
def labelled(tmp_path: Path) -> dict[str, Any]:
    """Classification of the same words."""
    for name, lines in (("train", 40), ("validation", 9)):
        text = "".join(f"{'even' if i % 2 == 0 else 'odd'}\t{i % 6 + 1} {i % 5 + 1}\n" for i in range(lines))
        (tmp_path / f"{name}.tsv").write_text(text)
    return {"generated": None, "train": str(tmp_path / "train.tsv"), "validation": str(tmp_path / "validation.tsv")}


def first_scores(config: RunConfig, out: Path, stop_at: Any, monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    """The validation's scores before the first update."""
    found: dict[str, float] = {}

    def stop(session: Any) -> bool:
        found.update(session.validate(session.learner.average))
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(train_run, "train_until_done", stop)
        with pytest.raises(KeyboardInterrupt):
            train_run.train(config, out, stop_at())
    return found


@pytest.mark.parametrize("train", [{}, {"ema_decay": 0.9}, {"precision": "fp32", "optimizer": "adam"}])
def test_it_begins_with_the_best_loss_of_the_other_run(source: Path, train: dict[str, Any], tiny: Tiny, stop_at: Any,
                                                       tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = tiny(seed=7, train={"initialize_from": str(source), **train})
    best = json.loads((source / "best.json").read_text())
    assert best["step"] < json.loads((source / "last.json").read_text())["step"]
    scores = first_scores(config, tmp_path / "new", stop_at, monkeypatch)
    assert scores["loss"] == best["score"]
    assert (tmp_path / "new/tokenizer/shared.vocab.json").read_bytes() == (
        source / "tokenizer/shared.vocab.json").read_bytes()
    told = json.loads((tmp_path / "new/initialized_from.json").read_text())
    assert (told["run"], told["checkpoint"], told["new"]) == (str(source), best["checkpoint"], [])


def test_stopped_and_resumed_it_ends_the_same_even_when_the_other_run_is_gone(
        source: Path, tiny: Tiny, train_through: Through, snapshot: Any, stop_at: Any, tmp_path: Path) -> None:
    config = tiny(train={"initialize_from": str(source), "ema_decay": 0.9})
    train_through(config, tmp_path / "whole")
    with pytest.raises(train_run.Interrupted):
        train_run.train(config, tmp_path / "parts", stop_at((1,)))
    shutil.rmtree(source)
    train_through(config, tmp_path / "parts", (4, 8))
    assert snapshot(tmp_path / "parts") == snapshot(tmp_path / "whole")


def test_the_vocabulary_is_kept_whatever_the_new_text_holds(source: Path, tiny: Tiny, train_through: Through,
                                                            tmp_path: Path) -> None:
    for name in ("train", "validation"):
        (tmp_path / f"{name}.tsv").write_text("".join(f"one {i}\t{i} one\n" for i in range(20)))
    data = {"generated": None, "train": str(tmp_path / "train.tsv"), "validation": str(tmp_path / "validation.tsv")}
    train_through(tiny(data=data, train={"initialize_from": str(source)}), tmp_path / "new")
    assert load(tmp_path / "new").tokenizers.sha256() == load(source).tokenizers.sha256()


def test_a_classifier_takes_the_encoder_and_says_so(source: Path, labelled: dict[str, Any], tiny: Tiny,
                                                    train_through: Through, stop_at: Any, tmp_path: Path,
                                                    monkeypatch: pytest.MonkeyPatch) -> None:
    config = tiny(task="classification", data=labelled, train={"initialize_from": str(source)})
    reporter, new = stop_at(), set[str]()
    with monkeypatch.context() as patch:
        told = tmp_path / "new/initialized_from.json"
        patch.setattr(train_run, "train_until_done", lambda session: new.update(json.loads(told.read_text())["new"]) or
                      _raise(session))
        with pytest.raises(_Opened) as opened:
            train_run.train(config, tmp_path / "new", reporter)
    ours, theirs = (dict(model.named_parameters())
                    for model in (opened.value.session.learner.model, load(source).model))
    taken = [name for name in ours if name.startswith(("encoder.", "source_embedding."))]
    assert len(taken) > 5
    assert all(torch.equal(ours[name], theirs[name]) for name in taken)
    assert "the encoder and its embedding (4 tensors begin anew)" in reporter.told
    assert new == ours.keys() - set(taken)
    train_through(config, tmp_path / "new")

    again = tiny(task="classification", data=labelled, train={"initialize_from": str(tmp_path / "new")})
    best = json.loads((tmp_path / "new/best.json").read_text())
    assert first_scores(again, tmp_path / "same labels", stop_at, monkeypatch)["loss"] == best["score"]
    with pytest.raises(ConfigError, match="cannot start from a classifier"):
        train_run.train(tiny(train={"initialize_from": str(tmp_path / "new")}), tmp_path / "back", stop_at())


@pytest.mark.parametrize("before", [0, 1])
def test_with_or_without_passages_it_is_the_same_model(before: int, tiny: Tiny, train_through: Through, stop_at: Any,
                                                       tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data, tokenizer = {"generated": {"task": "grammar", "train": 60, "validation": 9}}, {"kind": "word"}
    first, then = (tiny(data=data, tokenizer=tokenizer, retrieval={"k": k}) for k in (before, 1 - before))
    train_through(first, tmp_path / "source")
    config = tiny(data=data, retrieval={"k": then.retrieval.k}, train={"initialize_from": str(tmp_path / "source")})
    first_scores(config, tmp_path / "new", stop_at, monkeypatch)
    assert json.loads((tmp_path / "new/initialized_from.json").read_text())["new"] == []


def test_a_reader_writes_nothing_and_no_writer_begins_with_it(tiny: Tiny, tmp_path: Path,
                                                              monkeypatch: pytest.MonkeyPatch) -> None:
    config = tiny(task="reading", data={"generated": {"task": "documents"}}, model={"max_length": 99})
    reader = SimpleNamespace(config=config)
    monkeypatch.setattr("pellucid.train.initialize.load", lambda folder: reader)
    with pytest.raises(ConfigError, match="cannot start from a classifier or a reader"):
        source_of(tiny(train={"initialize_from": "reader"}))


class _Opened(Exception):
    def __init__(self, session: Any) -> None:
        super().__init__()
        self.session = session


def _raise(session: Any) -> bool:
    raise _Opened(session)


def test_a_pretrained_run_keeps_its_sentinels_and_is_fine_tuned_but_not_scored(
        tiny: Tiny, train_through: Through, snapshot: Any, stop_at: Any, tmp_path: Path) -> None:
    """Text alone → a run with sentinels → pairs; with every other change of the training data on the way."""
    pieces = {"kind": "sentencepiece", "vocab_size": 19, "sentinels": 2}
    pretraining = tiny(data={"objective": "span_corruption"}, tokenizer=pieces, train={"batch_tokens": 80})
    train_through(pretraining, tmp_path / "pretrained")
    filled = load(tmp_path / "pretrained").generate(["1 2<extra_id_0> 4"])[0]
    assert isinstance(filled.text, str)
    assert "--train.initialize_from" in (tmp_path / "pretrained/README.md").read_text()
    with pytest.raises(ConfigError, match="nothing to score"):
        evaluate_runs([tmp_path / "pretrained"], "test", None, print)

    config = tiny(tokenizer={"kind": "sentencepiece", "sampling": 0.3},
                  train={"initialize_from": str(tmp_path / "pretrained"), "r_drop": 1.0})
    train_through(config, tmp_path / "whole")
    train_through(config, tmp_path / "parts", (1, 5))
    assert snapshot(tmp_path / "parts") == snapshot(tmp_path / "whole")
    kept = load(tmp_path / "whole").tokenizers
    assert kept.sha256() == load(tmp_path / "pretrained").tokenizers.sha256()
    assert kept.source.pieces([4, 5]) == ["<extra_id_0>", "<extra_id_1>"]
    assert "They began as those of" in (tmp_path / "whole/README.md").read_text()


@pytest.mark.parametrize(("over", "told"), [
    ({"model": {"d_ff": 16}}, "d_ff: 12 there, 16 here"), ({"model": {"n_heads": 4}}, "n_heads: 2 there, 4 here"),
    ({"model": {"position": "rotary"}}, "position: sinusoidal there, rotary here"),
    ({"model": {"decoder_layers": 2, "norm": "rmsnorm"}}, "decoder_layers: 1 there, 2 here; norm: layernorm there"),
    ({"tokenizer": {"kind": "character"}}, "kind: word there, character here"),
    ({"tokenizer": {"vocab_size": 9}}, "vocab_size: 8000 there, 9 here"),
    ({"tokenizer": {"path": "elsewhere"}}, "path: None there, elsewhere here"),
])
def test_what_is_configured_otherwise_is_refused_by_name(source: Path, over: dict[str, Any], told: str, tiny: Tiny,
                                                         stop_at: Any, tmp_path: Path) -> None:
    config = tiny(**{**over, "train": {"initialize_from": str(source)}})
    for attempt in (lambda: train_run.train(config, tmp_path / "new", stop_at()),
                    lambda: dry_run(config, tmp_path / "dry")):
        with pytest.raises(ConfigError) as error:
            attempt()
        assert told in error.value.why
        assert str(source) in error.value.what
        assert not (tmp_path / "new").exists()


def test_dropout_may_differ_and_a_table_of_positions_may_not(source: Path, tiny: Tiny, train_through: Through,
                                                             stop_at: Any, tmp_path: Path) -> None:
    config = tiny(model={"dropout": 0.4, "max_length": 14}, train={"initialize_from": str(source)})
    assert "which fits" in str(dry_run(config, tmp_path / "dry")["initialize_from"])
    train_through(config, tmp_path / "dropout")
    learned = {"position": "learned"}
    train_through(tiny(model=learned), tmp_path / "learned")
    longer = tiny(model=learned | {"max_length": 14}, train={"initialize_from": str(tmp_path / "learned")})
    with pytest.raises(ConfigError) as error:
        train_run.train(longer, tmp_path / "longer", stop_at())
    assert "(12, 8) there, (14, 8) here" in error.value.why
    assert "encoder.position" in error.value.why


def test_a_run_that_is_not_there_or_has_nothing_yet_is_told(tiny: Tiny, stop_at: Any, tmp_path: Path) -> None:
    config = tiny(train={"initialize_from": str(tmp_path / "nowhere")})
    with pytest.raises(CheckpointError, match="no such run folder"):
        train_run.train(config, tmp_path / "new", stop_at())
    assert not (tmp_path / "new").exists()
    assert tokenizer_options(config).path == str(tmp_path / "nowhere/tokenizer")


def test_the_first_attempt_leaves_nothing_behind_that_another_would_use(source: Path, tiny: Tiny, stop_at: Any,
                                                                        train_through: Through, tmp_path: Path,
                                                                        monkeypatch: pytest.MonkeyPatch) -> None:
    """A tokenizer trained before anything else was, in a folder that then starts from another run."""
    first_scores(tiny(tokenizer={"kind": "character"}), tmp_path / "new", stop_at, monkeypatch)
    train_through(tiny(train={"initialize_from": str(source)}), tmp_path / "new")
    assert load(tmp_path / "new").tokenizers.config.kind == "word"
    assert [event["event"] for event in read_metrics(tmp_path / "new/metrics.jsonl")].count("validation") == 3
