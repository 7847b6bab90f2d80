"""Does a trained run say the same everywhere? `python -m benchmarks.exported RUN --source F --target F [--lines N]`.

The run is exported to transformers, CTranslate2, ONNX and argos-translate, which translate the lines in fp32; counted
are those that come out as by the plain search here, to the character. Greedily, and by the run's beam; without a
length penalty, for others divide by another one. onnxruntime has no search, and is given ours. Argos-translate cannot
leave its penalty of 0.2 out: it is counted where that and its longest output change nothing, as CTranslate2 alone
shows. Its splitter of sentences comes from a network; here a line is a sentence. What is not installed is left out.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import sacrebleu
import torch
from tests.interop import onnx_search

from benchmarks.arguments import positive, run_folder, text_file
from pellucid.interop import argos, ctranslate2, huggingface, onnx
from pellucid.kernels.compiled import use_kernels
from pellucid.runs.run import Run, load

ARGOS_BEAM, ARGOS_RULES = 4, (0.2, 256)  # of argos-translate: length penalty, longest output
Said = list[str]


def by_transformers(run: Run, place: Path, texts: Said, beam: int) -> Said:
    """transformers' `generate`, a batch of 50 lines."""
    import transformers

    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    if not place.exists():
        huggingface.export(run.folder, place)
    tokenizer = transformers.AutoTokenizer.from_pretrained(place)
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(place).eval()
    said: Said = []
    for first in range(0, len(texts), 50):
        batch = tokenizer(texts[first:first + 50], return_tensors="pt", padding=True)
        found = model.generate(**batch, num_beams=beam, length_penalty=0.0, max_new_tokens=run.config.decode.max_length,
                               early_stopping="never" if beam > 1 else False)
        said += tokenizer.batch_decode(found, skip_special_tokens=True)
    return said


def by_ctranslate2(run: Run, place: Path, texts: Said, beam: int, quantization: str | None = None,
                   rules: tuple[float, int] | None = None) -> Said:
    """CTranslate2's `translate_batch`, with a length penalty of 0 and the run's longest output, or other rules."""
    penalty, longest = rules or (0.0, run.config.decode.max_length)
    import ctranslate2 as theirs

    if not place.exists():
        ctranslate2.export(run.folder, place, quantization)
    translator = theirs.Translator(str(place), compute_type=quantization or "float32", intra_threads=1,
                                   inter_threads=1)
    source, target = run.tokenizers.source, run.tokenizers.target
    found = translator.translate_batch([source.pieces(source.encode(text)) for text in texts], beam_size=beam,
                                       length_penalty=penalty, min_decoding_length=0,
                                       max_decoding_length=longest, max_batch_size=64)
    ids = {piece: i for i, piece in enumerate(target.pieces(range(target.size)))}
    return [target.decode([ids[piece] for piece in one.hypotheses[0]]) for one in found]


def by_argos(run: Run, place: Path, texts: Said, installed: Path) -> Said:
    """argos-translate, its package installed as it installs one."""
    sys.path.append(str(installed))
    for name in ("XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"):
        os.environ[name] = str(place / "home")
    os.environ["ARGOS_DEVICE_TYPE"], os.environ["ARGOS_COMPUTE_TYPE"] = "cpu", "float32"  # else it is int8
    from argostranslate import package, sbd, translate  # type: ignore[import-not-found]

    packed = place / "run.argosmodel"
    argos.export(run.folder, packed)
    package.install_from_path(packed)
    source, target = argos.languages(run.config)
    with patch.object(sbd.MiniSBDSentencizer, "split_sentences", lambda _, text: [text]):
        found = translate.get_translation_from_codes(source, target)
        return [found.translate(text) for text in texts]


def by_onnx(run: Run, place: Path, texts: Said, beam: int) -> Said:
    """onnxruntime, with our search."""
    if not place.exists():
        onnx.export(run.folder, place)
    return onnx_search.decode(place, run, texts, beam)


@dataclass(frozen=True)
class Row:
    """What somebody said: by which search, and of which lines it is counted."""

    name: str
    beam: int
    said: Said
    counted: list[bool]


def rows(run: Run, texts: Said, place: Path, installed: Path | None) -> Iterator[Row]:
    """Who translated and how."""
    every, ct2 = [True] * len(texts), place / "ctranslate2"
    peers: dict[str, tuple[str, Callable[[int], Said]]] = {
        "transformers": ("transformers", lambda beam: by_transformers(run, place / "huggingface", texts, beam)),
        "CTranslate2, fp32": ("ctranslate2", lambda beam: by_ctranslate2(run, ct2, texts, beam)),
        "onnxruntime": ("onnxruntime", lambda beam: by_onnx(run, place / "onnx", texts, beam)),
        "CTranslate2, int8": ("ctranslate2", lambda beam: by_ctranslate2(run, place / "int8", texts, beam, "int8"))}
    for name, (needs, translate) in peers.items():
        for beam in (1, run.config.decode.beam_size) if importlib.util.find_spec(needs) else ():
            yield Row(name, beam, translate(beam), every)
    if installed is not None:
        free, bound = (by_ctranslate2(run, ct2, texts, ARGOS_BEAM, None, rules) for rules in (None, ARGOS_RULES))
        alone = [a == b for a, b in zip(free, bound, strict=True)]
        yield Row("argos-translate", ARGOS_BEAM, by_argos(run, place, texts, installed), alone)


def main() -> None:
    """Prints the table, and the lines that differ."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=run_folder, help="a run that translates")
    parser.add_argument("--source", type=text_file, required=True, help="lines to translate")
    parser.add_argument("--target", type=text_file, required=True, help="their translations, for BLEU")
    parser.add_argument("--lines", type=positive, default=1000, help="how many of them (1000)")
    parser.add_argument("--argos", type=Path, help="where pip install --target DIR has put argostranslate")
    parser.add_argument("--show", type=int, default=0, help="print so many lines that differ (0)")
    asked = parser.parse_args()
    texts, references = (path.read_text("utf-8").splitlines()[:asked.lines] for path in (asked.source, asked.target))
    torch.set_num_threads(1)
    run: Any = load(asked.run)
    use_kernels(torch.device("cpu"), False)
    config = replace(run.config, train=replace(run.config.train, kernels="plain"),
                     decode=replace(run.config.decode, length_penalty=0.0, precision="fp32"))
    run = Run(run.folder, config, run.tokenizers, run.weights)
    print(f"by the plain search: {run.route(config.decode.beam_size)}\n")
    print("| by | beam | the same | BLEU | the plain search's |\n|---|---|---|---|---|")
    expected = {beam: [one.text for one in run.generate(texts, beam)]
                for beam in {1, config.decode.beam_size, ARGOS_BEAM}}
    with tempfile.TemporaryDirectory() as temporary:
        for row in rows(run, texts, Path(temporary), asked.argos):
            lines = [(text, theirs, ours) for text, theirs, ours, is_counted in zip(
                texts, row.said, expected[row.beam], row.counted, strict=True) if is_counted]
            differing = [line for line in lines if line[1] != line[2]]
            bleu = [sacrebleu.corpus_bleu(said, [references], lowercase=config.tokenizer.lowercase).score
                    for said in (row.said, expected[row.beam])]
            print(f"| {row.name} | {row.beam} | {len(lines) - len(differing)} of {len(lines)} | {bleu[0]:.2f} | "
                  f"{bleu[1]:.2f} |", flush=True)
            for text, theirs, ours in differing[:asked.show]:
                print(f"  {text}\n    {theirs}\n    {ours}")


if __name__ == "__main__":
    main()
