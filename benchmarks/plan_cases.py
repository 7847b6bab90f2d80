"""The configurations that benchmarks/plan.py plans and runs: overrides of BASE, by name.

HELD_OUT was written down, and committed, before any of its rows was planned or run; whatever the rows then showed, what
plan reckons with stayed as it was. CASES were looked at while the plan was written.
"""

from __future__ import annotations

from typing import Any

Case = dict[str, Any]

BASE: Case = {"data.generated.task": "copy", "data.generated.train": 1200, "data.generated.validation": 60,
              "data.generated.test": 10, "data.generated.symbols": 4000, "data.generated.min_length": 8,
              "data.generated.max_length": 40, "tokenizer.kind": "word", "tokenizer.vocab_size": 100_000,
              "train.batch_tokens": 4096, "train.epochs": 2, "train.validate_every": 50,
              "train.learning_rate": 0.0001, "train.workers": 1, "decode.min_length": 15, "decode.max_length": 16}
LABELS = {"task": "classification", "data.generated.task": "adjacent_duplicates"}
LONG = {"data.generated.train": 120, "data.generated.validation": 8, "data.generated.min_length": 200,
        "data.generated.max_length": 300, "decode.min_length": 199, "decode.max_length": 200}
TINY = {"model.d_model": 128, "model.n_heads": 4, "model.d_ff": 256, "model.encoder_layers": 4,
        "model.decoder_layers": 4}
LARGE = {"model.d_model": 512, "model.n_heads": 8, "model.d_ff": 2048, "model.encoder_layers": 6,
         "model.decoder_layers": 6, "data.generated.train": 600}
FP32, PLAIN = {"train.precision": "fp32", "decode.precision": "fp32"}, {"train.kernels": "plain"}
CASES: dict[str, Case] = {
    "tiny": TINY,
    "tiny, fp32": TINY | FP32,
    "tiny, plain kernels": TINY | PLAIN,
    "small": {},
    "small, fp32": FP32,
    "small, long": LONG,
    "small, not tied": {"model.tie_embeddings": False, "tokenizer.shared": False},
    "small, 16,000 words": {"data.generated.symbols": 16_000, "data.generated.train": 3000},
    "small, 6 layers": {"model.encoder_layers": 6, "model.decoder_layers": 6},
    "small, large batches": {"train.batch_tokens": 12_000, "data.generated.train": 2400},
    "base": LARGE,
    "base, fp32": LARGE | FP32,
    "classifier": LABELS | {"model.d_model": 128, "model.d_ff": 256},
    "classifier, fp32": LABELS | FP32,
    "tall, rotary, RMSNorm, SwiGLU": {"model.position": "rotary", "model.norm": "rmsnorm",
                                      "model.feed_forward": "swiglu", "model.encoder_layers": 8,
                                      "model.decoder_layers": 2, "model.d_model": 192, "model.n_heads": 6},
    "moving average, T5 positions": {"model.position": "t5", "train.ema_decay": 0.99, "train.batch_tokens": 2048,
                                     "train.accumulate": 2},
    "wide classifier, long": LABELS | LONG | {"model.d_model": 384, "model.n_heads": 6, "model.d_ff": 1536,
                                              "model.encoder_layers": 4, "data.generated.train": 300},
    "tiny, two workers": TINY | {"train.workers": 2},
    "tiny, R-Drop": TINY | {"train.r_drop": 1.0, "train.batch_tokens": 2048, "train.epochs": 4},
}


def generated(task: str, train: int, lengths: tuple[int, int], symbols: int) -> Case:
    """Overrides of the data."""
    return {"data.generated.task": task, "data.generated.train": train, "data.generated.min_length": lengths[0],
            "data.generated.max_length": lengths[1], "data.generated.symbols": symbols}


def model(d_model: int, n_heads: int, d_ff: int, layers: tuple[int, int]) -> Case:
    """Overrides of the sizes."""
    return {"model.d_model": d_model, "model.n_heads": n_heads, "model.d_ff": d_ff, "model.encoder_layers": layers[0],
            "model.decoder_layers": layers[1]}


GRAMMAR = {"data.generated.task": "grammar", "data.generated.validation": 200}
HELD_OUT: dict[str, Case] = {
    "reverse, deep and narrow": generated("reverse", 2400, (5, 60), 600) | model(96, 4, 192, (5, 5)) | {
        "train.batch_tokens": 3000, "train.epochs": 4},
    "sort, wide, two workers": generated("sort", 3000, (10, 30), 500) | model(320, 5, 1280, (2, 2)) | {
        "train.batch_tokens": 6000, "train.epochs": 5, "train.workers": 2},
    "grammar, pieces, fp32, two workers": GRAMMAR | FP32 | model(192, 4, 512, (3, 2)) | {
        "data.generated.train": 8000, "tokenizer.kind": "sentencepiece", "tokenizer.algorithm": "unigram",
        "tokenizer.vocab_size": 400, "train.epochs": 3, "train.workers": 2},
    "copy, characters, post-norm": generated("copy", 1500, (5, 25), 5000) | model(160, 4, 320, (3, 3)) | {
        "tokenizer.kind": "character", "model.residual": "post", "train.epochs": 3},
    "classifier, R-Drop, two workers": LABELS | generated("adjacent_duplicates", 3000, (10, 80), 60) | model(
        160, 4, 640, (3, 3)) | {"train.r_drop": 1.0, "train.batch_sentences": 200, "train.epochs": 5,
                                "train.workers": 2},
    "classifier, fp32, small batches": LABELS | FP32 | generated("adjacent_duplicates", 2000, (20, 120), 300) | model(
        256, 8, 512, (2, 2)) | {"train.batch_sentences": 64, "train.epochs": 3, "model.pooling": "mean"},
    "grammar, words, three micro-batches": GRAMMAR | model(256, 4, 768, (2, 4)) | {
        "data.generated.train": 5000, "train.accumulate": 3, "train.ema_decay": 0.99, "train.batch_tokens": 1500,
        "train.epochs": 6, "tokenizer.shared": False},
    "sort, R-Drop, many lengths": generated("sort", 4000, (4, 90), 900) | model(112, 4, 448, (2, 3)) | {
        "train.r_drop": 1.0, "train.batch_tokens": 1800, "train.epochs": 1},
}
