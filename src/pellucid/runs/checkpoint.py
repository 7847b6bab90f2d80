"""The format of a checkpoint: a folder whose `model.safetensors` holds the weights to use, by name. No pickle.

What training keeps beside them to go on is `train/checkpoint.py`'s.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from pellucid.errors import CheckpointError
from pellucid.files import checked_sha256, write_folder, write_json
from pellucid.runs.format import WEIGHTS
from pellucid.runs.sharded import is_sharded, like, whole
from pellucid.runs.tensors import tensors_in, write_tensors


def weights_of(model: nn.Module) -> dict[str, Tensor]:
    """Every parameter once, by name; a matrix that is tied stands under its first name."""
    return {name: whole(parameter.detach()).contiguous() for name, parameter in model.named_parameters()}


def load_weights(model: nn.Module, folder: Path) -> None:
    """Fills `model` with the weights of a checkpoint folder, which are checked first, and they alone.

    Raises:
        CheckpointError: missing, damaged, or of another architecture; the model is as it was.
    """
    checked_sha256(folder, WEIGHTS, anew=True)
    fill_from(folder / WEIGHTS, model, folder)


def fill_from(file: Path, model: nn.Module, where: Path) -> None:
    """Fills `model` from a file of weights, which errors call `where`. Raises as `load_weights`."""
    weights, shapes = tensors_in(file)
    check_weights(shapes, model, where)
    fill(model, weights)


def check_weights(shapes: Mapping[str, torch.Size], model: nn.Module, where: Path) -> None:
    """Raises a CheckpointError where the shapes of weights from `where`, by their names, are not the model's."""
    parameters = dict(model.named_parameters())
    wrong = [name for name in parameters.keys() | shapes.keys()
             if name not in parameters or name not in shapes or parameters[name].shape != shapes[name]]
    if wrong:
        raise CheckpointError("the weights are those of another architecture", where=str(where),
                              why=f"{len(wrong)} tensors differ, {min(wrong)} among them")


@torch.no_grad()
def fill(model: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Copies weights into the parameters of their names."""
    parameters = dict(model.named_parameters())
    for name, tensor in weights.items():
        parameters[name].copy_(tensor if is_sharded(tensor) else like(tensor, parameters[name]))


def write_checkpoint(folder: Path, files: Mapping[str, Mapping[str, Tensor]], state: dict[str, Any]) -> None:
    """Writes `folder` whole, or not at all: the tensors of each safetensors file, and state.json.

    Raises:
        OutputError: disk full, no permission.
    """
    def fill_in(place: Path) -> None:
        for name, tensors in files.items():
            write_tensors(place / name, tensors)
        write_json(place / "state.json", state)

    write_folder(folder, fill_in)
