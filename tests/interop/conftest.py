"""Runs with random weights, every parameter of them perturbed, which no test trains."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from pellucid.config import DecodeConfig, ModelConfig, RunConfig, TokenizerConfig, TrainConfig
from pellucid.data.tokenizers.build import Tokenizers, train_tokenizers
from pellucid.data.tokenizers.interface import EOS
from pellucid.interop.run_folder import write_run
from pellucid.runs.checkpoint import weights_of
from pellucid.runs.run import build_model

SMALL: dict[str, Any] = {"d_model": 16, "n_heads": 2, "d_ff": 24, "encoder_layers": 3, "decoder_layers": 2,
                         "dropout": 0.0, "max_length": 200}
WORDS = ("the cat sleeps dog sees a small house , and reads old books . she does not come ! été Straße naïve 12 345 "
         "where is it ?").split()


def sentences(count: int, seed: int = 0) -> list[str]:
    """Lines of some words."""
    draw = random.Random(seed)
    return [" ".join(draw.choices(WORDS, k=draw.randint(1, 12))) for _ in range(count)]


def perturb(model: torch.nn.Module, scale: float = 0.3) -> None:
    """Every parameter becomes another one: fresh zeros and ones would hide what is left out."""
    generator = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(scale * torch.randn(parameter.shape, generator=generator).to(parameter.dtype))


@pytest.fixture(scope="session")
def tokenizers() -> Callable[..., Tokenizers]:
    """Trained on some lines, once for each choice of keys; the keys of `TokenizerConfig`."""
    known: dict[str, Tokenizers] = {}

    def make(task: str = "seq2seq", **keys: Any) -> Tokenizers:
        name = repr((task, sorted(keys.items())))
        known[name] = known.get(name) or trained(task, keys)
        return known[name]

    def trained(task: str, keys: dict[str, Any]) -> Tokenizers:
        lines = sentences(400)
        config = TokenizerConfig(**{"vocab_size": 90, **keys})
        targets = lines[::-1] if task == "seq2seq" else [("good", "bad", "so so")[i % 3] for i in range(len(lines))]
        return train_tokenizers(config, list(zip(lines, targets, strict=True)), task)  # type: ignore[arg-type]

    return make


MakeRun = Callable[..., Path]


@pytest.fixture(scope="session")
def random_run(tokenizers: Callable[..., Tokenizers], tmp_path_factory: pytest.TempPathFactory) -> MakeRun:
    """Writes a run of the keys of `ModelConfig`, in float32."""
    def make(task: str = "seq2seq", tokenizer: dict[str, Any] | None = None, decode: dict[str, Any] | None = None,
             change: Callable[[torch.nn.Module], None] | None = None, **model: Any) -> Path:
        made = tokenizers(task, **tokenizer or {})
        search = {"length_penalty": 0.0, "max_length": 20, "precision": "fp32"} | (decode or {})
        config = RunConfig(task=task, tokenizer=made.config, model=ModelConfig(**SMALL | model),  # type: ignore[arg-type]
                           train=TrainConfig(kernels="plain"), decode=DecodeConfig(**search))
        built = build_model(config, made, seed=3)
        perturb(built)
        if task == "seq2seq":
            built.output.weight.data[EOS] *= 2.5  # so that outputs end now and then
        if not getattr(config.model, "biases", True) or config.model.position == "t5":
            with torch.no_grad():
                for name, parameter in built.named_parameters():
                    if name.endswith(".bias") and "norm" not in name:
                        parameter.zero_()
        if change is not None:
            change(built)
        folder = tmp_path_factory.mktemp("random") / "run"
        write_run(config, made, weights_of(built), {"what": "random weights", "from": "a test"}, folder)
        return folder

    return make
