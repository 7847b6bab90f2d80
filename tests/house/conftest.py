"""What the house tests share: a cache of their own, and trainings so small that every option can have one."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pellucid.config import from_mapping
from pellucid.strict_reader import merge, nest

TINY: dict[str, Any] = {
    "data": {"generated": {"task": "copy", "train": 60, "validation": 10, "test": 10, "symbols": 6, "min_length": 3,
                           "max_length": 6}},
    "tokenizer": {"kind": "word"},
    "model": {"d_model": 16, "n_heads": 2, "d_ff": 24, "encoder_layers": 1, "decoder_layers": 1, "max_length": 32},
    "train": {"steps": 3, "batch_sentences": 20, "warmup_steps": 1, "validate_every": 3, "log_every": 1,
              "precision": "fp32"},
    "decode": {"beam_size": 2, "max_length": 8},
}


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PELLUCID_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))


@pytest.fixture
def tiny() -> Callable[..., dict[str, Any]]:
    """A function: a tiny configuration, with dotted keys laid over it."""

    def make(over: dict[str, Any] | None = None) -> dict[str, Any]:
        mapping = TINY
        for key, value in (over or {}).items():
            mapping = merge(mapping, nest(key, value))
        return mapping

    return make


@pytest.fixture
def train_tiny(tmp_path: Path) -> Callable[[dict[str, Any]], Path]:
    """A function: trains a configuration by the path that the command line takes; gives the run folder."""
    from pellucid.train.journal import Reporter
    from pellucid.train.run import train

    def run(mapping: dict[str, Any]) -> Path:
        train(from_mapping(mapping), tmp_path / "run", Reporter(io.StringIO()))
        return tmp_path / "run"

    return run
