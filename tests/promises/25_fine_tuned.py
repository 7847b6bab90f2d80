"""Promise 25: a model of others that came in is fine-tuned like any run, and goes out again to say the same elsewhere.

    python tests/promises/25_fine_tuned.py [--count 100] [--steps 1200] [--json FILE]

A Marian of transformers with random weights (some 740,000), its SentencePiece models trained on the bundled grammar, is
imported, and trained on that grammar with `--train.initialize_from`. Then, in this order:

1. the loss of its last steps is below 3 nats a token, with label smoothing of 0.1, although some tokens are silent
2. of 1,500 sentences that it never saw, a third of which join words that training holds apart, at least 95 % are right
3. to 5. transformers, CTranslate2 and onnxruntime, given what was exported, say to `--count` of those sentences what
   the plain search says, in fp32, greedily and by a beam of 4, without a length penalty

It needs transformers, and the extra `interop`.
"""

from __future__ import annotations

import argparse
import io
import json
import statistics
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import sentencepiece
import torch
import yaml

sys.path.insert(0, str(Path(__file__).parents[2]))  # benchmarks and tests
from benchmarks.exported import by_ctranslate2, by_onnx, by_transformers
from pellucid.data.generated.grammar.sampling import Sentences, splits
from pellucid.kernels.compiled import use_kernels
from pellucid.runs.run import Run, load

BEAMS, SHARE, NATS = (1, 4), 0.95, 3.0
GRAMMAR = {"task": "grammar", "train": 60_000, "validation": 500, "test": 1_500}
MARIAN = {"d_model": 128, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
          "decoder_attention_heads": 4, "encoder_ffn_dim": 256, "decoder_ffn_dim": 256, "activation_function": "relu",
          "scale_embedding": True, "max_position_embeddings": 128, "eos_token_id": 0, "forced_eos_token_id": None,
          "dropout": 0.0, "init_std": 0.08}


def write_marian(folder: Path, pairs: Sentences) -> None:
    """A folder as transformers writes it: random weights, and a tokenizer of these sentences."""
    import transformers

    transformers.logging.disable_progress_bar()
    folder.mkdir()
    pieces = ["</s>", "<unk>"]
    for side, lines in zip(("source", "target"), zip(*pairs, strict=True), strict=True):
        model = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(lines), model_writer=model, vocab_size=500,
                                                 model_type="unigram", minloglevel=2, num_threads=1,
                                                 hard_vocab_limit=False)
        (folder / f"{side}.spm").write_bytes(model.getvalue())
        made = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
        known = [made.id_to_piece(i) for i in range(3, made.get_piece_size())]
        pieces += [piece for piece in known if piece not in pieces]
    pieces.append("<pad>")
    (folder / "vocab.json").write_text(json.dumps({piece: i for i, piece in enumerate(pieces)}), encoding="utf-8")
    transformers.set_seed(1)
    pad = len(pieces) - 1
    configuration = transformers.MarianConfig(vocab_size=len(pieces), pad_token_id=pad, decoder_start_token_id=pad,
                                              **MARIAN)
    transformers.MarianMTModel(configuration).save_pretrained(folder)


def pellucid(*words: object) -> None:
    """Runs a verb; what it tells goes where ours does."""
    subprocess.run([sys.executable, "-m", "pellucid", *map(str, words)], check=True)


def trained(place: Path, steps: int) -> Path:
    """The run that was imported, then trained on the grammar."""
    write_marian(place / "marian", splits(20_000, 10, 10).train)
    pellucid("import", place / "marian", "--out", place / "imported")
    came_in = yaml.safe_load((place / "imported" / "config.yaml").read_text(encoding="utf-8"))
    config = {"task": "seq2seq", "tokenizer": came_in["tokenizer"], "model": came_in["model"],
              "data": {"generated": GRAMMAR},
              "train": {"steps": steps, "batch_tokens": 2048, "learning_rate": 0.003, "schedule": "linear",
                        "warmup_steps": 200, "label_smoothing": 0.1, "validate_every": 600, "log_every": 50},
              "decode": {"beam_size": 4, "max_length": 60}}
    (place / "grammar.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    pellucid("train", place / "grammar.yaml", "--out", place / "tuned",
             "--train.initialize_from", place / "imported")
    return place / "tuned"


def last_loss(run: Path) -> float:
    """The mean loss of what was told of the last steps, in nats a token."""
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    return statistics.mean([line["loss"] for line in lines if line["event"] == "train"][-4:])


def plain(run: Run) -> Run:
    """The same run, decoded by the plain step in fp32, without a length penalty."""
    use_kernels(torch.device("cpu"), False)
    config = replace(run.config, train=replace(run.config.train, kernels="plain"),
                     decode=replace(run.config.decode, length_penalty=0.0, precision="fp32"))
    return Run(run.folder, config, run.tokenizers, run.weights)


def elsewhere(run: Run, texts: list[str], place: Path) -> dict[str, list[int]]:
    """Of how many texts each says what the plain search says, for each of `BEAMS`."""
    expected = {beam: [one.text for one in run.generate(texts, beam)] for beam in BEAMS}
    peers = {"huggingface": by_transformers, "ctranslate2": by_ctranslate2, "onnx": by_onnx}
    return {name: [sum(_shown(a) == _shown(b) for a, b in zip(by(run, place / name, texts, beam), expected[beam],
                                                              strict=True))
                   for beam in BEAMS] for name, by in peers.items()}


def _shown(text: str) -> str:
    """Without the mark of an unknown piece, which transformers leaves out."""
    return text.replace("\u2047", "")


def check(count: int, steps: int, place: Path) -> list[dict[str, Any]]:
    """The five truths, each with whether it holds and what was found."""
    folder = trained(place, steps)
    loss, unseen = last_loss(folder), splits(GRAMMAR["train"], GRAMMAR["validation"], GRAMMAR["test"]).test  # type: ignore[arg-type]
    run, sources = load(folder), [source for source, _ in unseen]
    right = sum(found.text == target for found, (_, target) in zip(run.generate(sources), unseen, strict=True))
    rows = [{"truth": "loss", "found": loss, "good": loss < NATS},
            {"truth": "exact", "found": right, "of": len(unseen), "good": right >= SHARE * len(unseen)}]
    torch.set_num_threads(1)
    for name, same in elsewhere(plain(run), sources[:count], place).items():
        rows.append({"truth": name, "found": same, "of": count, "good": same == [count] * len(BEAMS)})
    return rows


def main() -> int:
    """Prints a line a truth, and the promise's closing line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=100, help="sentences that are translated elsewhere (100)")
    parser.add_argument("--steps", type=int, default=1200, help="updates of the training (1200)")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        rows = check(arguments.count, arguments.steps, Path(scratch))
    for number, row in enumerate(rows, 1):
        print(f"{number}. " + ", ".join(f"{key} {value}" for key, value in row.items()), flush=True)
    passed = sum(row["good"] for row in rows)
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    print(f"promise 25: {passed} of {len(rows)}")
    return 0 if passed == len(rows) else 1


if __name__ == "__main__":
    raise SystemExit(main())
