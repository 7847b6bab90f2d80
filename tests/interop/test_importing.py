"""What transformers has computed, a run that was imported from it computes, and says, too."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from tests.interop.conftest import perturb, sentences

import pellucid
from pellucid.data.tokenizers.imported import TokenizersPieces
from pellucid.errors import CheckpointError, ConfigError, PellucidWarning
from pellucid.files import sha256
from pellucid.interop import ctranslate2 as to_ctranslate2
from pellucid.interop import importing
from pellucid.interop.families import FAMILIES, family_of
from pellucid.interop.foreign_tokenizer import read_tokenizer
from pellucid.interop.importing import import_run
from pellucid.interop.incoming import to_ours
from pellucid.interop.reading import Fields, read_config
from pellucid.runs.checkpoint import fill

transformers = pytest.importorskip("transformers")
tokenizers = pytest.importorskip("tokenizers")
transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()

BART = {"d_model": 16, "encoder_layers": 3, "decoder_layers": 2, "encoder_attention_heads": 2, "scale_embedding": False,
        "decoder_attention_heads": 2, "encoder_ffn_dim": 24, "decoder_ffn_dim": 24, "max_position_embeddings": 200}
MARIAN = BART | {"scale_embedding": True, "pad_token_id": 63, "eos_token_id": 0, "decoder_start_token_id": 63,
                 "forced_eos_token_id": None, "bad_words_ids": [[63]]}
T5 = {"d_model": 16, "d_kv": 8, "d_ff": 20, "num_layers": 3, "num_decoder_layers": 2, "num_heads": 2,
      "pad_token_id": 0, "eos_token_id": 1, "decoder_start_token_id": 0}
BERT = {"hidden_size": 16, "num_hidden_layers": 3, "num_attention_heads": 2, "intermediate_size": 24,
        "max_position_embeddings": 160, "num_labels": 3}
DISTILBERT = {"dim": 16, "n_layers": 3, "n_heads": 2, "hidden_dim": 24, "max_position_embeddings": 160, "num_labels": 3}
SEQ2SEQ: list[tuple[str, str, dict[str, Any]]] = [
    ("MarianMTModel", "MarianConfig", MARIAN | {"activation_function": "swish"}),
    ("MarianMTModel", "MarianConfig", MARIAN | {"activation_function": "relu", "scale_embedding": False}),
    ("BartForConditionalGeneration", "BartConfig", BART), ("BartForConditionalGeneration", "BartConfig", BART | {
        "scale_embedding": True, "activation_function": "gelu_new"}),
    ("T5ForConditionalGeneration", "T5Config", T5),
    ("T5ForConditionalGeneration", "T5Config", T5 | {"feed_forward_proj": "gated-gelu", "d_kv": 5}),
    ("MT5ForConditionalGeneration", "MT5Config", T5 | {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": True}),
    ("UMT5ForConditionalGeneration", "UMT5Config", T5 | {"feed_forward_proj": "gated-gelu"})]
CLASSIFIERS: list[tuple[str, str, dict[str, Any]]] = [
    ("BertForSequenceClassification", "BertConfig", BERT),
    ("RobertaForSequenceClassification", "RobertaConfig", BERT | {"layer_norm_eps": 1e-5, "pad_token_id": 1}),
    ("XLMRobertaForSequenceClassification", "XLMRobertaConfig", BERT | {"pad_token_id": 0}),
    ("DistilBertForSequenceClassification", "DistilBertConfig", DISTILBERT)]


def write_marian(folder: Path) -> int:
    """Two models of SentencePiece, and one vocabulary with their pieces, eos first and padding last."""
    import sentencepiece

    pieces = ["</s>", "<unk>", ">>fra<<"]
    for side, lines in (("source", sentences(300)), ("target", sentences(300, 4))):
        model = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(lines), model_writer=model, vocab_size=60,
                                                 model_type="unigram", minloglevel=2, num_threads=1)
        (folder / f"{side}.spm").write_bytes(model.getvalue())
        made = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
        pieces += [made.id_to_piece(i) for i in range(3, 60) if made.id_to_piece(i) not in pieces]
    pieces = [*pieces[:63], "<pad>"]
    (folder / "vocab.json").write_text(json.dumps({piece: i for i, piece in enumerate(pieces)}))
    (folder / "tokenizer_config.json").write_text(json.dumps({
        "tokenizer_class": "MarianTokenizer", "source_lang": "en", "target_lang": "fr"}))
    return len(pieces)


def write_tokenizer(folder: Path, kind: str) -> int:
    """A tokenizer.json of the kind that a class has."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

    specials = {"Bart": ["<s>", "<pad>", "</s>", "<unk>"], "T5": ["<pad>", "</s>", "<unk>"],
                "Bert": ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]}[kind]
    keys = {"vocab_size": 150, "special_tokens": specials, "show_progress": False}
    if kind == "Bart":
        made, trainer = Tokenizer(models.BPE()), trainers.BpeTrainer(
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), **keys | {"vocab_size": 330})
        made.pre_tokenizer, made.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    elif kind == "T5":
        made, trainer = Tokenizer(models.Unigram()), trainers.UnigramTrainer(unk_token="<unk>", **keys)
        made.pre_tokenizer, made.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
    else:
        made = Tokenizer(models.WordPiece(unk_token="[UNK]"))
        made.pre_tokenizer, trainer = pre_tokenizers.BertPreTokenizer(), trainers.WordPieceTrainer(**keys)
    made.train_from_iterator(sentences(300), trainer)
    ends = {"Bart": ("<s> $A </s>", ("<s>", "</s>")), "T5": ("$A </s>", ("</s>",)),
            "Bert": ("[CLS] $A [SEP]", ("[CLS]", "[SEP]"))}[kind]
    made.post_processor = processors.TemplateProcessing(single=ends[0], special_tokens=[
        (token, made.token_to_id(token)) for token in ends[1]])
    made.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({
        "tokenizer_class": "PreTrainedTokenizerFast", "pad_token": specials[0] if kind != "Bart" else "<pad>",
        "clean_up_tokenization_spaces": False}))
    return int(made.get_vocab_size())


Foreign = Callable[..., tuple[Path, Any]]


def write_foreign(folder: Path, kind: str, configuration: str, keys: dict[str, Any]) -> Any:
    """A model of theirs with random weights, as it is once it has been written."""
    family = "T5" if "T5" in kind else "Bart" if "Bart" in kind else "Bert"
    size = write_marian(folder) if "Marian" in kind else write_tokenizer(folder, family)
    made = getattr(transformers, kind)(getattr(transformers, configuration)(vocab_size=size, **keys)).eval()
    perturb(made)
    if hasattr(made, "final_logits_bias"):
        made.final_logits_bias.normal_(generator=torch.Generator().manual_seed(8))
    made.save_pretrained(folder)
    return getattr(transformers, kind).from_pretrained(folder).eval()


@pytest.fixture(scope="module")
def foreign(tmp_path_factory: pytest.TempPathFactory) -> Foreign:
    """A folder of theirs with random weights, and the model in it."""
    def make(kind: str, configuration: str, keys: dict[str, Any]) -> tuple[Path, Any]:
        folder = tmp_path_factory.mktemp("theirs")
        return folder, write_foreign(folder, kind, configuration, keys)

    return make


def same_positions(theirs: Any, ours: Any) -> None:
    """Marian's sinusoids are those of our rounding, so that nothing else is compared."""
    order = torch.cat([torch.arange(0, 16, 2), torch.arange(1, 16, 2)])
    for name in ("encoder", "decoder"):
        table = getattr(theirs.model, name).embed_positions.weight
        table.data = getattr(ours, name).position.table(torch.arange(len(table)))[:, order].to(table.dtype)


@pytest.fixture
def in_double(monkeypatch: pytest.MonkeyPatch) -> None:
    """transformers computes norms and softmax of T5 in float32, whatever comes in; here it does not."""
    to = torch.Tensor.to
    monkeypatch.setattr(torch.Tensor, "float", torch.Tensor.double)
    monkeypatch.setattr(torch.Tensor, "to", lambda self, *a, **k: to(
        self, *(torch.float64 if each is torch.float32 else each for each in a), **k))


@pytest.mark.parametrize(("kind", "configuration", "keys"), SEQ2SEQ, ids=[f"{k} {len(str(c))}" for k, _, c in SEQ2SEQ])
def test_logits_are_the_same_in_double(kind: str, configuration: str, keys: dict[str, Any], foreign: Foreign,
                                       tmp_path: Path, in_double: None) -> None:
    folder, theirs = foreign(kind, configuration, keys)
    import_run(folder, tmp_path / "run")
    run, theirs = pellucid.load(tmp_path / "run"), theirs.double()
    fields = Fields(read_config(folder), folder / "config.json")
    rows = importing._rows(fields, family_of(fields)[1], read_tokenizer(folder, str(fields.values["model_type"])),
                           len(theirs.get_input_embeddings().weight), None)
    model = run.model.double()
    fill(model, to_ours(fields, theirs.state_dict(), run.config.model, rows))  # what the file has rounded is not now
    if "Marian" in kind:
        same_positions(theirs, model)
    kept = [i for i, row in enumerate(rows.order) if i > 3 and row is not None]
    source, target = (torch.randint(len(kept), shape) for shape in ((3, 150), (3, 140)))
    ids, real = torch.tensor(kept), torch.ones(3, 150, dtype=torch.bool)
    real[0, 100:] = False
    there = torch.tensor([-1 if row is None else row for row in rows.order])
    mine = torch.cat([torch.full((3, 1), 2), ids[target]], 1)
    with torch.no_grad():
        wanted = theirs(input_ids=there[ids[source]], attention_mask=real.long(), decoder_input_ids=there[mine]).logits
        found = model(ids[source], mine, real)
    torch.testing.assert_close(found[..., kept], wanted[..., there[ids]], rtol=0, atol=1e-9)


@pytest.mark.parametrize(("kind", "configuration", "keys"), SEQ2SEQ, ids=[f"{k} {len(str(c))}" for k, _, c in SEQ2SEQ])
def test_a_translator_is_the_same(kind: str, configuration: str, keys: dict[str, Any], foreign: Foreign,
                                  tmp_path: Path) -> None:
    folder, theirs = foreign(kind, configuration, keys)
    done = import_run(folder, tmp_path / "run")
    assert done.what == kind
    run = pellucid.load(tmp_path / "run")
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    texts = sentences(100, 2)
    if "Marian" in kind:
        same_positions(theirs, run.model)
        texts = [f">>fra<< {text}" if i % 3 == 0 else text for i, text in enumerate(texts)]
    batch = tokenizer(texts, return_tensors="pt", padding=True, return_token_type_ids=False)
    start = theirs.config.decoder_start_token_id
    generated = theirs.generate(**batch, num_beams=1, max_new_tokens=12, do_sample=False, forced_bos_token_id=None,
                                forced_eos_token_id=None, suppress_tokens=sorted({start, theirs.config.pad_token_id}
                                - {theirs.config.eos_token_id}), no_repeat_ngram_size=0, min_length=0)
    options = pellucid.config.DecodeConfig(beam_size=1, max_length=12, precision="fp32")
    said = [list(one.tokens) for one in run.generate(texts, options=options)]
    expected = [[tokenizer.convert_ids_to_tokens(int(i)) for i in until(row[1:], theirs.config)] for row in generated]
    assert said == expected


@pytest.mark.parametrize("case", [SEQ2SEQ[4], SEQ2SEQ[7], (*SEQ2SEQ[4][:2], T5 | {"tie_word_embeddings": False})],
                         ids=["T5", "UMT5", "T5 1.1"])
def test_an_output_projection_of_its_own_is_read(case: tuple[str, str, dict[str, Any]], foreign: Foreign,
                                                 tmp_path: Path) -> None:
    """And what of it is divided by √D there."""
    folder, theirs = foreign(*case)
    found = safetensors.torch.load_file(folder / "model.safetensors")
    found["lm_head.weight"] = torch.randn(found["shared.weight"].shape, generator=torch.Generator().manual_seed(9))
    safetensors.torch.save_file(found, folder / "model.safetensors", {"format": "pt"})
    theirs = type(theirs).from_pretrained(folder).eval()
    import_run(folder, tmp_path / "run")
    run = pellucid.load(tmp_path / "run")
    (text, *_), tokenizer = sentences(1, 2), transformers.AutoTokenizer.from_pretrained(folder)
    ids = tokenizer(text, return_tensors="pt", return_token_type_ids=False).input_ids
    with torch.no_grad():
        wanted = theirs(input_ids=ids, decoder_input_ids=torch.tensor([[0, *ids[0][:-1]]])).logits.log_softmax(-1)
    (scored,) = run.score([text], [text])
    expected = [float(row[i]) for row, i in zip(wanted[0], ids[0], strict=True)]
    assert list(scored.token_log_probabilities) == pytest.approx(expected, abs=2e-2)


@pytest.mark.parametrize(("kind", "configuration", "keys"), SEQ2SEQ[:3], ids=[k for k, _, _ in SEQ2SEQ[:3]])
def test_its_search_comes_along(kind: str, configuration: str, keys: dict[str, Any], foreign: Foreign,
                                tmp_path: Path) -> None:
    folder, theirs = foreign(kind, configuration, keys)
    search = {"max_length": 13, "min_length": 9, "no_repeat_ngram_size": 2}
    more = {"num_beams": 4, "length_penalty": 2.0, "repetition_penalty": 1.2, "do_sample": False,
            "eos_token_id": [5, 6], "early_stopping": True}
    (folder / "generation_config.json").write_text(json.dumps(search | more))
    notes = import_run(folder, tmp_path / "run").notes
    told = "repetition_penalty 1.2, eos_token_id [5, 6], length_penalty 2.0, early_stopping true, which"
    assert any(told in note for note in notes)
    run = pellucid.load(tmp_path / "run")
    decode = run.config.decode
    assert (decode.max_length, decode.min_length, decode.no_repeat_ngram, decode.beam_size) == (12, 8, 2, 4)
    if "Marian" in kind:
        same_positions(theirs, run.model)
    texts, config = sentences(60, 2), theirs.config
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    batch = tokenizer(texts, return_tensors="pt", padding=True, return_token_type_ids=False)
    silent = sorted({config.decoder_start_token_id, config.pad_token_id} - {config.eos_token_id})
    generated = theirs.generate(**batch, num_beams=1, do_sample=False, forced_bos_token_id=None,
                                forced_eos_token_id=None, suppress_tokens=silent, **search)
    options = replace(decode, beam_size=1, precision="fp32")
    said = [list(one.tokens) for one in run.generate(texts, options=options)]
    assert said == [[tokenizer.convert_ids_to_tokens(int(i)) for i in until(row[1:], config)] for row in generated]
    assert min(map(len, said)) >= 8


@pytest.mark.parametrize("name", ["generation_config.json", "config.json"])
def test_its_search_stands_in_one_of_two_files(name: str, foreign: Foreign, tmp_path: Path) -> None:
    folder, _ = foreign(*SEQ2SEQ[0])
    if name == "config.json":
        (folder / "generation_config.json").unlink()
    told = json.loads((folder / name).read_text())
    more = {"num_beams": 3, "length_penalty": 0, "max_new_tokens": 9, "min_new_tokens": 4}
    (folder / name).write_text(json.dumps(told | more | {"bad_words_ids": [[63]], "suppress_tokens": [63]}))
    assert not any("left out" in note for note in import_run(folder, tmp_path / "run").notes)  # 63 is the padding
    decode = pellucid.load(tmp_path / "run").config.decode
    assert (decode.beam_size, decode.max_length, decode.min_length) == (3, 9, 4)
    (folder / name).write_text(json.dumps(told | {"bad_words_ids": [[63], [7]], "suppress_tokens": [8]}))
    notes = import_run(folder, tmp_path / "other").notes
    assert any("for bad_words_ids [[7]], suppress_tokens [8], which" in note for note in notes)


def test_an_output_starts_as_its_search_says(foreign: Foreign, tmp_path: Path) -> None:
    folder, theirs = foreign(*SEQ2SEQ[4])
    (folder / "generation_config.json").write_text(json.dumps({"decoder_start_token_id": 1}))
    import_run(folder, tmp_path / "run")
    texts, tokenizer = sentences(20, 2), transformers.AutoTokenizer.from_pretrained(folder)
    generated = theirs.generate(**tokenizer(texts, return_tensors="pt", padding=True, return_token_type_ids=False),
                                max_new_tokens=8, decoder_start_token_id=1, suppress_tokens=[0])
    options = pellucid.config.DecodeConfig(beam_size=1, max_length=8, precision="fp32")
    said = [list(one.tokens) for one in pellucid.load(tmp_path / "run").generate(texts, options=options)]
    assert said == [[tokenizer.convert_ids_to_tokens(int(i)) for i in until(row[1:], theirs.config)]
                    for row in generated]


def test_a_piece_that_is_spelled_as_our_start_is_another_one_for_ctranslate2(foreign: Foreign, tmp_path: Path) -> None:
    """BART starts an output with its </s>, and <s> stands before every text."""
    ctranslate2 = pytest.importorskip("ctranslate2")
    import_run(foreign(*SEQ2SEQ[2])[0], tmp_path / "run")
    to_ctranslate2.export(tmp_path / "run", tmp_path / "out")
    run, texts = pellucid.load(tmp_path / "run"), sentences(20, 2)
    source = run.tokenizers.source
    pieces = [source.pieces(source.encode(text)) for text in texts]
    assert all(row[0] == "<s>" for row in pieces)
    theirs = ctranslate2.Translator(str(tmp_path / "out"), intra_threads=1, compute_type="float32")
    for row, scored in zip(theirs.score_batch(pieces, pieces[::-1]), run.score(texts, texts[::-1]), strict=True):
        torch.testing.assert_close(torch.tensor(row.log_probs), torch.tensor(scored.token_log_probabilities), rtol=0,
                                   atol=3e-4)


def until(ids: torch.Tensor, config: Any) -> list[int]:
    """Ids before the end."""
    kept = []
    for i in ids.tolist():
        if i == config.eos_token_id:
            break
        kept.append(i)
    return kept


@pytest.mark.parametrize(("kind", "configuration", "keys"), CLASSIFIERS, ids=[kind for kind, _, _ in CLASSIFIERS])
def test_a_classifier_is_the_same(kind: str, configuration: str, keys: dict[str, Any], foreign: Foreign,
                                  tmp_path: Path) -> None:
    folder, theirs = foreign(kind, configuration, keys)
    import_run(folder, tmp_path / "run")
    run = pellucid.load(tmp_path / "run")
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    texts = [*sentences(50, 2), " ".join(sentences(12, 3))[:300]]
    for text, found in zip(texts, run.classify(texts), strict=True):
        with torch.no_grad():
            batch = tokenizer(text, return_tensors="pt", return_token_type_ids=False)
            wanted = theirs(**batch).logits.softmax(-1)[0]
        torch.testing.assert_close(torch.tensor(list(found.probabilities.values())), wanted, rtol=0, atol=2e-6)


@pytest.mark.parametrize(("kind", "configuration", "keys"), CLASSIFIERS, ids=[kind for kind, _, _ in CLASSIFIERS])
def test_a_text_that_is_too_long_to_classify_is_cut_as_theirs(kind: str, configuration: str, keys: dict[str, Any],
                                                              foreign: Foreign, tmp_path: Path) -> None:
    """Before its end, which stays."""
    folder, theirs = foreign(kind, configuration, keys)
    import_run(folder, tmp_path / "run")
    run, text = pellucid.load(tmp_path / "run"), " ".join(sentences(60, 3))
    with pytest.warns(PellucidWarning, match="line 1 loses "):
        (found,) = run.classify([text])
    batch = transformers.AutoTokenizer.from_pretrained(folder)(
        text, return_tensors="pt", return_token_type_ids=False, truncation=True, max_length=run.config.model.max_length)
    with torch.no_grad():
        wanted = theirs(**batch).logits.softmax(-1)[0]
    torch.testing.assert_close(torch.tensor(list(found.probabilities.values())), wanted, rtol=0, atol=2e-6)


@pytest.mark.parametrize("kind", FAMILIES)
def test_what_a_config_leaves_out_is_what_transformers_takes_for_it(kind: str, tmp_path: Path) -> None:
    """Only sizes have no default here: a file that leaves out one of those is a broken one."""
    theirs, family = transformers.AutoConfig.for_model(kind), FAMILIES[kind]
    told = theirs.to_dict() | {"model_type": kind}
    bare = {key: value for key, value in told.items() if key == "model_type" or key in (
        *BART.keys() - {"scale_embedding", "max_position_embeddings"}, "d_ff", "num_heads", "num_layers", "dim",
        "n_layers", "n_heads", "hidden_dim", "hidden_size", "num_hidden_layers", "num_attention_heads",
        "intermediate_size")}
    left_out, named = (family.model(Fields(values, tmp_path / "config.json")) for values in (bare, told))
    assert left_out == named
    assert family.pad == theirs.pad_token_id
    if not family.is_classifier:
        assert family.end == theirs.eos_token_id
        assert kind in ("t5", "mbart") or family.start == theirs.decoder_start_token_id  # those two have no default


@pytest.mark.parametrize(("kind", "key", "value"), [
    ("marian", "normalize_before", True), ("marian", "normalize_embedding", True),
    ("marian", "share_encoder_decoder_embeddings", False), ("m2m_100", "max_position_embeddings", 2**16 + 1),
    ("bart", "encoder_ffn_dim", 8), ("blenderbot", "encoder_attention_heads", 1), ("roberta", "is_decoder", True),
    ("t5", "relative_attention_num_buckets", 16), ("umt5", "relative_attention_max_distance", 64),
    ("xlm-roberta", "position_embedding_type", "relative_key"), ("distilbert", "sinusoidal_pos_embds", True)])
def test_what_has_no_counterpart_is_refused_whatever_the_weights_are(kind: str, key: str, value: object,
                                                                     tmp_path: Path) -> None:
    """Their names and shapes would all fit, and another function be computed."""
    told = transformers.AutoConfig.for_model(kind).to_dict() | {"model_type": kind, key: value}
    with pytest.raises(CheckpointError, match=r"normalises where|share_encoder|differ|\b(at most|it must be|false)\b"):
        FAMILIES[kind].model(Fields(told, tmp_path / "config.json"))


@pytest.mark.parametrize("case", [SEQ2SEQ[2], CLASSIFIERS[0]], ids=lambda case: str(case[0]))
def test_special_tokens_that_a_config_does_not_name_are_those_of_its_class(case: tuple[str, str, dict[str, Any]],
                                                                           foreign: Foreign, tmp_path: Path) -> None:
    folder, _ = foreign(*case)
    told = json.loads((folder / "config.json").read_text())
    import_run(folder, tmp_path / "run")
    (folder / "generation_config.json").unlink(missing_ok=True)
    left_out = ("pad_token_id", "eos_token_id", "decoder_start_token_id")
    (folder / "config.json").write_text(json.dumps({k: told[k] for k in told if k not in left_out}))
    import_run(folder, tmp_path / "bare")
    for name in ("checkpoints/step-00000000/model.safetensors", "tokenizer/manifest.json"):
        assert (tmp_path / "bare" / name).read_bytes() == (tmp_path / "run" / name).read_bytes()


def test_several_classes_of_one_text_are_refused(foreign: Foreign, tmp_path: Path) -> None:
    folder, _ = foreign("BertForSequenceClassification", "BertConfig", BERT | {
        "problem_type": "multi_label_classification"})
    with pytest.raises(CheckpointError, match="problem_type is 'multi_label_classification'"):
        import_run(folder, tmp_path / "run")


@pytest.mark.parametrize(("kind", "configuration", "keys"), [
    ("BertForTokenClassification", "BertConfig", BERT), ("BertForMaskedLM", "BertConfig", BERT),
    ("BartForSequenceClassification", "BartConfig", BART)], ids=lambda each: each if isinstance(each, str) else "")
def test_another_class_of_a_known_family_is_named(kind: str, configuration: str, keys: dict[str, Any], foreign: Foreign,
                                                  tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=f"this is {kind}; import a model that translates"):
        import_run(foreign(kind, configuration, keys)[0], tmp_path / "run")


def test_what_would_change_nothing_of_a_classifier_or_all_is_refused(foreign: Foreign, tmp_path: Path) -> None:
    folder, _ = foreign(*CLASSIFIERS[0])
    with pytest.raises(ConfigError, match="translates from no language"):
        import_run(folder, tmp_path / "run", "en-fr")
    told = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(told | {"is_decoder": True}))
    with pytest.raises(CheckpointError, match="is_decoder is 'True'"):  # each token would see those before it alone
        import_run(folder, tmp_path / "run")


def test_a_folder_that_is_given_without_its_name_has_one(foreign: Foreign, tmp_path: Path,
                                                         monkeypatch: pytest.MonkeyPatch) -> None:
    folder, _ = foreign(*CLASSIFIERS[0])
    monkeypatch.chdir(folder)
    import_run(Path(), tmp_path / "run")
    assert json.loads((tmp_path / "run" / "imported.json").read_text())["from"] == folder.name


@pytest.mark.parametrize(("told", "asked", "given"), [
    ({"source_lang": "en", "target_lang": "fr"}, None, ("en", "fr")),
    ({"source_lang": "en", "target_lang": "fr"}, "de-nl", ("de", "nl")),
    ({"source_lang": "en", "target_lang": "ROMANCE"}, None, (None, None)),
    ({"source_lang": "en", "target_lang": None}, None, (None, None)), ({}, None, (None, None))])
def test_the_languages_of_a_marian_are_those_of_the_run(foreign: Foreign, tmp_path: Path, told: dict[str, Any],
                                                        asked: str | None, given: tuple[str | None, ...]) -> None:
    folder, _ = foreign(*SEQ2SEQ[0])
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "MarianTokenizer", **told}))
    import_run(folder, tmp_path / "run", asked)
    data = pellucid.load(tmp_path / "run").config.data
    assert (data.source_language, data.target_language) == given


@pytest.mark.parametrize("size", ["50KB", "1GB"])
def test_the_files_that_were_read_are_remembered_and_no_others(foreign: Foreign, tmp_path: Path, size: str) -> None:
    folder, theirs = foreign(*SEQ2SEQ[0])
    (folder / "model.safetensors").unlink()
    theirs.save_pretrained(folder, max_shard_size=size)
    wanted = {path.name: sha256(path) for path in folder.iterdir() if path.is_file()}
    assert len([name for name in wanted if name.endswith(".safetensors")]) == 1 or size == "50KB"
    for name in ("pytorch_model.bin", "README.md", "flax_model.msgpack"):
        (folder / name).write_text("of no use here")
    import_run(folder, tmp_path / "run")
    assert json.loads((tmp_path / "run" / "imported.json").read_text())["files"] == wanted


@pytest.mark.parametrize(("case", "told"), [(SEQ2SEQ[4], "<mask> <hl> and 1 more"), (CLASSIFIERS[0], "<hl> <sep>")])
def test_what_a_text_spells_in_vain_is_told(case: tuple[str, str, dict[str, Any]], told: str, foreign: Foreign,
                                            tmp_path: Path) -> None:
    """transformers makes a special token of it, which a fine-tuned model may wait for."""
    folder, _ = foreign(*case)
    path = folder / "tokenizer.json"
    assert not any("special" in note for note in import_run(folder, tmp_path / "plain").notes)
    made = tokenizers.Tokenizer.from_file(str(path))
    made.add_special_tokens(["<mask>", "<hl>", "<sep>"])
    made.save(str(path))
    before = json.loads((folder / "config.json").read_text())["vocab_size"]
    assert made.get_vocab_size() == before + 3
    widened(folder, 3)
    (note,) = (note for note in import_run(folder, tmp_path / "run").notes if "special" in note)
    assert note == f"a text that spells a special token has none, and is plain text: {told}"
    source = pellucid.load(tmp_path / "run").tokenizers.source
    assert "<hl>" not in source.pieces(source.encode("the <hl> cat"))


def widened(folder: Path, count: int) -> None:
    """The embedding gets so many more rows."""
    found = safetensors.torch.load_file(folder / "model.safetensors")
    for name, tensor in found.items():
        if name.endswith(("shared.weight", "word_embeddings.weight", "lm_head.weight")):
            found[name] = torch.cat([tensor, tensor[:count]])
    safetensors.torch.save_file(found, folder / "model.safetensors")


def test_how_a_tokenizer_pads_and_cuts_a_batch_says_nothing_of_a_text(foreign: Foreign, tmp_path: Path) -> None:
    """As whoever fine-tuned it left it."""
    folder, _ = foreign(*CLASSIFIERS[0])
    plain = read_tokenizer(folder, "bert")
    made = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    made.enable_padding(length=64)
    made.enable_truncation(2)
    made.save(str(folder / "tokenizer.json"))
    found = read_tokenizer(folder, "bert")
    assert (found.before, found.after) == (plain.before, plain.after) == ([2], [3])


@pytest.mark.parametrize("told", [{"do_lower_case": False}, {"do_lower_case": True, "strip_accents": False}, {}, {
    "tokenizer_class": "BertTokenizerFast", "tokenize_chinese_chars": False}, {
    "tokenizer_class": "PreTrainedTokenizerFast", "do_lower_case": True}], ids=str)
@pytest.mark.parametrize("lowercase", [True, False])
def test_a_bert_is_asked_elsewhere_how_it_normalises(lowercase: bool, told: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    write_tokenizer(tmp_path, "Bert")
    made = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    made.normalizer = tokenizers.normalizers.BertNormalizer(lowercase=lowercase)
    made.save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(told))
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    ours = TokenizersPieces(read_tokenizer(tmp_path, "bert").backends[0]).tokenizer
    for text in ("The cat SEES a small dog", "été Straße naïve", "the全cat"):
        assert ours.encode(text).ids == theirs(text).input_ids


@pytest.mark.parametrize("told", [{}, {"add_prefix_space": True}, {"add_prefix_space": False}], ids=str)
@pytest.mark.parametrize("kind", ["roberta", "bart", "blenderbot"])
def test_whether_a_space_comes_before_a_text_stands_elsewhere_too(kind: str, told: dict[str, Any],
                                                                  tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": kind}))
    write_tokenizer(tmp_path, "Bart")
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(told))
    made = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    for is_spaced in (True, False):
        made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=is_spaced)
        made.save(str(tmp_path / "tokenizer.json"))
        theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
        ours = TokenizersPieces(read_tokenizer(tmp_path, kind).backends[0]).tokenizer
        assert ours.encode("the cat").ids == theirs("the cat").input_ids


def test_a_tokenizer_that_knows_no_latin_says_what_it_puts_around_a_text(tmp_path: Path) -> None:
    made = tokenizers.Tokenizer(tokenizers.models.BPE({"<s>": 0, "</s>": 1, "я": 2}, []))
    made.add_special_tokens(["<s>", "</s>"])
    made.post_processor = tokenizers.processors.TemplateProcessing(
        "<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 1)])
    made.save(str(tmp_path / "tokenizer.json"))
    found = read_tokenizer(tmp_path, "bart")
    assert (found.before, found.after) == ([0], [1])
