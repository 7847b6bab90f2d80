"""Are exported models the same elsewhere, and imported again? `python -m benchmarks.interop [--quick]`.

Small models with random weights, each parameter perturbed, are written for transformers, CTranslate2 and onnxruntime,
and what can be is read back. For each class: the largest difference of a log-probability, in millionths, and how many
sentences of the bundled grammar come out the same, greedily and by beam 4 without a length penalty, in fp32, by plain
search. Then the same of models of others that are imported, by our fast decoder; of classifiers, labels that are the
same.
"""

from __future__ import annotations

import argparse
import contextlib
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from tests.interop.onnx_search import decode, opened, padded

from benchmarks import imported
from pellucid.config import DecodeConfig, ModelConfig, RunConfig, TokenizerConfig, TrainConfig
from pellucid.data.generated.grammar import sampling
from pellucid.data.tokenizers.build import train_tokenizers
from pellucid.data.tokenizers.interface import BOS, EOS, PAD
from pellucid.errors import ConfigError
from pellucid.interop import ctranslate2, holding, huggingface, onnx
from pellucid.interop.importing import import_run
from pellucid.interop.run_folder import write_run
from pellucid.runs.checkpoint import weights_of
from pellucid.runs.run import Run, build_model, load

T5 = {"position": "t5", "norm": "rmsnorm", "biases": False}
MODELS: dict[str, dict[str, Any]] = {
    "pre-norm, sinusoidal": {}, "pre-norm, learned, GELU": {"position": "learned", "feed_forward": "gelu"},
    "post-norm, sinusoidal": {"residual": "post"}, "post-norm, learned": {"residual": "post", "position": "learned"},
    "DeepNorm, sinusoidal": {"residual": "deepnorm"}, "RMSNorm, T5, ReLU": T5,
    "RMSNorm, T5, GEGLU": T5 | {"feed_forward": "geglu"}, "RMSNorm, T5, SwiGLU": T5 | {"feed_forward": "swiglu"},
    "RMSNorm, rotary, SwiGLU": {"position": "rotary", "norm": "rmsnorm", "feed_forward": "swiglu"},
    "no positions, untied": {"position": "none", "tie_embeddings": False},
    "DeepNorm, ALiBi": {"residual": "deepnorm", "position": "alibi"},
    "window, Transformer-XL": {"attention": "window", "window": 3, "position": "transformer_xl"},
    "linear attention": {"attention": "linear"}}
BEAMS = (1, 4)
LONGEST = 24  # tokens of an output


def random_run(keys: dict[str, Any], pairs: list[tuple[str, str]], folder: Path) -> Run:
    """A run that nobody has trained."""
    tokenizers = train_tokenizers(TokenizerConfig(vocab_size=400), pairs, "seq2seq")
    model = ModelConfig(**{"d_model": 64, "d_ff": 128, "encoder_layers": 3, "decoder_layers": 2, "dropout": 0.0,
                           "max_length": 200} | keys)
    config = RunConfig(tokenizer=tokenizers.config, model=model, train=TrainConfig(kernels="plain"),
                       decode=DecodeConfig(length_penalty=0.0, max_length=LONGEST, precision="fp32"))
    built, generator = build_model(config, tokenizers, seed=3), torch.Generator().manual_seed(7)
    with torch.no_grad():
        for parameter in built.parameters():
            parameter += 0.2 * torch.randn(parameter.shape, generator=generator)
        built.output.weight[EOS] *= 2  # type: ignore[union-attr]  # so that outputs end now and then
    write_run(config, tokenizers, weights_of(built), {"what": "random weights", "from": "a benchmark"}, folder)
    return load(folder)


def in_transformers(run: Run, folder: Path, pairs: list[tuple[str, str]]) -> tuple[str, float, list[int]]:
    """The class, the largest difference, and how many outputs are the same."""
    import transformers

    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    written = huggingface.export(run.folder, folder)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
    sources, targets = map(list, zip(*pairs, strict=True))
    batch = tokenizer(sources, return_tensors="pt", padding=True)
    ids = torch.nn.utils.rnn.pad_sequence([torch.tensor([BOS, *run.tokenizers.target.encode(text), EOS])
                                           for text in targets], batch_first=True)
    with torch.no_grad():
        log_p = model(**batch, decoder_input_ids=ids[:, :-1]).logits.log_softmax(-1)
    theirs = log_p.gather(-1, ids[:, 1:, None])[..., 0]
    far = max(_far(row, scored.token_log_probabilities)
              for row, scored in zip(theirs, run.score(sources, targets), strict=True))
    same = []
    for beam in BEAMS:
        found = model.generate(**batch, num_beams=beam, early_stopping="never" if beam > 1 else False)
        said = tokenizer.batch_decode(found, skip_special_tokens=True)
        same.append(sum(a == b.text for a, b in zip(said, run.generate(sources, beam_size=beam), strict=True)))
    return written.what, far, same


def in_ctranslate2(run: Run, folder: Path, pairs: list[tuple[str, str]]) -> tuple[str, float, list[int]]:
    """As `in_transformers`; its search divides what is suppressed among the other tokens, and so does ours here."""
    import ctranslate2 as theirs

    written = ctranslate2.export(run.folder, folder)
    translator = theirs.Translator(str(folder), compute_type="float32", intra_threads=1, inter_threads=1)
    sides = [[side.pieces(side.encode(text)) for text in texts] for side, texts in zip(
        (run.tokenizers.source, run.tokenizers.target), zip(*pairs, strict=True), strict=True)]
    sources, targets = map(list, zip(*pairs, strict=True))
    far = max(_far(torch.tensor(row.log_probs), scored.token_log_probabilities) for row, scored in zip(
        translator.score_batch(*sides), run.score(sources, targets), strict=True))
    model: Any = run.model
    plain, same = model.logits, []
    model.logits = lambda hidden: plain(hidden).index_fill(-1, torch.tensor([PAD, BOS]), -1e9)
    for beam in BEAMS:
        found = translator.translate_batch(sides[0], beam_size=beam, length_penalty=0, max_decoding_length=LONGEST,
                                           min_decoding_length=0, suppress_sequences=[["<pad>"], ["<s>"]])
        said = [list(one.tokens) for one in run.generate(sources, beam_size=beam)]
        same.append(sum(a.hypotheses[0] == b for a, b in zip(found, said, strict=True)))
    del model.logits
    return written.what, far, same


def in_onnxruntime(run: Run, folder: Path, pairs: list[tuple[str, str]]) -> tuple[str, float, list[int]]:
    """As `in_transformers`; the search is ours, and every number in it theirs."""
    written = onnx.export(run.folder, folder)
    step, (sources, targets) = opened(folder), map(list, zip(*pairs, strict=True))
    state = step.start(padded([[*run.tokenizers.source.encode(text), EOS] for text in sources]))
    ids, _ = padded([[BOS, *run.tokenizers.target.encode(text), EOS] for text in targets])
    log_p = torch.from_numpy(step.logits(state, ids[:, :-1])[0]).log_softmax(-1)
    theirs = log_p.gather(-1, torch.from_numpy(ids[:, 1:, None]))[..., 0]
    far = max(_far(row, scored.token_log_probabilities)
              for row, scored in zip(theirs, run.score(sources, targets), strict=True))
    same = [sum(a == b.text for a, b in zip(decode(folder, run, sources, beam), run.generate(sources, beam_size=beam),
                                            strict=True)) for beam in BEAMS]
    return written.what, far, same


def back(run: Run, folder: Path, out: Path, pairs: list[tuple[str, str]]) -> tuple[str, float, list[int]]:
    """The folder for transformers, imported."""
    import_run(folder, out)
    again = load(out)
    sources, targets = map(list, zip(*pairs, strict=True))
    scores = zip(again.score(sources, targets), run.score(sources, targets), strict=True)
    far = max(_far(torch.tensor(a.token_log_probabilities), b.token_log_probabilities) for a, b in scores)
    options = run.config.decode
    same = [sum(a.text == b.text for a, b in zip(again.generate(sources, beam, options=options),
                                                 run.generate(sources, beam), strict=True)) for beam in BEAMS]
    return "a run", far, same


def _far(theirs: torch.Tensor, ours: Sequence[float]) -> float:
    return float((theirs[:len(ours)] - torch.tensor(ours)).abs().max())


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="20 sentences, not 200")
    count = 20 if parser.parse_args().quick else 200
    torch.set_num_threads(1)
    made = sampling.splits(2000, 10, count)
    print("| model | read by | as | difference | greedy | beam 4 |\n|---|---|---|---|---|---|")
    for name, keys in MODELS.items():
        with tempfile.TemporaryDirectory() as temporary:
            place = Path(temporary)
            run = random_run(keys, made.train, place / "run")
            rows = []
            with contextlib.suppress(ConfigError):  # of what no class of transformers holds
                rows.append(("transformers", in_transformers(run, place / "hf", made.test)))
                rows.append(("pellucid", back(run, place / "hf", place / "again", made.test)))
            if not holding.misfits(run.config.model, holding.CTRANSLATE2):
                rows.append(("CTranslate2", in_ctranslate2(run, place / "ct2", made.test)))
            rows.append(("onnxruntime", in_onnxruntime(run, place / "onnx", made.test)))
            for reader, (what, far, same) in rows:
                print(f"| {name} | {reader} | {what} | {1e6 * far:.1f} | {same[0]} | {same[1]} |", flush=True)
    print("\n| imported | difference | greedy | beam 4 |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory() as temporary:
        for name, far, same in imported.rows(Path(temporary), count):
            print(f"| {name} | {1e6 * far:.1f} | {same[0]} | {same[1]} |", flush=True)


if __name__ == "__main__":
    main()
