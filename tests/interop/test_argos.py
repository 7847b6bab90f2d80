"""An .argosmodel has what argos-translate looks for, and translates as the run does, called as it calls."""

from __future__ import annotations

import json
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.interop.conftest import sentences

import pellucid
from pellucid.errors import ConfigError
from pellucid.interop.argos import export
from pellucid.interop.pieces import models
from pellucid.runs.folder import read_config, write_config

ctranslate2 = pytest.importorskip("ctranslate2")


def in_languages(run: Path) -> Path:
    """The run says that it translates English to French."""
    config = read_config(run)
    write_config(replace(config, data=replace(config.data, source_language="en", target_language="fr")), run)
    return run


def test_it_translates_as_the_run_does(random_run: Any, tmp_path: Path) -> None:
    import sentencepiece

    run = in_languages(random_run())
    done = export(run, tmp_path / "en_fr.argosmodel")
    assert any("reads whole a sentence of more than 200 tokens" in note for note in done.notes)
    with zipfile.ZipFile(tmp_path / "en_fr.argosmodel") as packed:
        packed.extractall(tmp_path)
    (top,) = {name.split("/")[0] for name in done.files}
    about = json.loads((tmp_path / top / "metadata.json").read_text())
    assert (about["from_code"], about["to_code"]) == ("en", "fr")
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / top / "sentencepiece.model"))
    translator = ctranslate2.Translator(str(tmp_path / top / "model"), device="cpu", intra_threads=1)
    texts = sentences(50, 1)
    found = translator.translate_batch([pieces.encode(text, out_type=str) for text in texts], beam_size=1,
                                       max_decoding_length=20, min_decoding_length=0,
                                       suppress_sequences=[["<pad>"], ["<s>"]])
    said = [list(one.tokens) for one in pellucid.load(run).generate(texts, beam_size=1)]
    assert [one.hypotheses[0] for one in found] == said


@pytest.mark.parametrize("position", ["sinusoidal", "none", "rotary"])
def test_what_the_run_would_cut_is_no_error(position: str, random_run: Any, tmp_path: Path) -> None:
    """argos-translate says neither how long a source may be nor how long an output."""
    run = in_languages(random_run(position=position, max_length=12, decode={"max_length": 12}))
    export(run, tmp_path / "en_fr.argosmodel")
    with zipfile.ZipFile(tmp_path / "en_fr.argosmodel") as packed:
        packed.extractall(tmp_path)
    (place,) = tmp_path.glob("*/model")
    translator = ctranslate2.Translator(str(place), device="cpu", intra_threads=1)
    found = translator.translate_batch([["▁the"] * 1500], beam_size=4, length_penalty=0.2, min_decoding_length=256)
    assert len(found[0].hypotheses[0]) == 256


def test_its_sentencepiece_tidies_as_the_run_does(random_run: Any) -> None:
    import sentencepiece

    for keys in ({"lowercase": True}, {"strip_punctuation": True}, {"lowercase": True, "strip_punctuation": True}, {}):
        opened = pellucid.load(random_run(tokenizer=keys))
        pieces = sentencepiece.SentencePieceProcessor(model_proto=models(opened.tokenizers)[0])
        for text in [*sentences(30, 2), "The Cat, it SLEEPS!", "ÉTÉ – “Straße” İ ？ 12 345", "  two  spaces "]:
            assert pieces.encode(text) == opened.tokenizers.source.encode(text)
            assert pieces.decode(pieces.encode(text)) == opened.tokenizers.source.decode(pieces.encode(text))


def test_what_is_no_package_is_refused(random_run: Any, tmp_path: Path) -> None:
    run = random_run()
    for keys, what in ((("classification",), "task classification"), ((), r"tokenizer\.kind word")):
        with pytest.raises(ConfigError, match=what):  # which no language would mend
            export(random_run(*keys, tokenizer={"kind": "word"}), tmp_path / "a.argosmodel")
    with pytest.raises(ConfigError, match="languages"):
        export(run, tmp_path / "a.argosmodel")
    with pytest.raises(ConfigError, match=r"\.argosmodel"):
        export(in_languages(run), tmp_path / "a")
    with pytest.raises(ConfigError, match=r"tokenizer\.shared false"):
        export(in_languages(random_run(tokenizer={"shared": False})), tmp_path / "a.argosmodel")
    with pytest.raises(ConfigError, match=r"model\.position alibi"):
        export(in_languages(random_run(position="alibi")), tmp_path / "a.argosmodel")
    assert not list(tmp_path.iterdir())
