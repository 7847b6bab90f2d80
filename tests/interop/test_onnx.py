"""The graphs that are written compute and decode as the run does, for any option of ours."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.interop.conftest import SMALL, perturb, sentences

import pellucid
from pellucid.config import ModelConfig
from pellucid.data.tokenizers.interface import BOS, EOS, PAD
from pellucid.errors import ConfigError
from pellucid.model.build import HEAD_ACTIVATIONS, POOLINGS, build

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
from tests.interop.onnx_search import OnnxStep, decode, opened, padded, session  # noqa: E402

from pellucid.interop import huggingface, onnx_graph, onnx_model  # noqa: E402
from pellucid.interop.importing import import_run  # noqa: E402
from pellucid.interop.onnx import export  # noqa: E402

CASES: list[dict[str, Any]] = [
    {}, {"position": "learned"}, {"position": "t5", "norm": "rmsnorm", "biases": False},
    {"position": "learned", "feed_forward": "gelu"}, {"position": "none", "tie_embeddings": False},
    {"position": "rotary", "feed_forward": "swiglu", "norm": "rmsnorm"}, {"position": "rotary", "d_key": 6},
    {"position": "alibi", "residual": "deepnorm"}, {"position": "alibi", "n_heads": 1, "residual": "post"},
    {"position": "t5", "norm": "rmsnorm", "feed_forward": "geglu", "biases": False},
    {"position": "transformer_xl", "residual": "post"}, {"attention": "window", "window": 3},
    {"position": "quadratic", "n_heads": 4, "attention": "window", "window": 2},
    {"attention": "window", "window": 2, "position": "transformer_xl"}, {"attention": "linear"},
    {"norm": "stdnorm", "feed_forward": "geglu_tanh"}, {"norm": "none", "residual": "none"},
    {"residual": "none", "feed_forward": "swish"}, {"d_key": 12}, {"d_head": 5, "position": "t5"},
    {"embedding_norm": True, "norm_epsilon": 1e-3, "feed_forward": "gelu_tanh"},
    {"output_bias": True, "embedding_norm": True, "residual": "deepnorm"}]
VOCABULARY, ROWS = 61, 201


def built(keys: dict[str, Any], dtype: torch.dtype) -> tuple[Any, ModelConfig]:
    """A model that nobody has trained, each parameter perturbed."""
    config = ModelConfig(**SMALL | keys)
    model = build(config, VOCABULARY, VOCABULARY, shared=True).eval().to(dtype)
    perturb(model)
    return model, config


def far(step: OnnxStep, model: Any, source: int, target: int) -> float:
    """The largest difference of a logit beside the largest logit, from the first token to the last: several at once,
    then one at a time. One of three sources has its padding in front, one behind."""
    draw = torch.Generator().manual_seed(1)
    ids, mask = torch.randint(4, VOCABULARY, (3, source), generator=draw), torch.ones(3, source, dtype=torch.long)
    mask[0, source // 2:], mask[1, :source // 4] = 0, 0
    tokens = torch.cat([torch.full((3, 1), BOS), torch.randint(4, VOCABULARY, (3, target), generator=draw)], 1)
    with torch.no_grad():
        wanted = model(ids, tokens, mask.bool()).numpy()
    assert wanted.std() > 0.3
    state, parts, first = step.start((ids.numpy(), mask.numpy())), [], target - 3
    for start, end in ((0, first), (first, first + 1), (first + 1, first + 2), (first + 2, target + 1)):
        logits, state = step.logits(state, tokens[:, start:end].numpy())
        parts.append(logits)
    return float(np.abs(np.concatenate(parts, 1) - wanted).max() / np.abs(wanted).max())


def sessions(keys: dict[str, Any], dtype: torch.dtype, folder: Path) -> tuple[OnnxStep, Any]:
    """The graphs of a model, each looked through, and the model."""
    model, config = built(keys, dtype)
    for graph, name in ((onnx_model.encoder, "encoder"), (onnx_model.decoder, "decoder")):
        graph(model, config, ROWS).write(folder / f"{name}.onnx")
        onnx.checker.check_model(folder / f"{name}.onnx", full_check=True)
        kinds = {node.op_type for node in onnx.load(folder / f"{name}.onnx").graph.node}
        assert not kinds & {"If", "Loop", "Scan"}
    return OnnxStep(session(folder / "encoder.onnx"), session(folder / "decoder.onnx")), model


@pytest.mark.parametrize("keys", [keys for keys in CASES if keys.get("feed_forward") not in ("gelu", "geglu")], ids=str)
def test_the_equations_are_the_same_in_double(keys: dict[str, Any], tmp_path: Path) -> None:
    """onnxruntime has no erf of such numbers, and so no exact GELU."""
    step, model = sessions(keys, torch.float64, tmp_path)
    assert far(step, model, 140, 12) < 1e-9


@pytest.mark.parametrize("keys", CASES, ids=str)
def test_onnxruntime_computes_the_same(keys: dict[str, Any], tmp_path: Path) -> None:
    step, model = sessions(keys, torch.float32, tmp_path)
    for source, target in ((170, 140), (4, 5)):
        assert far(step, model, source, target) < 1e-5


def greedily(step: OnnxStep, rows: list[list[int]], longest: int) -> list[list[int]]:
    """Greedy search of one sentence at a time, by nothing but numpy."""
    said = []
    for row in rows:
        state, token, out = step.start(padded([row])), BOS, list[int]()
        while len(out) < longest and token != EOS:
            logits, state = step.logits(state, np.array([[token]]))
            logits[..., [PAD, BOS]] = -np.inf
            token = int(logits[0, -1].argmax())
            out.append(token)
        said.append([each for each in out if each != EOS])
    return said


@pytest.mark.parametrize("keys", [{}, {"position": "alibi", "residual": "deepnorm"}, {
    "position": "rotary", "attention": "window", "window": 3, "decode": {"length_penalty": 1.0}}, {
    "tokenizer": {"kind": "word", "shared": False}, "tie_embeddings": False, "attention": "linear"}], ids=str)
def test_sentences_come_out_the_same(keys: dict[str, Any], random_run: Any) -> None:
    run = random_run(**keys)
    out, ours, texts = run.parent / "onnx", pellucid.load(run), sentences(200, 1)
    export(run, out)
    rows = [[*ids, EOS] for ids in ours.tokenizers.source.encode_batch(texts)]
    greedy = ours.generate(texts, beam_size=1)
    target = ours.tokenizers.target
    assert [target.pieces(ids) for ids in greedily(opened(out), rows, 20)] == [list(one.tokens) for one in greedy]
    for beam_size in (1, 4):
        assert decode(out, ours, texts, beam_size) == [one.text for one in ours.generate(texts, beam_size=beam_size)]


@pytest.mark.parametrize("keys", [{"pooling": name, "position": "alibi"} for name in POOLINGS] + [
    {"head_activation": name} for name in HEAD_ACTIVATIONS], ids=str)
def test_a_classifier_is_the_same(keys: dict[str, Any], random_run: Any) -> None:
    run = random_run("classification", **keys)
    out, ours, texts = run.parent / "onnx", pellucid.load(run), sentences(40, 2)
    export(run, out)
    ids, mask = padded([[BOS, *row] for row in ours.tokenizers.source.encode_batch(texts)])
    for side in (1, -1):  # the padding behind, then in front
        given = {"input_ids": ids, "attention_mask": mask}
        if side == -1:
            given = {name: np.stack([np.roll(row, (each == 0).sum()) for row, each in zip(whole, mask, strict=True)])
                     for name, whole in given.items()}
        logits = session(out / "onnx" / "model.onnx").run(None, given)[0]
        found = torch.from_numpy(logits).softmax(-1)
        for one, row in zip(ours.classify(texts), found, strict=True):
            torch.testing.assert_close(torch.tensor(list(one.probabilities.values())), row, rtol=0, atol=2e-6)


def test_what_is_written(random_run: Any) -> None:
    run = random_run()
    done = export(run, run.parent / "onnx-files")
    assert {"config.json", "generation_config.json", "onnx/encoder_model.onnx", "onnx/decoder_model_merged.onnx",
            "tokenizer.json", "tokenizer_config.json", "README.md"} == set(done.files)
    decoder = session(run.parent / "onnx-files" / "onnx" / "decoder_model_merged.onnx")
    names = [f"{i}.{side}.{part}" for i in (0, 1) for side in ("decoder", "encoder") for part in ("key", "value")]
    assert [each.name for each in decoder.get_inputs()] == [
        "input_ids", "encoder_attention_mask", "encoder_hidden_states", *(f"past_key_values.{n}" for n in names)]
    assert [each.name for each in decoder.get_outputs()] == ["logits", *(f"present.{name}" for name in names)]
    assert {each.shape[0] for each in decoder.get_inputs()} == {"batch_size"}
    assert json.loads((run.parent / "onnx-files" / "config.json").read_text())["model_type"] == "marian"


def test_two_vocabularies_are_lists_of_their_pieces(random_run: Any) -> None:
    run = random_run(tokenizer={"shared": False})
    done, ours = export(run, run.parent / "onnx-two"), pellucid.load(run)
    assert "tokenizer.json" not in done.files
    assert "ids" in " ".join(done.notes)
    pieces = json.loads((run.parent / "onnx-two" / "target_vocabulary.json").read_text())
    assert pieces == ours.tokenizers.target.pieces(range(ours.tokenizers.target.size))


def test_what_was_imported_goes_out_again(random_run: Any, tmp_path: Path) -> None:
    pytest.importorskip("tokenizers")
    run, texts = random_run(residual="post", output_bias=True), sentences(30, 5)
    huggingface.export(run, tmp_path / "hf")
    import_run(tmp_path / "hf", tmp_path / "run")
    export(tmp_path / "run", tmp_path / "onnx")
    again = pellucid.load(tmp_path / "run")
    options = dataclasses.replace(again.config.decode, precision="fp32")
    said = [one.text for one in again.generate(texts, beam_size=1, options=options)]
    assert decode(tmp_path / "onnx", again, texts, 1) == said


def test_weights_beyond_a_message_lie_beside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, config = built({}, torch.float32)
    monkeypatch.setattr(onnx_graph, "LARGEST", 1000)
    onnx_model.encoder(model, config, ROWS).write(tmp_path / "encoder.onnx")
    onnx_model.decoder(model, config, ROWS).write(tmp_path / "decoder.onnx")
    assert (tmp_path / "encoder.onnx_data").stat().st_size > (tmp_path / "encoder.onnx").stat().st_size / 2
    onnx.checker.check_model(tmp_path / "encoder.onnx")
    step = OnnxStep(session(tmp_path / "encoder.onnx"), session(tmp_path / "decoder.onnx"))
    assert far(step, model, 9, 6) < 1e-5


def test_a_part_of_ones_own_is_refused_by_name(random_run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from pellucid.model.build import NORMS
    from pellucid.nn.layer_norm import LayerNorm

    monkeypatch.setitem(NORMS, "mine", LayerNorm)
    run = random_run(norm="mine")
    with pytest.raises(ConfigError, match=r"model\.norm mine"):
        export(run, run.parent / "none")
    assert not (run.parent / "none").exists()
