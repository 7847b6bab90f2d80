"""Weights on the disk: they come back bit for bit, or the model stays as it was."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest
import torch

from pellucid.config import ModelConfig
from pellucid.errors import CheckpointError, OutputError
from pellucid.files import sha256
from pellucid.model.build import build
from pellucid.runs import checkpoint
from pellucid.runs.checkpoint import load_weights, weights_of, write_checkpoint
from pellucid.runs.format import WEIGHTS
from pellucid.runs.tensors import read_tensors
from pellucid.runs.weights import Weights

SIZES: dict[str, Any] = {"d_model": 4, "n_heads": 1, "d_ff": 4, "encoder_layers": 1, "decoder_layers": 1}


def model_of(seed: int, **over: Any) -> torch.nn.Module:
    return build(ModelConfig(**{**SIZES, **over}), 7, 7, shared=True, seed=seed)


def written(folder: Path, tensors: dict[str, torch.Tensor]) -> Path:
    write_checkpoint(folder, {WEIGHTS: tensors}, {"step": 1})
    return folder


def same(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(tensor, b[name]) for name, tensor in a.items())


def test_weights_come_back_bit_for_bit_each_once(tmp_path: Path) -> None:
    one, other = model_of(1), model_of(2)
    folder = written(tmp_path / "c", weights_of(one))
    load_weights(other, folder)
    assert same(weights_of(one), weights_of(other))
    assert same(weights_of(one), read_tensors(folder / WEIGHTS))
    matrices = [name for name, tensor in weights_of(one).items() if tensor.shape == (7, 4)]
    assert len(matrices) == 1  # both embeddings and the output projection are tied


@pytest.mark.parametrize("other", [{"d_model": 6}, {"encoder_layers": 2}, {"norm": "rmsnorm"},
                                   {"tie_embeddings": False}])
def test_weights_of_another_architecture_are_refused_and_named(other: dict[str, Any], tmp_path: Path) -> None:
    model, before = model_of(1), weights_of(model_of(1))
    folder = written(tmp_path / "c", weights_of(model_of(2, **other)))
    with pytest.raises(CheckpointError, match=r"another architecture[\s\S]*tensors differ"):
        load_weights(model, folder)
    assert same(weights_of(model), before)


def test_weights_that_were_replaced_are_not_taken_for_those_that_were_opened(tmp_path: Path) -> None:
    """Unless they are held."""
    one, other = weights_of(model_of(1)), weights_of(model_of(2))
    folder = written(tmp_path / "c", one)
    opened = Weights(folder, sha256(folder / WEIGHTS))
    held, model = opened.held(), model_of(3)
    written(folder, other)
    with pytest.raises(CheckpointError, match="replaced after the run was opened"):
        opened.fill(model)
    held.fill(model)
    assert same(weights_of(model), one)


def test_what_the_system_refuses_is_told_as_such_and_leaves_nothing(tmp_path: Path,
                                                                    monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: object, tensors: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(checkpoint, "write_tensors", refuse)
    with pytest.raises(OutputError, match="the disk is full"):
        written(tmp_path / "c", {"a": torch.zeros(1)})
    assert not list(tmp_path.iterdir())


def test_what_is_no_safetensors_file_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"PK\x03\x04 a zip file, as torch.save writes")
    for path in (tmp_path / "x", tmp_path / "none"):
        with pytest.raises(CheckpointError, match="never a pickle"):
            read_tensors(path)


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o027, 0o640), (0o077, 0o600), (0o002, 0o664)])
def test_who_may_read_a_checkpoint_is_the_umasks_matter(tmp_path: Path, umask: int, mode: int) -> None:
    before = os.umask(umask)
    try:
        write_checkpoint(tmp_path / "step", {"model.safetensors": {"a": torch.zeros(2)}}, {"step": 1})
    finally:
        os.umask(before)
    assert {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "step").iterdir()} == dict.fromkeys(
        ("model.safetensors", "state.json", "manifest.json"), mode)
