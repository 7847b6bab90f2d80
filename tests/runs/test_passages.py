"""A run that reads passages: what it finds, what it leaves out, and what it remembers of the index."""

from __future__ import annotations

import io
import json
import math
import pickle
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pellucid
from pellucid.config import RunConfig
from pellucid.config.effects import check_effects
from pellucid.config.mapping import from_mapping
from pellucid.config.reader import merge
from pellucid.data.corpus import open_corpus
from pellucid.data.passages import Fused, passages_in, rows_in, rows_of
from pellucid.data.splits import Pairs, open_splits
from pellucid.data.tokenizers.interface import BOS, EOS
from pellucid.errors import ConfigError, DataError
from pellucid.evaluate.evaluate import evaluate_runs
from pellucid.interop import onnx
from pellucid.model.fusion import FusionTransformer
from pellucid.model.transformer import Transformer
from pellucid.retrieve.near_duplicates import Pair
from pellucid.runs import slim
from pellucid.runs.folder import claim_config
from pellucid.runs.passages import FOLDER, open_passages, with_passages
from pellucid.runs.run import Run
from pellucid.runs.stream import stream
from pellucid.train import train as train_run
from pellucid.train.journal import Reporter
from pellucid.train.prepare import prepare

TINY: dict[str, Any] = {
    "data": {"generated": {"task": "grammar", "train": 120, "validation": 12, "test": 6}},
    "tokenizer": {"kind": "word"},
    "model": {"d_model": 8, "n_heads": 2, "d_ff": 12, "encoder_layers": 1, "decoder_layers": 1, "dropout": 0.0,
              "max_length": 40},
    "train": {"steps": 4, "batch_tokens": 200, "warmup_steps": 2, "precision": "fp32", "validate_every": 2,
              "monitor": "bleu"},
    "decode": {"beam_size": 1, "max_length": 12},
    "retrieval": {"k": 2},
}


def tiny(**retrieval: Any) -> RunConfig:
    return from_mapping(merge(TINY, {"retrieval": retrieval}))


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, new_cache: Callable[[Path], str]) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PELLUCID_CACHE", new_cache(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def told() -> io.StringIO:
    return io.StringIO()


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory, cache: None, told: io.StringIO) -> Path:
    """A run of a second."""
    out = tmp_path_factory.mktemp("runs") / "fused"
    train_run.train(tiny(), out, Reporter(told))
    return out


@pytest.fixture(scope="module")
def run(trained: Path) -> Run:
    return pellucid.load(trained)


@pytest.fixture(scope="module")
def splits(trained: Path, run: Run) -> dict[str, Pairs]:
    return with_passages(open_splits(run.config, trained), run.config, trained)


@pytest.mark.parametrize("name", ["train", "validation", "test"])
def test_no_passage_says_what_the_target_says(splits: dict[str, Pairs], name: str) -> None:
    for source, target in splits[name]:
        assert isinstance(source, Fused)
        assert len(source.passages) == 2
        assert not any(Pair(source, target).is_given_away(passage) for passage in source.passages)


def test_an_index_whose_build_was_killed_is_built_again(trained: Path, tmp_path: Path) -> None:
    config = tiny()
    (tmp_path / FOLDER).mkdir()
    told = list[str]()
    with_passages(open_splits(config, tmp_path), config, tmp_path, told.append)
    assert any("documents read" in line for line in told)
    texts = [(folder / FOLDER / "texts.bin").read_bytes() for folder in (tmp_path, trained)]
    assert texts[0] == texts[1] != b""


def test_other_data_have_passages_of_their_own(tmp_path: Path) -> None:
    """A start that was stopped before anything was trained, and then another with other data in the same folder."""
    first = tiny()
    other = from_mapping(merge(TINY, {"data": {"generated": {"train": 60}}, "retrieval": {}}))
    claim_config(first, tmp_path)
    with_passages(open_splits(first, tmp_path), first, tmp_path)
    (tmp_path / "initialized_from.json").write_text("{}")
    claim_config(other, tmp_path)
    assert not (tmp_path / FOLDER).exists()
    assert not (tmp_path / "initialized_from.json").exists()


def test_what_was_left_out_is_counted_and_told(splits: dict[str, Pairs], trained: Path, told: io.StringIO) -> None:
    record = json.loads((trained / "data.json").read_text())
    for name in ("train", "validation"):
        counted = sum(splits[name].fused(source, target)[1] for _, source, target in splits[name].records())
        assert record[name]["near_duplicates"] == counted
        assert f"{counted:,} near-duplicate passages left out" in told.getvalue()
    assert record["train"]["near_duplicates"] >= 120  # each pair is among its own passages


def test_passages_are_cut_so_that_no_row_is_longer_than_it_may_be() -> None:
    assert rows_of([5, 6], [[7, 8, 9, 10], [11]], 6) == [5, 6, BOS, 7, 8, EOS, 5, 6, BOS, 11, EOS]
    assert rows_of([5, 6], [[7, 8]], 3) == [5, 6, BOS, EOS]  # no room, and the source is cut elsewhere


def test_rows_are_found_again() -> None:
    assert list(rows_in([5, BOS, 7, EOS, 5, BOS, EOS, 6, 6])) == [[5, BOS, 7, EOS], [5, BOS, EOS], [6, 6]]
    assert list(rows_in([])) == []
    assert passages_in(rows_of([5], [[7], [8, 9], []], 99)) == [[7], [8, 9], []]
    assert passages_in(rows_of([5], [], 99)) == []
    copied = pickle.loads(pickle.dumps(Fused("a", ["b", "c"])))
    assert (copied, copied.passages) == ("a", ("b", "c"))


def test_a_row_is_the_source_and_a_passage_and_rows_stand_in_their_order(splits: dict[str, Pairs], run: Run) -> None:
    corpus = open_corpus(splits["validation"], run.tokenizers, run.config)
    encode = run.tokenizers.source.encode
    for i, (source, _) in enumerate(splits["validation"]):
        assert isinstance(source, Fused)
        rows = [[*[*encode(source), BOS, *encode(passage)][:run.config.model.max_length - 1], EOS]
                for passage in source.passages]
        assert corpus.source[i].tolist() == [id for row in rows for id in row]


def test_the_order_of_passages_changes_no_score(splits: dict[str, Pairs], run: Run) -> None:
    pairs = [(source, target) for source, target in splits["test"] if isinstance(source, Fused)]
    turned = [Fused(source, source.passages[::-1]) for source, _ in pairs]
    targets = [target for _, target in pairs]
    a, b = run.score([source for source, _ in pairs], targets), run.score(turned, targets)
    np.testing.assert_allclose([one.log_probability for one in a], [one.log_probability for one in b], rtol=1e-5)
    others = [Fused(source, ("le chat dort",)) for source, _ in pairs]
    assert [one.log_probability for one in run.score(others, targets)] != [one.log_probability for one in a]


def test_training_and_evaluation_see_the_same_passages(trained: Path, splits: dict[str, Pairs], run: Run) -> None:
    """The loss of the best checkpoint on the validation data is its perplexity when it is evaluated."""
    report = evaluate_runs([trained], "validation", None, lambda line: None)["runs"][0]
    best = json.loads((trained / "best.json").read_text())["step"]
    events = map(json.loads, (trained / "metrics.jsonl").read_text().splitlines())
    loss = next(one["loss"] for one in events if one["event"] == "validation" and one["step"] == best)
    assert math.log(report["perplexity"]) == pytest.approx(loss, rel=1e-4)
    assert report["route"]["decoder"] == "plain steps"


def test_a_text_is_translated_with_what_is_found_for_it(run: Run, trained: Path) -> None:
    found, left_out = open_passages(run.config, trained).fused("the old cat sleeps", None)
    assert len(found.passages) == 2
    assert left_out == 0
    assert run.generate(["the old cat sleeps", ""])[0] == run.generate([found])[0]
    assert run.generate([Fused("the old cat sleeps", ())])[0].text is not None


def test_an_output_can_be_held_to_the_passages(run: Run) -> None:
    """Every output is a piece of one, of whole words; where there is no passage, it is empty."""
    passages = ("le chat dort .", "the old cat sleeps .")
    for changes in ({}, {"beam_size": 3, "n_best": 3}, {"sample": True, "n_best": 4}, {"min_length": 3}):
        options = replace(run.config.decode, from_passages=True, max_length=6, **changes)
        texts = [Fused("the old cat sleeps", passages), Fused("a dog", ()), "the cat sleeps", ""]
        held, none, found, empty = run.generate(texts, options=options)
        for one in held.hypotheses:
            assert any(f" {one.text} " in f" {passage} " for passage in passages) or not one.text
        assert none.text == empty.text == ""
        own = run.fused(texts[2:3])[0]
        assert isinstance(own, Fused)
        units = [" ".join(run.tokenizers.source.pieces(run.tokenizers.source.encode(each))) for each in own.passages]
        assert any(" ".join(found.tokens) in each for each in units)
        if not options.sample:
            assert stream(run, texts[2], lambda partial: None, options=options).text == found.text


def test_what_cannot_be_held_is_refused(run: Run) -> None:
    options = replace(run.config.decode, from_passages=True)
    with pytest.raises(ConfigError, match="begin with another text"):
        run.generate(["a dog"], prefixes=["le"], options=options)
    apart = Run(run.folder, run.config, replace(run.tokenizers, shared=False), run.model)
    with pytest.raises(ConfigError, match="own vocabulary"):
        apart.generate(["a dog"], options=options)
    with pytest.raises(ConfigError, match="no effect"):
        check_effects(tiny(k=0), {"decode": {"from_passages": True}})


def test_random_passages_are_drawn_by_the_source_alone(trained: Path, tmp_path: Path) -> None:
    shutil.copytree(trained / FOLDER, tmp_path / FOLDER)
    texts = ["the old cat sleeps", "a dog"]
    drawn = [open_passages(tiny(**{"from": "random"}), tmp_path).fused(text, None)[0].passages for text in texts]
    again = [open_passages(tiny(**{"from": "random"}), tmp_path).fused(text, None)[0].passages for text in texts]
    assert drawn == again
    assert drawn[0] != drawn[1]


def test_the_index_is_the_one_that_the_run_had(run: Run, trained: Path, tmp_path: Path,
                                               monkeypatch: pytest.MonkeyPatch) -> None:
    copied = tmp_path / "run"
    shutil.copytree(trained, copied)
    shutil.move(copied / FOLDER, tmp_path / "index")
    with pytest.raises(DataError, match="are gone"):
        pellucid.load(copied).generate(["the cat sleeps"])
    named = tiny(index="index")
    with pytest.raises(ConfigError, match="no such index"):
        open_passages(tiny(index="nowhere"), tmp_path)
    monkeypatch.chdir(tmp_path)
    assert open_passages(named, copied).fused("the cat", None) == open_passages(run.config, trained).fused(
        "the cat", None)
    record = json.loads((copied / "data.json").read_text())
    record["train"]["retrieval"] |= {"index": str(tmp_path / "index")}
    (copied / "data.json").write_text(json.dumps(record))
    monkeypatch.chdir(trained)  # it is found where the run had it
    assert open_passages(named, copied).fused("the cat", None)[0].passages
    record["train"]["retrieval"] |= {"sha256": "0" * 64}
    (copied / "data.json").write_text(json.dumps(record))
    with pytest.raises(DataError, match="not the one that the run had"):
        open_passages(named, copied)


def test_the_index_stays_where_the_run_was_opened(run: Run, trained: Path, tmp_path: Path,
                                                  monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(trained.parent)
    opened = pellucid.load(trained.name)
    monkeypatch.chdir(tmp_path)
    assert opened.generate(["the old cat sleeps"]) == run.generate(["the old cat sleeps"])


def test_what_is_prepared_is_what_is_trained_on(trained: Path, tmp_path: Path) -> None:
    prepare(tiny(), tmp_path / "run", Reporter(io.StringIO()))
    train_run.train(tiny(), tmp_path / "run", Reporter(io.StringIO()))
    for name in ("best.json", "checkpoints/step-00000004/model.safetensors"):
        assert (tmp_path / "run" / name).read_bytes() == (trained / name).read_bytes()


def test_a_copy_has_its_passages_and_other_formats_refuse_it(trained: Path, run: Run, tmp_path: Path) -> None:
    slim.export(trained, tmp_path / "copy")
    texts = ["the cat sleeps"]
    assert pellucid.load(tmp_path / "copy").generate(texts) == run.generate(texts)
    with pytest.raises(ConfigError, match="reads passages"):
        onnx.export(trained, tmp_path / "onnx")


@pytest.mark.parametrize("off", [{"k": 0}, {"from": "none"}])
def test_without_passages_it_is_the_plain_model(run: Run, off: dict[str, Any], tmp_path: Path) -> None:
    from pellucid.runs.run import build_model

    assert type(run.model) is FusionTransformer
    config = tiny(**off)
    assert type(build_model(config, run.tokenizers, seed=0)) is Transformer
    plain = open_splits(config, tmp_path)
    assert with_passages(plain, config, tmp_path) == plain
    assert not (tmp_path / FOLDER).exists()
    assert not any(isinstance(source, Fused) for source, _ in plain["test"])


@pytest.mark.parametrize(("section", "key", "value"), [("data", "objective", "span_corruption"),
                                                       ("decode", "split_sentences", True),
                                                       ("tokenizer", "sampling", 0.1)])
def test_what_does_not_go_with_passages_is_refused(section: str, key: str, value: object) -> None:
    with pytest.raises(ConfigError):
        from_mapping(merge(TINY, {"tokenizer": {"kind": "sentencepiece", "sentinels": 20}, section: {key: value},
                                  "train": {"monitor": "loss"}}))
