"""Damaged, lying and hostile folders get one clear error, and leave nothing behind."""

from __future__ import annotations

import json
import os
import shutil
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from pellucid.cli import main
from pellucid.errors import CheckpointError, ConfigError, UserError
from pellucid.interop.foreign_tokenizer import read_tokenizer
from pellucid.interop.huggingface import export
from pellucid.interop.importing import import_run

pytest.importorskip("tokenizers")
WEIGHTS = "model.safetensors"


@pytest.fixture(scope="module")
def whole(random_run: Any) -> Path:
    """A folder that can be imported."""
    run = random_run(residual="post", tokenizer={"kind": "sentencepiece"})
    export(run, run.parent / "theirs")
    return Path(run.parent / "theirs")


@pytest.fixture
def folder(whole: Path, tmp_path: Path) -> Path:
    """A copy of it to be damaged."""
    return Path(shutil.copytree(whole, tmp_path / "theirs"))


def tensors(change: Callable[[dict[str, torch.Tensor]], object]) -> Callable[[Path], object]:
    """Changes the tensors of a folder."""
    def damage(folder: Path) -> None:
        found = load_file(folder / WEIGHTS)
        change(found)
        save_file({name: tensor.contiguous() for name, tensor in found.items()}, folder / WEIGHTS)

    return damage


def keys(**changed: Any) -> Callable[[Path], object]:
    """Changes keys of config.json."""
    def damage(folder: Path) -> None:
        path = folder / "config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | changed))

    return damage


def pieces(vocabulary: dict[str, int], unknown: str | None = None) -> Callable[[Path], object]:
    """Another vocabulary of the tokenizer."""
    def damage(folder: Path) -> None:
        path = folder / "tokenizer.json"
        model = {"type": "BPE", "vocab": vocabulary, "merges": [], "unk_token": unknown}
        path.write_text(json.dumps({"version": "1.0", "model": model, "added_tokens": []}))

    return damage


def tokenizer(**changed: Any) -> Callable[[Path], object]:
    """Changes keys of tokenizer.json."""
    def damage(folder: Path) -> None:
        path = folder / "tokenizer.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | changed))

    return damage


def spoilt(model: bytes) -> Callable[[Path], object]:
    """The tokenizer is that of Marian's own folders, and one of its models is this."""
    def damage(folder: Path) -> None:
        (folder / "vocab.json").write_text('{"</s>": 0, "<unk>": 1, "a": 2, "b": 3, "c": 4}')
        (folder / "target.spm").write_bytes(model)

    return damage


def without_a_start(folder: Path) -> None:
    keys(decoder_start_token_id=None)(folder)
    (folder / "generation_config.json").unlink()


def pickled(folder: Path) -> None:
    (folder / WEIGHTS).rename(folder / "pytorch_model.bin")


def indexed(name: object) -> Callable[[Path], object]:
    """The weights are where an index says."""
    def damage(folder: Path) -> None:
        (folder / WEIGHTS).rename(folder / "elsewhere.safetensors")
        (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": name}}))

    return damage


def device(name: str) -> Callable[[Path], object]:
    """What is no plain file is in the place of one; others than this never end."""
    def damage(folder: Path) -> None:
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to("/dev/null")

    return damage


def piped(folder: Path) -> None:
    indexed("pipe.safetensors")(folder)
    os.mkfifo(folder / "pipe.safetensors")


def nested(folder: Path) -> None:
    (folder / "config.json").write_text("[" * 100_000)


def dangling(folder: Path) -> None:
    (folder / WEIGHTS).unlink()
    (folder / WEIGHTS).symlink_to(folder / "nothing")


Q = "model.encoder.layers.0.self_attn.q_proj.weight"
DAMAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "a header of 2^62 bytes": (lambda f: (f / WEIGHTS).write_bytes(struct.pack("<Q", 2**62) + b"{}"), "cannot be read"),
    "cut short": (lambda f: os.truncate(f / WEIGHTS, 3000), "cannot be read"),
    "empty": (lambda f: (f / WEIGHTS).write_bytes(b""), "cannot be read"),
    "a pickle": (pickled, "pickle"), "a link to nothing": (dangling, "no weights"),
    "no parts": (lambda f: (f / WEIGHTS).rename(f / "x") and (f / f"{WEIGHTS}.index.json").write_text(
        '{"weight_map": {}}'), "index"),
    "a list of parts": (lambda f: (f / WEIGHTS).rename(f / "x") and (f / f"{WEIGHTS}.index.json").write_text(
        '{"weight_map": ["x"]}'), "index"),
    "no layers": (keys(encoder_layers=0), "1 to 1,000"), "a dropout of all": (keys(dropout=1), "below 1"),
    "a dropout of text": (keys(dropout="0.1"), "below 1"), "a dropout that is true": (keys(dropout=True), "below 1"),
    "a negative dropout": (keys(dropout=-0.1), "below 1"), "a flag of text": (keys(normalize_before="no"), "or false"),
    "a path that climbs": (indexed("../../etc/passwd"), "index"), "no path": (indexed(3), "index"),
    "a list of paths": (indexed(["a"]), "index"), "a path of keys": (indexed({}), "index"),
    "a part that is a pipe": (piped, "a pipe"), "a device": (device("config.json"), "^a pipe, device"),
    "a device of weights": (device(WEIGHTS), "no weights"), "a device of pieces": (device("tokenizer.json"), "missing"),
    "too large": (lambda f: os.truncate(f / "config.json", 2**27 + 1), "^a file has more than 134,217,728 bytes"),
    "a part that is missing": (indexed("other.safetensors"), "cannot be read"),
    "code of its own": (keys(auto_map={"AutoModel": "x.Y"}), "code of its own"),
    "another class": (keys(model_type="llama"), "'llama' cannot be imported"),
    "a list of classes": (keys(model_type=["marian"]), "cannot be imported"), "a class of keys": (
        keys(model_type={"a": 1}), "cannot be imported"),
    "a class of many languages": (keys(model_type="m2m_100"), "no tokens of languages"),
    "no width": (keys(d_model=None), "d_model"), "a width of text": (keys(d_model="64"), "d_model"),
    "a huge width": (keys(d_model=2**60), "d_model"),
    "a width beyond the memory": (keys(d_model=2**24), "has 16 columns, not 16,777,216"),
    "layers without end": (keys(encoder_layers=1001), "1 to 1,000"),
    "another width": (keys(d_model=32), "not those that config.json describes"),
    "heads that do not fit": (keys(encoder_attention_heads=3, decoder_attention_heads=3), "n_heads"),
    "other heads": (keys(decoder_attention_heads=4), "differ"),
    "heads of one stack": (keys(decoder_attention_heads=None), "differ"),
    "heads that are no number": (keys(decoder_attention_heads=[2]), "differ"),
    "no such function": (keys(activation_function="x"), "x"),
    "a token beyond": (keys(eos_token_id=10**6), "eos_token_id is"),
    "a token behind the last": (keys(pad_token_id=90), "pad_token_id is"),
    "a token before the first": (keys(pad_token_id=-1), "pad_token_id is"), "two ends": (
        keys(eos_token_id=[3, 4]), "eos_token_id is"), "a start that is missing": (
        without_a_start, "decoder_start_token_id"),
    "no JSON": (lambda f: (f / "config.json").write_text("{"), "cannot be read as JSON"),
    "deep JSON": (nested, "cannot be read as JSON"),
    "a list": (lambda f: (f / "config.json").write_text("[]"), "object"),
    "no configuration": (lambda f: (f / "config.json").unlink(), "missing"),
    "no tokenizer": (lambda f: (f / "tokenizer.json").unlink(), "missing"),
    "a damaged tokenizer": (lambda f: (f / "tokenizer.json").write_text('{"model": 3}'), "tokenizer"),
    "a tokenizer without pieces": (pieces({}), "vocabulary is damaged"),
    "a tokenizer without what it names": (pieces({"b": 0}, "<unk>"), "cannot be read"),
    "a tokenizer that knows no text": (pieces({"<unk>": 0}), "knows no text"),
    "an id far beyond": (pieces({"a": 0, "</s>": 2**24 - 1}), "below 65,540"),
    "a tokenizer that panics": (tokenizer(normalizer={"type": "Precompiled", "precompiled_charsmap": "AAAA"}), "Prec"),
    "a tokenizer that doubles a text forty times": (tokenizer(normalizer={"type": "Sequence", "normalizers": [
        {"type": "Replace", "pattern": {"String": "a"}, "content": "aa"}] * 40}), "100 times as long"),
    "ids of no piece": (tokenizer(post_processor={"type": "RobertaProcessing", "sep": ["x", 10**9], "cls": ["y", 10**9],
                                                  "trim_offsets": True, "add_prefix_space": True}), "of no piece"),
    "a tokenizer that has nothing for the unknown": (tokenizer(normalizer=None, pre_tokenizer=None, model={
        "type": "Unigram", "unk_id": None, "byte_fallback": False,
        "vocab": [[piece, 0.0] for piece in ("<pad>", "<unk>", "<s>", "</s>", "a", "b")]}), "unk_id"),
    "no model": (spoilt(b"\0" * 100), r"target\.spm"), "an empty model": (spoilt(b""), r"target\.spm"),
    "half of a character": (keys(unused="\ud800"), "surrogates"), "no number": (keys(unused=float("nan")), "JSON"),
    "a number beyond all": (lambda f: (f / "config.json").write_text('{"unused": 1e999}'), "JSON compliant"),
    "a tensor missing": (tensors(lambda t: t.pop(Q)), Q.split(".")[-2][:1] + "|tensors"),
    "a tensor too many": (tensors(lambda t: t.update(extra=torch.ones(2))), "no place"),
    "transposed": (tensors(lambda t: t.update({"model.encoder.layers.0.fc1.weight": t[
        "model.encoder.layers.0.fc1.weight"].T})), "tensors|shapes"),
    "not a number": (tensors(lambda t: t[Q].fill_(float("nan"))), "not finite"),
    "infinite": (tensors(lambda t: t[Q].fill_(float("inf"))), "not finite"),
    "beyond single precision": (tensors(lambda t: t.update({Q: t[Q].double() * 1e300})), "not finite"),
    "no embedding": (tensors(lambda t: t.pop("model.shared.weight")), "missing"),
    "a small embedding": (tensors(lambda t: t.update({"model.shared.weight": t["model.shared.weight"][:9]})), "pieces"),
    "an output of its own": (tensors(lambda t: t.update({"lm_head.weight": 2 * t["model.shared.weight"]})), "another"),
    "inputs of their own": (tensors(lambda t: t.update({"model.decoder.embed_tokens.weight": t[
        "model.shared.weight"].roll(1)})), "another matrix than model.shared.weight"),
    "whole numbers": (tensors(lambda t: t.update({Q: t[Q].long()})), "tensors|shapes")}


@pytest.mark.parametrize("name", DAMAGES)
def test_one_clear_error(name: str, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    damage, said = DAMAGES[name]
    damage(folder)
    with pytest.raises(UserError, match=said) as caught:
        import_run(folder, tmp_path / "run")
    assert len(str(caught.value)) < 1500
    assert not (tmp_path / "run").exists()
    assert not list(tmp_path.glob(".tmp-*"))
    assert main(["import", str(folder), "--out", str(tmp_path / "run")]) == caught.value.exit_code
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize("change", [keys(), keys(eos_token_id=[3]), keys(max_position_embeddings=None), lambda folder: (
    folder / "config.yaml").write_text("of somebody's trainer")], ids=["", "a list of one", "a null", "another file"])
def test_what_is_whole_is_imported(change: Callable[[Path], object], folder: Path, tmp_path: Path) -> None:
    change(folder)
    assert import_run(folder, tmp_path / "run").what == "MarianMTModel"


@pytest.mark.parametrize("named", [5, {"a": 1}, "MarianMTModel", [], None])
def test_what_is_said_of_the_architecture_decides_nothing(named: object, folder: Path, tmp_path: Path) -> None:
    keys(architectures=named)(folder)
    assert import_run(folder, tmp_path / "run").what == "marian"


def test_no_name_is_obeyed_by_a_terminal(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    keys(architectures=["Foo\x1b[31mBar\nx"])(folder)
    assert import_run(folder, tmp_path / "run").what == r"Foo\x1b[31mBar\nx"
    tensors(lambda t: t.update({"a\x1b[31m": torch.ones(2)}))(folder)
    assert main(["import", str(folder), "--out", str(tmp_path / "other")]) == 4
    assert r"a\x1b[31m among them" in capsys.readouterr().err


@pytest.mark.parametrize(("kind", "said"), [("Unigram", {"unk_token": ["a"]}), ("Unigram", {"unk_token": {}}), (
    "BPE", {"unk_id": [1]}), ("BPE", {"unk_id": -1}), ("BPE", {"unk_id": 3}), ("BPE", {"unk_id": True})])
def test_what_a_kind_of_tokenizer_does_not_read_names_no_unknown(kind: str, said: dict[str, Any],
                                                                 tmp_path: Path) -> None:
    vocabulary: Any = [["a", -1.0], ["b", -2.0], ["<unk>", 0.0]]
    model = {"type": kind, "unk_id": 2, "byte_fallback": False, "vocab": vocabulary} if kind == "Unigram" else {
        "type": kind, "vocab": {piece: i for i, (piece, _) in enumerate(vocabulary)}, "merges": []}
    (tmp_path / "tokenizer.json").write_text(json.dumps({"version": "1.0", "added_tokens": [], "model": model | said}))
    assert read_tokenizer(tmp_path, "bart").unknown == 2


def test_a_package_that_is_missing_is_no_damage(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(ConfigError, match="needs the package tokenizers"):
        import_run(folder, tmp_path / "run")


def test_what_the_way_back_needs_is_checked(folder: Path, tmp_path: Path) -> None:
    import_run(folder, tmp_path / "run")
    path = tmp_path / "run/imported/way.json"
    way = path.read_text()
    for wrong in ({"size": "90"}, {"size": 3}, {"size": None}, {"specials": 5}, {"specials": [0, 1, 2, 10**6]},
                  {"model": []}, {"model": {"depth": 3}}, {"tensors": 7}, {"tensors": ["x"]}, {"language": 10**6}):
        path.write_text(json.dumps(json.loads(way) | wrong))
        with pytest.raises(CheckpointError):
            export(tmp_path / "run", tmp_path / "again")
    for wrong, said in ({}, "size"), (json.loads(way) | {"size": 10**5}, "more than the 90 of the run"):
        path.write_text(json.dumps(wrong))
        with pytest.raises(CheckpointError, match=f"(?s)what the way back needs is damaged.*{said}"):
            export(tmp_path / "run", tmp_path / "again")
    path.write_text(way)
    save_file({"final_logits_bias": torch.ones(1, dtype=torch.int8)}, tmp_path / "run/imported/rounding.safetensors")
    with pytest.raises(CheckpointError, match=r"rounding\.safetensors"):
        export(tmp_path / "run", tmp_path / "again")
    shutil.rmtree(tmp_path / "run/imported")
    with pytest.raises(ConfigError, match=r"tokenizer\.kind imported"):
        export(tmp_path / "run", tmp_path / "again")
    assert not list(tmp_path.glob("*again"))


def test_no_folder(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="no such folder"):
        import_run(tmp_path / "nowhere", tmp_path / "run")


def test_nothing_is_replaced(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    with pytest.raises(UserError, match="something already"):
        import_run(folder, tmp_path / "run")


def test_a_run_is_no_model_of_theirs(random_run: Any, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="this is a run already"):
        import_run(random_run(), tmp_path / "again")
