"""What transformers has written, and a run was made of, goes back to it with the same files and the same bytes."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from tests.interop.conftest import MakeRun, sentences
from tests.interop.test_importing import BART, BERT, CLASSIFIERS, MARIAN, SEQ2SEQ, T5, Foreign, foreign
from tests.interop.test_languages import KINDS, Made
from tests.interop.test_languages import foreign as many

import pellucid
from pellucid.cli import main
from pellucid.errors import ConfigError
from pellucid.files import write_json
from pellucid.interop.huggingface import export
from pellucid.interop.importing import import_run
from pellucid.runs import slim
from pellucid.runs.checkpoint import write_checkpoint

__all__ = ["foreign", "many"]
TOKENIZER = ("tokenizer.json", "tokenizer_config.json", "vocab.json", "source.spm", "target.spm", "vocab.txt",
             "sentencepiece.bpe.model", "generation_config.json")
DRAWN = [("MarianMTModel", "MarianConfig", MARIAN), ("UMT5ForConditionalGeneration", "UMT5Config", T5),
         ("BertForSequenceClassification", "BertConfig", BERT),
         ("BlenderbotForConditionalGeneration", "BlenderbotConfig", BART | {
             "scale_embedding": True, "pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3,
             "decoder_start_token_id": 2, "forced_eos_token_id": None})]


def drawn(kind: str, keys: dict[str, Any], seed: int) -> dict[str, Any]:
    """Another width, other depths, another inner width, other heads."""
    draw = random.Random(seed)
    heads = draw.choice((1, 2, 3))
    width, inner, layers = heads * draw.choice((4, 6, 10)), draw.randint(5, 40), draw.sample(range(1, 5), 2)
    if "T5" in kind:
        return keys | {"d_model": 2 * width, "d_kv": draw.randint(2, 9), "d_ff": 2 * inner, "num_heads": heads,
                       "num_layers": layers[0], "num_decoder_layers": layers[1],
                       "feed_forward_proj": draw.choice(("relu", "gated-gelu", "gated-silu"))}
    if "Bert" in kind:
        return keys | {"hidden_size": width, "num_attention_heads": heads, "intermediate_size": inner,
                       "num_hidden_layers": layers[0]}
    return keys | {"d_model": width, "encoder_attention_heads": heads, "decoder_attention_heads": heads,
                   "encoder_layers": layers[0], "decoder_layers": layers[1], "encoder_ffn_dim": inner,
                   "decoder_ffn_dim": inner, "activation_function": draw.choice(("relu", "gelu", "swish"))}


def returned(folder: Path, place: Path) -> Path:
    """The folder that comes of a run that is made of a folder; both hold the same."""
    import_run(folder, place / "run")
    done = export(place / "run", place / "back")
    assert not done.notes
    before, after = (safetensors.torch.load_file(each / "model.safetensors") for each in (folder, place / "back"))
    assert before.keys() == after.keys()
    for name, tensor in before.items():
        assert tensor.dtype == after[name].dtype
        assert torch.equal(tensor.view(torch.int32), after[name].view(torch.int32)), name
    for name in TOKENIZER:
        assert (folder / name).is_file() == (name in done.files)
        assert name not in done.files or (folder / name).read_bytes() == (place / "back" / name).read_bytes()
    return place / "back"


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("kind", "configuration", "keys"), DRAWN, ids=[kind for kind, _, _ in DRAWN])
def test_every_byte_of_a_drawn_model_comes_back(kind: str, configuration: str, keys: dict[str, Any], seed: int,
                                                foreign: Foreign, tmp_path: Path) -> None:
    folder, _ = foreign(kind, configuration, drawn(kind, keys, seed))
    assert class_of(returned(folder, tmp_path)) == kind


@pytest.mark.parametrize("kind", ["RobertaForSequenceClassification", "XLMRobertaForSequenceClassification"])
def test_a_pooler_that_its_classifier_does_not_read_comes_along(kind: str, foreign: Foreign, tmp_path: Path) -> None:
    """Many have one in their files, from before they were classifiers."""
    folder, theirs = foreign(*next(case for case in CLASSIFIERS if case[0] == kind))
    tensors, width = safetensors.torch.load_file(folder / "model.safetensors"), theirs.config.hidden_size
    tensors |= {f"roberta.pooler.dense.{leaf}": torch.randn(size)
                for leaf, size in (("weight", (width, width)), ("bias", (width,)))}
    safetensors.torch.save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    returned(folder, tmp_path)


@pytest.mark.parametrize(("case", "shared", "names"), [
    (SEQ2SEQ[0], "model.shared.weight", ["lm_head.weight"]),
    (SEQ2SEQ[4], "shared.weight", ["decoder.embed_tokens.weight", "lm_head.weight"])], ids=["BART's", "T5's"])
def test_an_embedding_that_stands_under_another_of_its_names_is_found(
        case: tuple[str, str, dict[str, Any]], shared: str, names: list[str], foreign: Foreign, tmp_path: Path) -> None:
    """Where a matrix serves several times, whoever wrote the file kept one of its names."""
    folder, _ = foreign(*case)
    import_run(folder, tmp_path / "plain")
    tensors = safetensors.torch.load_file(folder / "model.safetensors")
    matrix = tensors.pop(shared)
    safetensors.torch.save_file(tensors | {name: matrix.clone() for name in names}, folder / "model.safetensors")
    returned(folder, tmp_path)
    plain, found = (tmp_path / name / "checkpoints/step-00000000/model.safetensors" for name in ("plain", "run"))
    assert found.read_bytes() == plain.read_bytes()


def class_of(folder: Path) -> str:
    """What transformers makes of it."""
    import transformers

    config = transformers.AutoConfig.from_pretrained(folder)
    name = str(config.architectures[0])
    return type(getattr(transformers, name).from_pretrained(folder)).__name__


@pytest.mark.parametrize(("kind", "configuration", "keys"), SEQ2SEQ + CLASSIFIERS, ids=str)
def test_every_class_comes_back(kind: str, configuration: str, keys: dict[str, Any], foreign: Foreign,
                                tmp_path: Path) -> None:
    returned(foreign(kind, configuration, keys)[0], tmp_path)


@pytest.mark.parametrize("many", KINDS, indirect=True)
def test_a_model_of_many_languages_comes_back(many: Made, tmp_path: Path) -> None:
    returned(many[0], tmp_path)


@pytest.mark.parametrize("keys", [{}, {"residual": "post"}, {"residual": "post", "position": "learned"},
                                  {"norm": "rmsnorm", "position": "t5", "feed_forward": "geglu"}], ids=str)
def test_what_was_exported_comes_back(keys: dict[str, Any], random_run: MakeRun, tmp_path: Path) -> None:
    export(random_run(**keys), tmp_path / "theirs")
    returned(tmp_path / "theirs", tmp_path)


def test_a_classifier_that_was_exported_comes_back(random_run: MakeRun, tmp_path: Path) -> None:
    run, texts = random_run("classification", residual="post", embedding_norm=True, pooling="first"), sentences(20, 3)
    export(run, tmp_path / "theirs")
    returned(tmp_path / "theirs", tmp_path)
    wanted, found = (pellucid.load(folder).classify(texts) for folder in (run, tmp_path / "run"))
    for one, other in zip(found, wanted, strict=True):
        assert one.probabilities == pytest.approx(other.probabilities, abs=2e-6)


def learn(run: Path, change: Callable[[dict[str, torch.Tensor]], object]) -> None:
    """Other weights are in use, as after training."""
    weights = safetensors.torch.load_file(run / "checkpoints/step-00000000/model.safetensors")
    change(weights)
    write_checkpoint(run / "checkpoints/step-00000001", {"model.safetensors": weights}, {"step": 1})
    write_json(run / "best.json", {"checkpoint": "step-00000001", "step": 1})


def test_positions_that_were_tuned_go_back_as_they_are_now(foreign: Foreign, tmp_path: Path) -> None:
    """What rounding took from the imported ones is put back to those alone; here it is a copy of all of them."""
    folder, _ = foreign(*CLASSIFIERS[0])
    name = "bert.embeddings.position_embeddings.weight"
    tensors = safetensors.torch.load_file(folder / "model.safetensors")
    tensors |= {name: 1e-9 * tensors[name]}  # beside the segment that is added to them
    safetensors.torch.save_file(tensors, folder / "model.safetensors")
    returned(folder, tmp_path)
    learn(tmp_path / "run", lambda weights: weights["encoder.position.table"].add_(0.25))
    assert not export(tmp_path / "run", tmp_path / "tuned").notes
    found = safetensors.torch.load_file(tmp_path / "tuned" / "model.safetensors")[name]
    torch.testing.assert_close(found, torch.full_like(found, 0.25))


def test_what_its_class_has_no_place_for_does_not_go_back(foreign: Foreign, tmp_path: Path) -> None:
    """A T5 has one table of positions for all layers of a stack, and its configuration is the one that it came with."""
    folder, _ = foreign(*SEQ2SEQ[4])
    import_run(folder, tmp_path / "run")
    before = (tmp_path / "run" / "config.yaml").read_text()
    (tmp_path / "run" / "config.yaml").write_text(before.replace("feed_forward: relu", "feed_forward: gelu"))
    with pytest.raises(ConfigError, match=r"model\.feed_forward is another one than that of the class"):
        export(tmp_path / "run", tmp_path / "back")
    (tmp_path / "run" / "config.yaml").write_text(before)
    table = "encoder.layers.1.self_attention.position.table"
    learn(tmp_path / "run", lambda weights: weights[table].add_(0.1))
    with pytest.raises(ConfigError, match=rf"{table} has learned what the class .* has no place for"):
        export(tmp_path / "run", tmp_path / "back")
    assert not (tmp_path / "back").exists()


def test_weights_of_half_the_bits_go_back_in_single(foreign: Foreign, tmp_path: Path) -> None:
    """And are called that, else transformers would round what is learned."""
    folder, theirs = foreign(*SEQ2SEQ[2])
    theirs.to(torch.bfloat16).save_pretrained(folder)
    import_run(folder, tmp_path / "run")
    export(tmp_path / "run", tmp_path / "back")
    before, after = (safetensors.torch.load_file(each / "model.safetensors") for each in (folder, tmp_path / "back"))
    assert all(torch.equal(before[name].float(), tensor) for name, tensor in after.items())
    assert type(theirs).from_pretrained(tmp_path / "back").dtype == torch.float32


def test_it_says_the_same_there(foreign: Foreign, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, _ = foreign(*SEQ2SEQ[0])
    import_run(returned(folder, tmp_path), tmp_path / "again")
    monkeypatch.chdir(tmp_path / "again")
    export(Path(), tmp_path / "unnamed")
    card = (tmp_path / "unnamed" / "README.md").read_text()
    assert "# again\n\nA Transformer imported into pellucid, as `MarianMTModel` of transformers" in card
    assert "`again` was imported" in card
    runs, texts = [pellucid.load(tmp_path / name) for name in ("run", "again")], sentences(20, 3)
    assert [[one.tokens for one in run.generate(texts)] for run in runs[:1]] == [
        [one.tokens for one in run.generate(texts)] for run in runs[1:]]


def test_what_was_trained_on_goes_back_with_what_it_learned(foreign: Foreign, tmp_path: Path) -> None:
    folder, _ = foreign(*SEQ2SEQ[0])
    import_run(folder, tmp_path / "run")
    (tmp_path / "data.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in zip(sentences(60), sentences(60, 4))))
    assert main(["train", str(tmp_path / "run" / "config.yaml"), "--out", str(tmp_path / "tuned"),
                 "--data.train", str(tmp_path / "data.tsv"), "--data.validation", str(tmp_path / "data.tsv"),
                 "--train.initialize_from", str(tmp_path / "run"), "--train.steps", "4", "--train.warmup_steps", "1",
                 "--train.batch_tokens", "100", "--train.validate_every", "2", "--decode.max_length", "8",
                 "--model.max_length", "300"]) == 0
    slim.export(tmp_path / "tuned", tmp_path / "slim")
    note, longer = export(tmp_path / "slim", tmp_path / "back").notes
    assert note.startswith("outputs are searched for as before it was imported: decode.max_length 8 of the run")
    assert longer == "texts have up to 200 tokens there, not the 300 of model.max_length"
    card = (tmp_path / "back" / "README.md").read_text()
    assert f"- {note}." in card
    assert "A Transformer trained with pellucid" in card
    import_run(tmp_path / "back", tmp_path / "again")
    before, tuned, again = (pellucid.load(tmp_path / name).model.state_dict() for name in ("run", "tuned", "again"))
    for name, tensor in again.items():
        torch.testing.assert_close(tensor.clamp(min=-1e6), tuned[name].clamp(min=-1e6), rtol=1e-6, atol=1e-7)
    assert not torch.equal(before["encoder.layers.0.feed_forward.inner.weight"],
                           again["encoder.layers.0.feed_forward.inner.weight"])
    assert (tmp_path / "back" / "source.spm").read_bytes() == (folder / "source.spm").read_bytes()
