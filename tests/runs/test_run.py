"""`pellucid.load`: a finished run, used from Python."""

from __future__ import annotations

import io
import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import pellucid
from pellucid.config.mapping import from_mapping
from pellucid.config.reader import merge
from pellucid.data.batching import pad
from pellucid.data.source_ids import source_ids
from pellucid.data.tokenizers.interface import BOS
from pellucid.errors import CheckpointError, ConfigError, DataError, PellucidWarning
from pellucid.kernels import compiled
from pellucid.nn.dropout import Dropout
from pellucid.precision import made_in_fp32
from pellucid.runs.checkpoint import load_weights
from pellucid.runs.run import Run
from pellucid.train import train as train_run
from pellucid.train.journal import Reporter

BASE: dict[str, Any] = {
    "data": {"generated": {"task": "copy", "train": 200, "validation": 10, "test": 5, "symbols": 5, "min_length": 2,
                           "max_length": 5}},
    "tokenizer": {"kind": "word"},
    "model": {"d_model": 16, "n_heads": 2, "d_ff": 16, "encoder_layers": 1, "decoder_layers": 1, "dropout": 0.0,
              "max_length": 8},
    "train": {"steps": 60, "batch_tokens": 100, "warmup_steps": 5, "learning_rate": 0.01, "validate_every": 30,
              "precision": "fp32"},
    "decode": {"beam_size": 2, "max_length": 8},
}
CLASSIFY: dict[str, Any] = {"task": "classification", "data": {"generated": {"task": "adjacent_duplicates"}}}


@pytest.fixture(scope="module", autouse=True)
def trained(tmp_path_factory: pytest.TempPathFactory, new_cache: Callable[[Path], str]) -> Iterator[dict[str, Path]]:
    """A run of each task, trained for a second."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("runs")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PELLUCID_CACHE", new_cache(folder / "cache"))
        for name, over in (("copy", {}), ("labels", CLASSIFY)):
            train_run.train(from_mapping(merge(BASE, over)), folder / name, Reporter(io.StringIO()))
        yield {"copy": folder / "copy", "labels": folder / "labels"}
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def copy(trained: dict[str, Path]) -> Run:
    return pellucid.load(trained["copy"])


@pytest.fixture(scope="module")
def labels(trained: dict[str, Path]) -> Run:
    return pellucid.load(str(trained["labels"]))


def test_a_run_that_this_user_may_not_read_is_told_as_that(
        trained: dict[str, Path], closed: Callable[[Path], AbstractContextManager[None]]) -> None:
    with closed(trained["copy"]), pytest.raises(CheckpointError, match="no permission") as told:
        pellucid.load(trained["copy"])
    assert told.value.where == str(trained["copy"] / "config.yaml")
    assert "chmod -R a+rX" in told.value.fix


def test_it_generates(copy: Run) -> None:
    texts = ["1 2 3", "", "5 5"]
    best, none, _ = copy.generate(texts)
    assert (none.text, none.tokens) == ("", ())
    assert best.text == " ".join(best.tokens)
    assert best.score == best.hypotheses[0].score
    four = copy.generate(texts, beam_size=4, n_best=4)[0].hypotheses
    assert len(four) == 4
    assert len({h.text for h in four}) == 4
    assert len(copy.generate(texts, n_best=3)[0].hypotheses) == 3  # a beam is as wide as what is told
    greedy = copy.generate(texts, beam_size=1)[0].hypotheses
    assert len(greedy) == 1
    options = pellucid.DecodeConfig(sample=True, n_best=2, max_length=3)
    assert all(len(h.tokens) <= 3 for one in copy.generate(texts, options=options) for h in one.hypotheses)
    assert copy.generate(["1 2"], prefixes=["4 4"])[0].text.startswith("4 4")


@pytest.mark.parametrize(("given", "where", "fix"), [
    ({"beam_size": 0}, "decode.beam_size", "choose at least 1"), ({"n_best": 0}, "decode.n_best", "choose at least 1"),
    ({"beam_size": "4"}, "decode.beam_size", ""), ({"sample": "no"}, "decode.sample", ""),
    ({"precision": "FP32"}, "decode.precision", "choose auto, fp32"), ({"precision": None}, "decode.precision", "int8"),
    ({"no_repeat_ngram": -1}, "decode.no_repeat_ngram", "choose at least 0"),
    ({"min_length": 256}, "decode.min_length", ""), ({"temperature": 0}, "decode.temperature", "choose above 0"),
    ({"from_passages": True}, "decode.from_passages", "retrieval.k")])
def test_options_are_checked_as_on_the_command_line(copy: Run, given: dict[str, Any], where: str, fix: str) -> None:
    with pytest.raises(ConfigError) as error:
        copy.generate(["1 2"], options=pellucid.DecodeConfig(**given))
    assert error.value.where == where
    assert fix in error.value.fix
    with pytest.raises(ConfigError):
        copy.route(options=pellucid.DecodeConfig(**given))


def test_options_beside_others_and_numbers_of_numpy_are_checked_too(copy: Run) -> None:
    with pytest.raises(ConfigError, match=r"decode\.beam_size is 0"):
        copy.generate(["1 2"], beam_size=0)
    numbers: dict[str, Any] = {"max_length": np.int32(8), "length_penalty": np.float64(0.5)}
    two: Any = np.int64(2)
    assert copy.generate(["1 2"], n_best=two, options=pellucid.DecodeConfig(**numbers)) == copy.generate(
        ["1 2"], options=pellucid.DecodeConfig(max_length=8, n_best=2, length_penalty=0.5))


def test_a_beam_that_is_asked_for_beside_samples_is_refused_as_on_the_command_line(copy: Run) -> None:
    drawn = replace(copy.config.decode, sample=True)
    sampling = Run(copy.folder, replace(copy.config, decode=drawn), copy.tokenizers, copy.model)
    for run, options in ((copy, drawn), (sampling, None)):
        with pytest.raises(ConfigError, match="beam_size has no effect here"):
            run.generate(["1 2"], beam_size=drawn.beam_size, options=options)
        assert len(run.generate(["1 2"], n_best=2, options=options)[0].hypotheses) >= 1


def test_no_search_begins_that_would_go_on_where_learned_positions_end(copy: Run) -> None:
    assert copy.weights is not None
    model = replace(copy.config.model, position="learned")
    run = Run(copy.folder, replace(copy.config, model=model), copy.tokenizers, copy.weights)
    with pytest.raises(ConfigError, match=r"decode\.max_length 256 is above model\.max_length 8") as error:
        run.generate(["1 2"], options=pellucid.DecodeConfig())
    assert error.value.fix == "lower decode.max_length"


def test_a_text_generated_greedily_scores_what_the_search_said(copy: Run) -> None:
    texts = ["1 2 3", "4 1", "2 2 2 5 1"]
    options = replace(copy.config.decode, beam_size=1, precision="fp32")  # in which texts are scored
    found = [one.hypotheses[0] for one in copy.generate(texts, options=options)]
    scored = copy.score(texts, [one.text for one in found])
    checked = 0
    for one, score in zip(found, scored, strict=True):
        assert copy.tokenizers.target.pieces(copy.tokenizers.target.encode(one.text)) == list(one.tokens)
        if len(one.tokens) < 8:  # it ended by itself, not at the maximum length
            assert score.log_probability == pytest.approx(one.log_probability, abs=1e-4)
            assert score.tokens == (*one.tokens, "</s>")
            assert len(score.token_log_probabilities) == len(score.tokens)
            checked += 1
    assert checked
    with pytest.raises(ValueError, match="3 sources and 2 targets"):
        copy.score(texts, texts[:2])


@pytest.mark.usefixtures("default_type")
def test_a_run_answers_as_in_fp32_whatever_torchs_default_type_is(trained: dict[str, Path]) -> None:
    texts = ["1 2 3", "4 1 5 5 2"]
    options = pellucid.DecodeConfig(beam_size=3, max_length=8, precision="fp32")
    with made_in_fp32():
        fp32 = pellucid.load(trained["copy"])
        expected = fp32.score(texts, texts), fp32.generate(texts, options=options)
    held, kept = pellucid.load(trained["copy"]), pellucid.load(trained["copy"])
    assert {parameter.dtype for parameter in held.model.parameters()} == {torch.float32}
    for run in (held, kept):
        assert (run.score(texts, texts), run.generate(texts, options=options)) == expected


@pytest.mark.usefixtures("default_type")
def test_a_run_is_trained_in_fp32_whatever_torchs_default_type_is(trained: dict[str, Path], tmp_path: Path) -> None:
    train_run.train(from_mapping(BASE), tmp_path / "copy", Reporter(io.StringIO()))
    ours, theirs = (pellucid.load(folder).model.state_dict() for folder in (tmp_path / "copy", trained["copy"]))
    assert all(value.equal(theirs[name]) and value.dtype == torch.float32 for name, value in ours.items())


def test_a_long_source_is_cut_alike_to_generate_and_to_score(copy: Run) -> None:
    long, cut = "1 2 3 4 5 1 2 3 4 5", "1 2 3 4 5 1 2"
    with pytest.warns(PellucidWarning, match="line 1 loses 3 of its 11 tokens"):
        assert copy.generate([long])[0].text == copy.generate([cut])[0].text
    with pytest.warns(PellucidWarning, match="line 8 loses 3 of its 11 tokens"):
        assert copy.score([long], ["1 2"], first=7)[0] == copy.score([cut], ["1 2"])[0]


def test_it_classifies(labels: Run) -> None:
    texts = ["1 1 2", "1 2 1", "", "3 4 3 3 2 1 2 3 4 5 1 1 1"]
    with pytest.warns(PellucidWarning, match="line 14 loses 6 of its 14 tokens"):
        found = labels.classify(texts, first=10)
    rows = [np.asarray(ids[:8], dtype=np.int32) for ids in source_ids(texts, labels.tokenizers, True)]
    for one, row in zip(found, rows, strict=True):
        assert list(one.probabilities) == ["0", "1"]
        assert sum(one.probabilities.values()) == pytest.approx(1)
        assert one.label == max(one.probabilities, key=lambda label: one.probabilities[label])
        with torch.no_grad():
            expected = labels.model(pad([row])[0]).softmax(-1)[0].tolist()
        assert list(one.probabilities.values()) == pytest.approx(expected, abs=1e-5)
    assert labels.classify([]) == []


def test_a_run_in_training_mode_classifies_without_dropout(trained: dict[str, Path], labels: Run) -> None:
    run, texts = pellucid.load(trained["labels"]), ["1 1 2", "1 2 1", "5 4 3"]
    model = run.model.train()
    for module in model.modules():
        if isinstance(module, Dropout):
            module.p = 0.5
    ids = torch.tensor([[BOS, *run.tokenizers.source.encode(texts[0])]])
    assert not torch.equal(model(ids), model(ids))
    assert run.classify(texts) == run.classify(texts) == labels.classify(texts)
    assert model.training
    model.eval()
    run.classify(texts)
    assert not model.training


def test_the_wrong_task_is_told(copy: Run, labels: Run) -> None:
    for act in (lambda: labels.generate(["1"]), lambda: labels.score(["1"], ["1"]), lambda: copy.classify(["1"])):
        with pytest.raises(ConfigError, match="cannot") as error:
            act()
        assert "trained for" in error.value.why


def test_what_is_no_list_of_texts_is_refused(copy: Run, labels: Run) -> None:
    acts: dict[Callable[[Any], object], str] = {
        copy.generate: "text", labels.classify: "text", lambda texts: copy.score(texts, ["1"]): "text",
        lambda texts: copy.score(["1"], texts): "target", lambda texts: copy.generate(["1"], prefixes=texts): "prefix"}
    for act, name in acts.items():
        for one in ("1", b"1", (text for text in ["1"])):
            with pytest.raises(TypeError, match="a list of texts is wanted"):
                act(one)
        for wrong in (None, 1, float("nan"), b"1", ["1"]):
            with pytest.raises(TypeError, match=f"{name} 2 must be str, not {type(wrong).__name__}"):
                act(["1", wrong])
        with pytest.raises(DataError, match="half a surrogate pair") as error:
            act(["1", "1 \ud83d"])
        assert error.value.where == f"{name} 2"


def test_texts_may_stand_in_an_array(copy: Run) -> None:
    texts = ["1 2", "3"]
    array: Any = np.array(texts)
    assert copy.generate(array, prefixes=array) == copy.generate(texts, prefixes=texts)
    assert copy.score(array, array) == copy.score(texts, texts)


def test_the_model_is_a_module_with_the_best_weights_in_evaluation_mode(copy: Run, trained: dict[str, Path]) -> None:
    assert isinstance(copy.model, nn.Module)
    assert not copy.model.training
    best = json.loads((trained["copy"] / "best.json").read_text())["checkpoint"]
    other = pellucid.build(copy.config.model, copy.tokenizers.source.size, copy.tokenizers.target.size, shared=True)
    load_weights(other, trained["copy"] / "checkpoints" / best)
    for p, q in zip(copy.model.parameters(), other.parameters(), strict=True):
        assert torch.equal(p, q)
    assert "seq2seq" in repr(copy)


def test_a_folder_that_is_no_finished_run_is_refused(trained: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="no such run folder"):
        pellucid.load(tmp_path / "nowhere")
    with pytest.raises(CheckpointError, match=r"config\.yaml is missing"):
        pellucid.load(tmp_path)
    for name, content in (("best.json", None), ("best.json", "{"), ("best.json", "[]"), ("best.json", "{}"),
                          ("best.json", '{"checkpoint": ".."}'), ("best.json", '{"checkpoint": "../checkpoints"}'),
                          ("best.json", '{"checkpoint": null}'), ("config.yaml", "a: [1"), ("config.yaml", ""),
                          ("config.yaml", "model: {d_modell: 3}"), ("tokenizer/tokenizer.json", "{}"),
                          ("tokenizer/manifest.json", None)):
        folder = tmp_path / "copy"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(trained["copy"], folder)
        if content is None:
            (folder / name).unlink()
        else:
            (folder / name).write_text(content)
        with pytest.raises(CheckpointError) as error:
            pellucid.load(folder)
        assert str(folder) in error.value.where


def test_damaged_weights_are_told_when_the_run_is_opened(trained: dict[str, Path], tmp_path: Path) -> None:
    shutil.copytree(trained["copy"], tmp_path / "copy")
    for file in (tmp_path / "copy" / "checkpoints").glob("*/model.safetensors"):
        content = bytearray(file.read_bytes())
        content[-1] ^= 1
        file.write_bytes(content)
    with pytest.raises(CheckpointError, match="damaged"):
        pellucid.load(tmp_path / "copy")


def test_a_run_can_be_moved(trained: dict[str, Path], tmp_path: Path, copy: Run) -> None:
    shutil.copytree(trained["copy"], tmp_path / "elsewhere")
    assert pellucid.load(tmp_path / "elsewhere").generate(["1 2 3"]) == copy.generate(["1 2 3"])


def test_the_first_run_chooses_the_kernels_and_no_later_one(trained: dict[str, Path], tmp_path: Path,
                                                             monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(trained["copy"], tmp_path / "plain")
    config = tmp_path / "plain" / "config.yaml"
    config.write_text(config.read_text().replace("kernels: auto", "kernels: plain"))
    monkeypatch.setattr(compiled, "_chosen", None)
    pellucid.load(tmp_path / "plain")
    assert compiled.chosen() == "plain: as configured"
    for wanted in (False, True):
        asked = compiled.use_kernels(torch.device("cpu"), wanted)
        for folder in (tmp_path / "plain", trained["copy"]):
            pellucid.load(folder)
            assert compiled.chosen() == asked


def test_importing_pellucid_imports_no_torch() -> None:
    program = ("import sys, pellucid, pellucid.cli, pellucid.config, pellucid.files; assert pellucid.__version__; "
               "print(sorted({'torch', 'numpy', 'matplotlib', 'sentencepiece'} & set(sys.modules)))")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "[]\n"


def test_the_public_names_are_there_and_no_others() -> None:
    assert {"load", "build", *pellucid.__all__} <= set(dir(pellucid))
    for name in pellucid.__all__:
        assert getattr(pellucid, name).__name__ == name
    with pytest.raises(AttributeError, match="no attribute 'Transformers'"):
        _ = pellucid.Transformers
