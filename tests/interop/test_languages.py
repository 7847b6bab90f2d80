"""Models of many languages: what transformers says with a language's token given, an imported run says, too."""

from __future__ import annotations

import io
import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.interop.conftest import perturb, sentences

import pellucid
from pellucid.cli import main
from pellucid.config import DecodeConfig
from pellucid.errors import ConfigError
from pellucid.interop import ctranslate2
from pellucid.interop.importing import import_run
from pellucid.serve.catalogue import open_catalogue

transformers = pytest.importorskip("transformers")
pytest.importorskip("tokenizers")
transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()

SIZES = {"d_model": 16, "encoder_layers": 3, "decoder_layers": 2, "encoder_attention_heads": 2, "forced_eos_token_id":
         None, "decoder_attention_heads": 2, "encoder_ffn_dim": 24, "decoder_ffn_dim": 24, "scale_embedding": True,
         "max_position_embeddings": 1000}
# A tokenizer, its model, its languages, and what else its configuration says.
KINDS: dict[str, tuple[str, str, tuple[str, str], dict[str, Any]]] = {
    "mBART-50": ("MBart50Tokenizer", "MBart", ("en_XX", "fr_XX"), {"decoder_start_token_id": 2}),
    "mBART-50, unscaled": ("MBart50Tokenizer", "MBart", ("en_XX", "fr_XX"), {
        "decoder_start_token_id": 2, "scale_embedding": False}),
    "mBART-cc25": ("MBartTokenizer", "MBart", ("en_XX", "ro_RO"), {}),
    "M2M100": ("M2M100Tokenizer", "M2M100", ("en", "fr"), {}),
    "NLLB": ("NllbTokenizer", "M2M100", ("eng_Latn", "fra_Latn"), {}),
    "NLLB, older": ("NllbTokenizer", "M2M100", ("eng_Latn", "fra_Latn"), {"activation_function": "gelu"})}


def tokenizer_of(kind: str, folder: Path) -> Any:
    """A tokenizer of theirs, trained on some lines."""
    name, _, (source, target), _ = KINDS[kind]
    made, languages = getattr(transformers, name), {"src_lang": source, "tgt_lang": target}
    if name == "M2M100Tokenizer":
        import sentencepiece

        model = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(sentences(300)), model_writer=model,
                                                 vocab_size=60, minloglevel=2, num_threads=1)
        (folder / "sentencepiece.bpe.model").write_bytes(model.getvalue())
        pieces = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
        names = ["<s>", "<pad>", "</s>", "<unk>", *(pieces.id_to_piece(i) for i in range(3, 60))]
        (folder / "vocab.json").write_text(json.dumps({piece: i for i, piece in enumerate(names)}))
        tokenizer = made(str(folder / "vocab.json"), str(folder / "sentencepiece.bpe.model"), **languages)
    else:
        from tokenizers import Tokenizer, models, pre_tokenizers, trainers

        bare, keys = Tokenizer(models.BPE() if "Nllb" in name else models.Unigram()), {
            "special_tokens": ["<s>", "<pad>", "</s>", "<unk>"], "vocab_size": 120, "show_progress": False}
        bare.pre_tokenizer = pre_tokenizers.Metaspace()
        bare.train_from_iterator(sentences(300), trainers.BpeTrainer(**keys) if "Nllb" in name else
                                 trainers.UnigramTrainer(unk_token="<unk>", **keys))
        model = json.loads(bare.to_str())["model"]
        if "Nllb" in name:
            tokenizer = made(model["vocab"], [tuple(pair) for pair in model["merges"]], **languages,
                             legacy_behaviour="older" in kind)
        elif "50" in name:  # which counts SentencePiece's three special ones away
            tokenizer = made([["<unk>", 0.0], ["<s>", 0.0], ["</s>", 0.0], *model["vocab"][4:]], **languages)
        else:
            codes = ["en_XX", "ro_RO", "<mask>"]
            tokenizer = made([*map(tuple, model["vocab"]), *((code, 0.0) for code in codes)], **languages)
    tokenizer.save_pretrained(folder)
    return tokenizer


Made = tuple[Path, Any, Any]


def write_foreign(folder: Path, kind: str) -> tuple[Any, Any]:
    """A model of theirs with random weights as it is once it has been written, behind its tokenizer."""
    (_, name, _, keys), tokenizer = KINDS[kind], tokenizer_of(kind, folder)
    size = 8 + max(tokenizer.get_vocab().values() if name == "MBart" or "NLLB" in kind else
                   tokenizer.lang_code_to_id.values())
    made = getattr(transformers, f"{name}ForConditionalGeneration")(
        getattr(transformers, f"{name}Config")(**SIZES | keys, vocab_size=size)).eval()
    perturb(made)
    if hasattr(made, "final_logits_bias"):
        made.final_logits_bias.normal_(generator=torch.Generator().manual_seed(8))
    made.save_pretrained(folder)
    return tokenizer, type(made).from_pretrained(folder).eval()


@pytest.fixture(scope="module", params=KINDS)
def foreign(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Made:
    """A folder of theirs with random weights, its tokenizer and its model."""
    folder = tmp_path_factory.mktemp("theirs")
    return folder, *write_foreign(folder, request.param)


@pytest.fixture
def run(foreign: Made, tmp_path: Path) -> pellucid.Run:
    import_run(foreign[0], tmp_path / "run")
    return pellucid.load(tmp_path / "run")


def language(tokenizer: Any) -> int:
    """The id of the target's token."""
    lang = tokenizer.tgt_lang
    return int(tokenizer.get_lang_id(lang) if hasattr(tokenizer, "get_lang_id") else
               tokenizer.convert_tokens_to_ids(lang))


def by_their_ids(run: pellucid.Run, tokenizer: Any, there: Any) -> torch.Tensor:
    """Our ids as theirs."""
    pieces = run.tokenizers.target.pieces(range(run.tokenizers.target.size))
    named = [int(piece[8:-1]) if piece.startswith("<unused ") else tokenizer.convert_tokens_to_ids(piece)
             for piece in pieces]
    start = language(tokenizer) if type(tokenizer).__name__ == "MBartTokenizer" else there.config.eos_token_id
    return torch.tensor([1, 3, start, 2, *named[4:]])


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_logits_are_the_same(foreign: Made, run: pellucid.Run, dtype: torch.dtype) -> None:
    _, tokenizer, theirs = foreign
    there, words = by_their_ids(run, tokenizer, theirs), " ".join(sentences(90, 5)).split()
    texts = [" ".join(words[:count]) for count in (140, 40, 1)]
    theirs, model = theirs.to(dtype), run.model.to(dtype)
    batch = tokenizer(texts, return_tensors="pt", padding=True)
    sources = [[*run.tokenizers.source.encode(text), 3] for text in texts]
    assert max(map(len, sources)) > 128
    ids = torch.nn.utils.rnn.pad_sequence([torch.tensor(row) for row in sources], batch_first=True)
    first = list(run.tokenizers.target.forced)
    target = torch.tensor([[2, *first, *sources[0][5:100]]] * 3)
    with torch.no_grad():
        wanted = theirs(**batch, decoder_input_ids=there[target]).logits
        found = model(ids, target, ids != 0)
    tolerance = 1e-9 if dtype is torch.float64 else 1e-5 * float(wanted.abs().max())
    torch.testing.assert_close(found[..., 3:], wanted[..., there[3:]], rtol=0, atol=tolerance)
    theirs.float()


@pytest.mark.parametrize("beam", [1, 4])
def test_the_same_is_said(foreign: Made, run: pellucid.Run, beam: int) -> None:
    _, tokenizer, theirs = foreign
    texts, is_older = sentences(200, 2), type(tokenizer).__name__ == "MBartTokenizer"
    lang, there = language(tokenizer), by_their_ids(run, tokenizer, theirs)
    generated = theirs.generate(
        **tokenizer(texts, return_tensors="pt", padding=True), num_beams=beam, max_new_tokens=12, do_sample=False,
        early_stopping="never" if beam > 1 else False, length_penalty=0.0, suppress_tokens=[1, int(there[2])] if
        is_older else [1], decoder_start_token_id=lang if is_older else 2, forced_eos_token_id=None,
        **({} if is_older else {"forced_bos_token_id": lang}))
    options = DecodeConfig(beam_size=beam, max_length=12, length_penalty=0.0, precision="fp32")
    found = run.generate(texts, options=options)
    expected = [row[1:].tolist() for row in generated]
    expected = [row[:row.index(2)] if 2 in row else row for row in expected]
    for one, row in zip(found, expected, strict=True):
        ids = [run.tokenizers.target.pieces(range(len(there))).index(piece) for piece in one.tokens]
        assert there[ids].tolist()[:len(row)] == row
    texts = [tokenizer.decode(row, skip_special_tokens=True).strip() for row in expected]
    if type(tokenizer).__name__ == "M2M100Tokenizer":  # whose languages a trained one's folder calls special
        texts = [re.sub(r"__[a-z]{2,3}__", "", text).strip() for text in texts]
    assert [one.text.strip() for one in found if "<unused" not in one.text] == [
        text for one, text in zip(found, texts, strict=True) if "<unused" not in one.text]


def test_the_fast_decoder_knows_it(foreign: Made, run: pellucid.Run) -> None:
    if run.config.model.tie_embeddings:
        assert run.route().decoder in ("engine", "kept engine")
    texts, options = sentences(20, 3), replace(run.config.decode, beam_size=3, max_length=10, precision="fp32")
    fast = run.generate(texts, options=options)
    plain = run.generate(texts, options=replace(options, no_repeat_ngram=30))  # by steps
    assert [one.tokens for one in fast] == [one.tokens for one in plain]
    assert all(run.tokenizers.target.encode("")[:1] == list(run.tokenizers.target.forced) for _ in texts)
    scored = run.score(texts, [one.text for one in fast])
    begun = run.tokenizers.target.pieces(run.tokenizers.target.forced)
    assert all(list(one.tokens[:len(begun)]) == begun for one in scored)
    given = run.generate(texts, prefixes=["the cat"] * 20, options=options)
    assert all(one.text.startswith("the cat") for one in given)


def test_a_pair_is_chosen_at_import(foreign: Made, tmp_path: Path) -> None:
    folder, tokenizer, _ = foreign
    if "en_XX" in tokenizer.get_vocab():
        import_run(folder, tmp_path / "run", "ro-en" if "ro_RO" in tokenizer.get_vocab() else "en-fr")
    elif "eng_Latn" in tokenizer.get_vocab():
        import_run(folder, tmp_path / "run", "fra_Latn-eng")
    else:
        import_run(folder, tmp_path / "run", "fr-en")
    data = pellucid.load(tmp_path / "run").config.data
    assert (data.source_language, data.target_language) in (("ro", "en"), ("en", "fr"), ("fr", "en"),
                                                            ("fra-Latn", "eng-Latn"))
    for wrong in ("xx-fr", "en", "en-", "en-fr-de"):
        with pytest.raises(ConfigError, match="language"):
            import_run(folder, tmp_path / "other", wrong)
    assert not (tmp_path / "other").exists()


def test_where_no_pair_is_named_one_must_be_given(foreign: Made, tmp_path: Path) -> None:
    place = tmp_path / "copy"
    shutil.copytree(foreign[0], place)
    told = json.loads((place / "tokenizer_config.json").read_text())
    (place / "tokenizer_config.json").write_text(json.dumps(told | {"tgt_lang": None}))
    with pytest.raises(ConfigError, match="none is chosen") as caught:
        import_run(place, tmp_path / "run")
    assert str(caught.value.where) == "--languages"
    assert "en-fr" in str(caught.value.fix)


@pytest.mark.parametrize(("foreign", "named"), [("mBART-50", "MBart50Tokenizer"), ("mBART-cc25", "MBartTokenizer"),
                                                ("mBART-cc25", None)], indirect=["foreign"])
def test_a_class_of_tokenizer_may_stand_in_the_other_file_or_nowhere(foreign: Made, run: pellucid.Run, tmp_path: Path,
                                                                     named: str | None) -> None:
    """As in folders of the first years; mBART's own class is then that of cc25."""
    place = Path(shutil.copytree(foreign[0], tmp_path / "copy"))
    for name, changed in ("tokenizer_config.json", None), ("config.json", named):
        told = json.loads((place / name).read_text()) | {"tokenizer_class": changed}
        (place / name).write_text(json.dumps({key: value for key, value in told.items() if value is not None}))
    assert type(transformers.AutoTokenizer.from_pretrained(place)) is type(foreign[1])
    import_run(place, tmp_path / "again")
    again, text = pellucid.load(tmp_path / "again").tokenizers, "the cat sleeps"
    assert again.source.encode(text) == run.tokenizers.source.encode(text)
    assert again.target.forced == run.tokenizers.target.forced


@pytest.mark.parametrize("foreign", ["mBART-50", "mBART-cc25", "NLLB"], indirect=True)
def test_it_goes_to_ctranslate2_and_says_how_it_is_begun(run: pellucid.Run, tmp_path: Path) -> None:
    theirs = pytest.importorskip("ctranslate2")
    notes, sides = ctranslate2.export(run.folder, tmp_path / "out").notes, run.tokenizers
    begun = sides.target.pieces(sides.target.forced)
    assert any("target_prefix" in note and begun[0] in note for note in notes) == bool(begun)
    texts, options = sentences(20, 6), replace(run.config.decode, beam_size=1, max_length=10, precision="fp32")
    translator = theirs.Translator(str(tmp_path / "out"), compute_type="float32", intra_threads=1)
    found = translator.translate_batch(
        [sides.source.pieces(sides.source.encode(text)) for text in texts], beam_size=1, max_decoding_length=10,
        min_decoding_length=0, target_prefix=[begun] * 20 if begun else None, suppress_sequences=[["<pad>"], ["<s>"]])
    same = [one.hypotheses[0] == list(ours.tokens) for one, ours in zip(
        found, run.generate(texts, options=options), strict=True)]
    assert all(same)


@pytest.mark.parametrize("foreign", ["mBART-cc25", "NLLB"], indirect=True)
def test_it_is_tuned_scored_and_served(foreign: Made, tmp_path: Path) -> None:
    import_run(foreign[0], tmp_path / "run")
    data = tmp_path / "data.tsv"
    data.write_text("".join(f"{a}\t{b}\n" for a, b in zip(sentences(60), sentences(60, 4), strict=True)))
    assert main(["train", str(tmp_path / "run" / "config.yaml"), "--out", str(tmp_path / "tuned"), "--data.train",
                 str(data), "--data.test", str(data),
                 "--train.initialize_from", str(tmp_path / "run"), "--train.steps", "4", "--train.warmup_steps", "1",
                 "--train.batch_tokens", "100", "--train.validate_every", "2", "--decode.max_length", "8"]) == 0
    tuned, before = pellucid.load(tmp_path / "tuned"), pellucid.load(tmp_path / "run")
    assert tuned.tokenizers.target.forced == before.tokenizers.target.forced
    assert tuned.config.data.target_language == before.config.data.target_language
    assert main(["evaluate", str(tmp_path / "tuned"), "--json"]) == 0
    catalogue = open_catalogue([tmp_path / "tuned"])
    assert catalogue.served[0].source in ("en", "eng-Latn")
    first = tuned.tokenizers.target.pieces(tuned.tokenizers.target.forced)
    assert all(list(one.tokens[:len(first)]) == first for one in tuned.generate(sentences(5)))
