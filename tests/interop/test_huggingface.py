"""What is exported to transformers computes, tokenizes and decodes as the run does."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.interop.conftest import sentences

import pellucid
from pellucid.data.tokenizers.interface import UNK
from pellucid.errors import ConfigError
from pellucid.interop.huggingface import export, positions_of
from pellucid.interop.importing import import_run
from pellucid.interop.weights import CLASSES

transformers = pytest.importorskip("transformers")
transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()

T5 = {"norm": "rmsnorm", "position": "t5"}
CASES: list[tuple[str, dict[str, Any]]] = [
    ("BlenderbotForConditionalGeneration", {}),
    ("BlenderbotForConditionalGeneration", {"position": "learned", "feed_forward": "gelu"}),
    ("MarianMTModel", {"residual": "post"}), ("MarianMTModel", {"residual": "post", "position": "learned"}),
    ("MarianMTModel", {"residual": "deepnorm", "feed_forward": "gelu"}), ("UMT5ForConditionalGeneration", T5),
    ("UMT5ForConditionalGeneration", T5 | {"feed_forward": "gelu"}),
    ("UMT5ForConditionalGeneration", T5 | {"feed_forward": "geglu"}),
    ("UMT5ForConditionalGeneration", T5 | {"feed_forward": "swiglu", "encoder_layers": 1}),
    ("UMT5ForConditionalGeneration", T5 | {"feed_forward": "geglu_tanh", "biases": False, "d_head": 5,
                                           "norm_epsilon": 1e-3}),
    ("BlenderbotForConditionalGeneration", {"output_bias": True, "feed_forward": "gelu_tanh"}),
    ("MarianMTModel", {"residual": "post", "output_bias": True, "feed_forward": "swish"})]
NAMES = [f"{kind[:6]} {' '.join(map(str, keys.values()))}" for kind, keys in CASES]


@pytest.fixture
def in_double(monkeypatch: pytest.MonkeyPatch) -> None:
    """transformers computes norms and softmax of T5 in float32, whatever comes in; here it does not."""
    to = torch.Tensor.to
    monkeypatch.setattr(torch.Tensor, "float", torch.Tensor.double)
    monkeypatch.setattr(torch.Tensor, "to", lambda self, *a, **k: to(
        self, *(torch.float64 if each is torch.float32 else each for each in a), **k))


def exported(run: Path) -> Path:
    """The folder that is written for a run, once."""
    out = run.parent / "hf"
    if not out.exists():
        export(run, out)
    return out


def logits_of(run: Path, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """Ours and theirs for the same ids, longer than 128, one source padded."""
    opened = pellucid.load(run)
    model, config = opened.model.to(dtype), opened.config
    theirs = transformers.AutoModelForSeq2SeqLM.from_pretrained(exported(run), dtype=dtype).eval()
    if dtype == torch.float64:  # the file has rounded what it had to scale
        made = CLASSES[theirs.config.model_type](model, config.model, positions_of(config))
        assert set(theirs.load_state_dict(made, strict=False).missing_keys) <= {
            f"{part}.weight" for part in ("lm_head", "encoder.embed_tokens", "decoder.embed_tokens",
                                          "model.encoder.embed_tokens", "model.decoder.embed_tokens")}
        if config.model.residual == "deepnorm":
            widen(theirs, model)
    size = len(model.output.weight)
    source, real = torch.randint(4, size, (3, 170)), torch.ones(3, 170, dtype=torch.bool)
    source[0, 100:], real[0, 100:] = 0, False
    target = torch.cat([torch.full((3, 1), 2), torch.randint(4, size, (3, 140))], 1)
    with torch.no_grad():
        return model(source, target, real), theirs(input_ids=source, attention_mask=real.long(),
                                                   decoder_input_ids=target).logits


def widen(theirs: Any, ours: Any) -> None:
    """Gives their norms the ε that α asks for: Norm(αx + f; ε) = Norm(x + f/α; ε/α²). Their files have no room for it.
    """
    for stack, layers in (("encoder", ours.encoder.layers), ("decoder", ours.decoder.layers)):
        for module in getattr(theirs.model, stack).modules():
            if isinstance(module, torch.nn.LayerNorm):
                module.eps /= layers[0].residual_1.alpha ** 2


@pytest.mark.parametrize(("kind", "keys"), CASES, ids=NAMES)
def test_logits_are_the_same_in_double(kind: str, keys: dict[str, Any], random_run: Any, in_double: None) -> None:
    run = random_run(**keys)
    ours, theirs = logits_of(run, torch.float64)
    assert ours.std() > 0.5
    torch.testing.assert_close(theirs, ours, rtol=0, atol=1e-9)
    assert json.loads((exported(run) / "config.json").read_text())["architectures"] == [kind]


@pytest.mark.parametrize(("kind", "keys"), CASES, ids=NAMES)
def test_sentences_come_out_the_same(kind: str, keys: dict[str, Any], random_run: Any) -> None:
    run = random_run(**keys, tokenizer={"kind": "sentencepiece"})
    ours, theirs = logits_of(run, torch.float32)
    torch.testing.assert_close(theirs, ours, rtol=0, atol=1e-5 * float(ours.abs().max()))
    opened, folder = pellucid.load(run), exported(run)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
    assert type(model).__name__ == kind
    texts = [*sentences(200, 1), " ".join(sentences(40, 3))]  # the last is longer than the run reads
    for beam_size in (1, 4):
        found = opened.generate(texts, beam_size=beam_size)
        batch = tokenizer(texts, return_tensors="pt", padding=True, truncation=True)
        ids = model.generate(**batch, num_beams=beam_size, early_stopping="never" if beam_size > 1 else False)
        said = tokenizer.batch_decode(ids, skip_special_tokens=True)
        assert said == [one.text for one in found]


@pytest.mark.parametrize(("kind", "keys"), CASES, ids=NAMES)
def test_what_is_imported_again_is_the_same(kind: str, keys: dict[str, Any], random_run: Any, tmp_path: Path) -> None:
    run = random_run(**keys)
    assert import_run(exported(run), tmp_path / "again").what == kind
    again, before, texts = pellucid.load(tmp_path / "again"), pellucid.load(run), sentences(60, 1)
    for one, other in zip(again.score(texts, texts[::-1]), before.score(texts, texts[::-1]), strict=True):
        assert one.tokens == other.tokens
        assert one.token_log_probabilities == pytest.approx(other.token_log_probabilities, rel=2e-5, abs=1e-4)
    unknown = [4, UNK, 5]
    assert again.tokenizers.target.decode(unknown) == before.tokenizers.target.decode(unknown)
    options = before.config.decode
    assert [one.text for one in again.generate(texts, 4, options=options)] == [
        one.text for one in before.generate(texts, 4)]


@pytest.mark.parametrize("keys", [{"position": "learned", "feed_forward": "gelu"}, {
    "norm_epsilon": 1e-12, "feed_forward": "gelu_tanh"}], ids=str)
def test_a_classifier_is_the_same(keys: dict[str, Any], random_run: Any) -> None:
    run = random_run("classification", residual="post", embedding_norm=True, pooling="first", **keys)
    opened, folder = pellucid.load(run), exported(run)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(folder, dtype=torch.float32).eval()
    texts = [*sentences(50, 2), " ".join(sentences(40, 3))]
    batch = tokenizer(texts, return_tensors="pt", padding=True, truncation=True)
    with torch.no_grad():
        wanted = model(**batch).logits.softmax(-1)
    for one, row in zip(opened.classify(texts), wanted, strict=True):
        torch.testing.assert_close(torch.tensor(list(one.probabilities.values())), row, rtol=0, atol=2e-6)
    assert [model.config.id2label[i] for i in range(3)] == list(opened.tokenizers.labels)
    card = (folder / "README.md").read_text()
    assert card.startswith("---\npipeline_tag: text-classification\n---")
    assert 'pipeline("text-classification", "this folder")' in card


def test_what_is_written(random_run: Any) -> None:
    run = random_run(residual="deepnorm", decode={"length_penalty": 0.6, "max_length": 30})
    (run / "evaluation").mkdir(exist_ok=True)
    (run / "evaluation" / "test.json").write_text('{"bleu": 31.25, "interval": {"bleu": [30.5, 32.0]}}')
    (run / "evaluation" / f".tmp-{'0' * 32}-test.json").write_text('{"bleu": 99.0}')  # of a writer that was killed
    done = export(run, run.parent / "card")
    assert {"config.json", "generation_config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json",
            "README.md", "source.spm", "target.spm"} == set(done.files)
    card = (run.parent / "card" / "README.md").read_text()
    assert "| test | bleu | 31.25 | 30.50 to 32.00 |" in card
    assert "99.00" not in card
    assert all(note in card for note in done.notes)
    assert "length penalty" in " ".join(done.notes)
    assert "ε" in " ".join(done.notes)
    generation = json.loads((run.parent / "card" / "generation_config.json").read_text())
    assert (generation["num_beams"], generation["max_length"]) == (4, 31)
    assert math.isclose(generation["length_penalty"], 0.6)


def test_a_draw_and_a_shortest_output_go_along(random_run: Any) -> None:
    run = random_run(decode={"min_length": 7, "max_length": 250, "sample": True, "beam_size": 3, "temperature": 0.7,
                             "length_penalty": 0.6})
    assert not export(run, run.parent / "drawn").notes
    generation = json.loads((run.parent / "drawn" / "generation_config.json").read_text())
    assert (generation["min_length"], generation["do_sample"], generation["temperature"]) == (8, True, 0.7)
    assert generation["num_beams"] == 1
    told = json.loads((run.parent / "drawn" / "config.json").read_text())
    assert told["max_position_embeddings"] >= generation["max_length"]  # sinusoids, which have no end of their own
    assert generation.keys().isdisjoint({"early_stopping", "length_penalty"})  # of which transformers would warn
    assert "truncation=True" in (run.parent / "drawn" / "README.md").read_text()
    assert transformers.GenerationConfig(**generation).min_length == 8


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"position": "rotary"}, "model.position rotary"), ({"position": "alibi"}, "model.position alibi"),
    ({"norm": "stdnorm"}, "model.norm stdnorm"), ({"residual": "none"}, "model.residual none"),
    ({"attention": "window"}, "model.attention window"), ({"attention": "linear"}, "model.attention linear"),
    ({"tie_embeddings": False}, "model.tie_embeddings false"), ({"d_key": 4}, "model.d_key 4"),
    ({"feed_forward": "swiglu"}, "model.feed_forward swiglu"), ({"tokenizer": {"shared": False}}, "tokenizer.shared"),
    (T5 | {"change": lambda model: model.decoder.layers[1].feed_forward.inner.bias.data.add_(0.1)},
     r"umt5 has no biases, and decoder\.layers\.1\.feed_forward\.inner\.bias is one that adds something")]


@pytest.mark.parametrize(("keys", "what"), REFUSED)
def test_what_no_class_holds_is_refused_by_name(keys: dict[str, Any], what: str, random_run: Any) -> None:
    run = random_run(**keys)
    with pytest.raises(ConfigError, match=what) as caught:
        export(run, run.parent / "none")
    assert "--to" in caught.value.fix
    assert not (run.parent / "none").exists()
    assert not list(run.parent.glob(".tmp-*"))


def test_nothing_is_replaced(random_run: Callable[..., Path]) -> None:
    run = random_run()
    with pytest.raises(ConfigError, match="something already"):
        export(run, run)
