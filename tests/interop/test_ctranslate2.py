"""What is written into CTranslate2's specification computes and decodes as the run does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.interop.conftest import sentences

import pellucid
from pellucid.config import DecodeConfig, RunConfig
from pellucid.data.tokenizers.interface import BOS, PAD
from pellucid.errors import ConfigError
from pellucid.interop.ctranslate2 import export, notes_of, search_of

ctranslate2 = pytest.importorskip("ctranslate2")

CASES: list[dict[str, Any]] = [
    {}, {"position": "learned", "feed_forward": "gelu"}, {"position": "none"},
    {"position": "rotary", "feed_forward": "swiglu", "norm": "rmsnorm"}, {"position": "rotary", "d_key": 6},
    {"position": "t5", "norm": "rmsnorm", "feed_forward": "geglu"}, {"position": "t5", "residual": "post"},
    {"residual": "post"}, {"residual": "deepnorm"}, {"residual": "deepnorm", "position": "learned"},
    {"tie_embeddings": False}, {"d_key": 4}, {"d_head": 5}, {"biases": False, "position": "t5", "norm": "rmsnorm"},
    {"embedding_norm": True, "norm_epsilon": 1e-3}, {"embedding_norm": True, "residual": "deepnorm"},
    {"output_bias": True, "feed_forward": "gelu_tanh"}, {"feed_forward": "swish"}, {"feed_forward": "geglu_tanh"},
    {"tokenizer": {"shared": False}},
    {"tokenizer": {"kind": "word", "shared": False}, "tie_embeddings": False}]
SUPPRESSED = [["<pad>"], ["<s>"]]


def opened(run: Path, quantization: str | None = None, computed: str = "float32") -> Any:
    """CTranslate2's view of a run."""
    out = run.parent / f"ct2-{quantization}"
    export(run, out, quantization)
    return ctranslate2.Translator(str(out), device="cpu", intra_threads=1, inter_threads=1, compute_type=computed)


def every_other_input(model: torch.nn.Module) -> None:
    """Half of the inputs of each matrix count for nothing."""
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 2:
                parameter[:, 1::2] = 0


def forget(model: Any) -> None:
    """What must not be said has no probability, where our search only passes it over: CTranslate2 divides it among the
    other tokens."""
    plain = model.logits
    model.logits = lambda hidden: plain(hidden).index_fill(-1, torch.tensor([PAD, BOS]), -1e9)


@pytest.mark.parametrize("keys", CASES, ids=str)
def test_scores_and_sentences_are_the_same(keys: dict[str, Any], random_run: Any) -> None:
    run = random_run(**keys)
    ours, theirs = pellucid.load(run), opened(run)
    source, target = ours.tokenizers.source, ours.tokenizers.target
    texts = [*sentences(200, 1), " ".join(sentences(16, 3))]  # the last is longer than 128 tokens
    pieces = [source.pieces(source.encode(text)) for text in texts]
    assert len(pieces[-1]) > 128 or keys.get("tokenizer", {}).get("kind") == "word"
    others = texts[::-1]
    wanted = [target.pieces(target.encode(text)) for text in others]
    expected = ours.score(texts, others)
    for row, scored in zip(theirs.score_batch(pieces, wanted), expected, strict=True):
        np.testing.assert_allclose(row.log_probs, scored.token_log_probabilities, rtol=0, atol=3e-4)
    forget(ours.model)
    for beam_size in (1, 4):
        found = theirs.translate_batch(pieces[:200], beam_size=beam_size, length_penalty=0, min_decoding_length=0,
                                       max_decoding_length=20, suppress_sequences=SUPPRESSED)
        said = [list(one.tokens) for one in ours.generate(texts[:200], beam_size=beam_size)]
        assert [one.hypotheses[0] for one in found] == said


@pytest.mark.parametrize("decode", [{"beam_size": 3, "max_length": 9},
                                    {"beam_size": 1, "min_length": 4, "max_length": 9, "no_repeat_ngram": 2}], ids=str)
def test_the_card_searches_as_the_run_does(decode: dict[str, int], random_run: Any) -> None:
    """CTranslate2 takes its search from the call alone, and has other defaults."""
    run = random_run(decode=decode, max_length=12)  # many of these are longer, and cut
    ours, theirs, texts = pellucid.load(run), opened(run), sentences(100, 1)
    forget(ours.model)
    card = (run.parent / "ct2-None" / "README.md").read_text()
    said = [list(one.tokens) for one in ours.generate(texts)]
    told = dict(each.split("=") for each in card.split("([pieces], ")[1].split(")")[0].split(", "))
    search = {name: json.loads(value) for name, value in told.items()}
    pieces = [ours.tokenizers.source.pieces(ours.tokenizers.source.encode(text)) for text in texts]
    found = theirs.translate_batch(pieces, suppress_sequences=SUPPRESSED, **search)
    assert [one.hypotheses[0] for one in found] == said


def test_how_a_search_is_said() -> None:
    drawn = search_of(RunConfig(decode=DecodeConfig(sample=True, temperature=0.7, top_k=5)))
    assert drawn.startswith("max_input_length=512, beam_size=1, ")
    assert drawn.endswith("sampling_temperature=0.7, sampling_topk=5, sampling_topp=1.0")
    for rule in ({}, {"min_length": 4}, {"no_repeat_ngram": 2}):
        notes = [notes_of(RunConfig(decode=DecodeConfig(beam_size=beam, **rule)), None) for beam in (1, 4)]
        assert [any("among the others" in note for note in some) for some in notes] == [False, bool(rule)]


@pytest.mark.parametrize("computed", ["float32", "int8"])
def test_eight_bits_are_near(random_run: Any, computed: str) -> None:
    """Without VNNI, CTranslate2 adds two products of bytes in 16 bits, which overflow unless one of the two is 0."""
    run = random_run(d_model=64, n_heads=4, d_ff=128, change=None if computed == "float32" else every_other_input)
    ours, theirs = pellucid.load(run), opened(run, "int8", computed)
    texts = sentences(20, 1)
    pieces = [ours.tokenizers.source.pieces(ours.tokenizers.source.encode(text)) for text in texts]
    far = [abs(np.asarray(a.log_probs) - b.token_log_probabilities).max()
           for a, b in zip(theirs.score_batch(pieces, pieces), ours.score(texts, texts), strict=True)]
    assert 0 < np.median(far) < 1
    sizes = [(run.parent / f"ct2-{kind}" / "model.bin").stat().st_size for kind in ("int8",)]
    whole = export(run, run.parent / "ct2-whole").files["model.bin"]
    assert sizes[0] < 0.5 * whole


def test_what_is_written(random_run: Any) -> None:
    run = random_run()
    done = export(run, run.parent / "ct2-files")
    assert {"model.bin", "config.json", "shared_vocabulary.json", "source.spm", "target.spm", "README.md"} == set(
        done.files)
    config = json.loads((run.parent / "ct2-files" / "config.json").read_text())
    assert config["add_source_eos"]
    assert config["decoder_start_token"] == "<s>"
    assert config["layer_norm_epsilon"] == pytest.approx(1e-5)


@pytest.mark.parametrize(("keys", "what"), [
    ({"position": "alibi"}, "model.position alibi"), ({"position": "transformer_xl"}, "model.position transformer_xl"),
    ({"attention": "linear"}, "model.attention linear"), ({"attention": "window"}, "model.attention window"),
    ({"norm": "stdnorm"}, "model.norm stdnorm"), ({"norm": "none"}, "model.norm none"),
    ({"residual": "none"}, "model.residual none"), ({"d_key": 9}, "model.d_key 9, which is above the 8")])
def test_what_it_does_not_have_is_refused_by_name(keys: dict[str, Any], what: str, random_run: Any) -> None:
    run = random_run(**keys)
    with pytest.raises(ConfigError, match=what):
        export(run, run.parent / "none")
    assert not (run.parent / "none").exists()


def test_an_unknown_quantization_lists_the_known_ones(random_run: Any) -> None:
    run = random_run()
    with pytest.raises(ConfigError, match="int3") as caught:
        export(run, run.parent / "none", "int3")
    assert "int8" in caught.value.fix
