"""Runs of tiny random models, made on the spot, for promises and tests that look inside."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any

import torch

from pellucid.config.mapping import from_mapping
from pellucid.data.tokenizers.build import train_tokenizers
from pellucid.data.tokenizers.interface import EOS
from pellucid.model.transformer import Transformer
from pellucid.runs.run import Run, build_model

TEXT = ["the cat sleeps .", "le chat dort .", "une élève lit déjà", "猫在睡觉", "那只猫 sleeps",
        "🙂 ça va 👩‍👧", "it sleeps , a cat"]
SUBWORDS = {"vocab_size": 75, "character_coverage": 1.0, "shared": True}
SMALL = {"d_model": 16, "n_heads": 2, "d_ff": 24, "encoder_layers": 2, "decoder_layers": 2, "dropout": 0.0,
         "tie_embeddings": False, "max_length": 40}
_SEEDS: dict[str, int] = {}  # that were found


def tiny_run(seed: int, model: dict[str, Any], decode: dict[str, Any], tokenizer: dict[str, Any]) -> Run:
    """A run of a model with random weights: of the first seed from this on with which outputs end by themselves now and
    then, so that a beam has something to choose."""
    config = from_mapping({"tokenizer": tokenizer, "model": SMALL | model, "decode": {"max_length": 12} | decode})
    tokenizers = train_tokenizers(config.tokenizer, [(text, text) for text in TEXT * 9], "seq2seq")
    asked = repr((seed, model, decode, tokenizer))
    for number in count(_SEEDS.get(asked, seed)):
        made = build_model(config, tokenizers, number).eval()
        assert isinstance(made, Transformer)
        with torch.no_grad():
            made.output.weight *= 2
            made.output.weight[EOS] *= 2
        run = Run(Path("nowhere"), config, tokenizers, made)
        best = [one.hypotheses[0] for one in run.generate(TEXT, beam_size=1)]
        if len({len(one.tokens) for one in best if one.finished}) > 2:
            _SEEDS[asked] = number
            return run
    raise AssertionError("no seed is the last")


def tiny_classifier(seed: int, model: dict[str, Any]) -> Run:
    """The same of a classifier with three labels."""
    config = from_mapping({"task": "classification", "tokenizer": {"kind": "word"}, "model": SMALL | model})
    pairs = [(text, label) for text, label in zip(TEXT, "xyzxyzx", strict=True)]
    tokenizers = train_tokenizers(config.tokenizer, pairs, "classification")
    return Run(Path("nowhere"), config, tokenizers, build_model(config, tokenizers, seed).eval())


def tiny_reader(seed: int, tokenizer: dict[str, Any]) -> Run:
    """The same of a reader, whose windows and answers are short."""
    config = from_mapping({"task": "reading", "tokenizer": tokenizer, "model": SMALL, "decode": {"max_length": 12}})
    tokenizers = train_tokenizers(config.tokenizer, [(text, text) for text in TEXT * 9], "reading")
    return Run(Path("nowhere"), config, tokenizers, build_model(config, tokenizers, seed).eval())
