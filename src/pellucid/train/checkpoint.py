"""Checkpoints: model.safetensors, optimizer.safetensors, state.json, and a manifest written last. No pickle.

`model.safetensors` holds the weights to use. When a moving average is on, those are its weights, and the ones being
trained are kept beside the optimizer's moments.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import safetensors
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from pellucid.config.reader import read_dataclass
from pellucid.errors import CheckpointError, ConfigError
from pellucid.files import check_folder, read_json, write_folder, write_json
from pellucid.train.averaging import MovingAverage
from pellucid.train.optimizer import load_optimizer_state, optimizer_state

AVERAGE = "average"


@dataclass
class Progress:
    """Where a run stands; with the configuration and the weights, all that is needed to go on."""

    step: int = 0
    source_tokens: int = 0
    target_tokens: int = 0
    seconds: float = 0.0
    loss_sum: float = 0.0  # since the last line in metrics.jsonl
    loss_tokens: int = 0
    best_score: float | None = None
    best_step: int = 0
    validations_without_gain: int = 0


def weights_of(model: nn.Module) -> dict[str, Tensor]:
    """Every parameter once, by name; a matrix that is tied stands under its first name."""
    return {name: parameter.detach().contiguous() for name, parameter in model.named_parameters()}


def load_weights(model: nn.Module, folder: Path) -> None:
    """Fills `model` from a checkpoint folder that is checked first.

    Raises:
        CheckpointError: missing, damaged, or of another architecture.
    """
    check_folder(folder)
    _fill(model, _read(folder / "model.safetensors"), folder / "model.safetensors")


def read_weights(folder: Path) -> dict[str, Tensor]:
    """The weights of a checkpoint folder that has been checked.

    Raises:
        CheckpointError: they cannot be read.
    """
    return _read(folder / "model.safetensors")


def save_checkpoint(folder: Path, model: nn.Module, optimizer: torch.optim.Optimizer, average: MovingAverage | None,
                    progress: Progress) -> None:
    """Writes `folder` whole, or not at all.

    Raises:
        OutputError: disk full, no permission.
    """
    trained = weights_of(model)
    moments = optimizer_state(model, optimizer)
    if average is not None:
        moments |= {f"trained.{name}": tensor for name, tensor in trained.items()}

    def fill(place: Path) -> None:
        save(place / "model.safetensors", trained if average is None else average.weights)
        save(place / "optimizer.safetensors", moments)
        write_json(place / "state.json", asdict(progress))

    write_folder(folder, fill)


def save(path: Path, tensors: dict[str, Tensor]) -> None:
    """`save_file`, its refusals turned into the OSError that they hide."""
    try:
        save_file(tensors, path)
    except safetensors.SafetensorError as error:
        raise _as_os_error(str(error)) from error


def _as_os_error(message: str) -> OSError:
    number = message.rsplit("os error ", 1)[-1].split(")")[0]
    return OSError(int(number), message) if number.isdigit() else OSError(message)


def load_checkpoint(folder: Path, model: nn.Module, optimizer: torch.optim.Optimizer,
                    average: MovingAverage | None) -> Progress:
    """Fills everything from a folder that is checked first; returns where the run stood.

    Raises:
        CheckpointError: missing, damaged, or of another architecture.
    """
    check_folder(folder)
    weights, moments = _read(folder / "model.safetensors"), _read(folder / "optimizer.safetensors")
    trained = weights
    if average is not None:
        trained = {name.removeprefix("trained."): t for name, t in moments.items() if name.startswith("trained.")}
        average.weights = {name: tensor.clone() for name, tensor in weights.items()}
    _fill(model, trained, folder / "model.safetensors")
    try:
        load_optimizer_state(model, optimizer, moments)
        progress: Progress = read_dataclass(Progress, read_json(folder / "state.json"), "state.json")
        return progress
    except (KeyError, ConfigError) as error:
        raise CheckpointError("the checkpoint does not belong to this run", where=str(folder),
                              why=str(error)) from error


def _read(path: Path) -> dict[str, Tensor]:
    try:
        return load_file(path)
    except (safetensors.SafetensorError, OSError) as error:
        raise CheckpointError("the weights cannot be read", where=str(path), why=str(error),
                              fix="only safetensors files are read here, never a pickle") from error


def _fill(model: nn.Module, weights: dict[str, Tensor], where: Path) -> None:
    parameters = dict(model.named_parameters())
    wrong = [name for name in parameters.keys() | weights.keys()
             if name not in parameters or name not in weights or parameters[name].shape != weights[name].shape]
    if wrong:
        raise CheckpointError("the weights are those of another architecture", where=str(where),
                              why=f"{len(wrong)} tensors differ, {sorted(wrong)[0]} among them")
    with torch.no_grad():
        for name, parameter in parameters.items():
            parameter.copy_(weights[name])


class CheckpointStore:
    """The checkpoints of one run folder: which are whole, which is best, which may go.

    Args:
        run_folder: the run's.
        keep: how many of the last milestones to keep, besides the newest and the best.
        is_milestone: whether a step ends in a validation (an interruption saves at any step).
    """

    def __init__(self, run_folder: Path, keep: int, is_milestone: Callable[[int], bool]) -> None:
        self.run_folder = run_folder
        self.folder = run_folder / "checkpoints"
        self.keep = keep
        self.is_milestone = is_milestone

    def path(self, step: int) -> Path:
        """step 1000 → checkpoints/step-00001000"""
        return self.folder / f"step-{step:08d}"

    def steps(self) -> list[int]:
        """The steps that have a folder, in order."""
        names = [path.name.removeprefix("step-") for path in self.folder.glob("step-*")]
        return sorted(int(name) for name in names if name.isdigit())

    def milestones(self) -> list[int]:
        """The last `keep` validated steps that have a folder, in order."""
        return [step for step in self.steps() if self.is_milestone(step)][-self.keep :]

    def point_last(self, step: int) -> None:
        """Writes last.json, and removes what is neither the newest, nor the best, nor among the last milestones."""
        write_json(self.run_folder / "last.json", {"checkpoint": self.path(step).name, "step": step})
        wanted = {self.path(s).name for s in [step, *self.milestones()]} | {self.best_name()}
        for old in self.steps():
            if self.path(old).name not in wanted:
                shutil.rmtree(self.path(old), ignore_errors=True)

    def point_best(self, name: str, step: int, monitor: str, score: float) -> None:
        """Writes best.json."""
        write_json(self.run_folder / "best.json",
                   {"checkpoint": name, "step": step, "monitor": monitor, "score": score})

    def best_name(self) -> str | None:
        """The name of the best checkpoint's folder, if there is one yet."""
        path = self.run_folder / "best.json"
        best = read_json(path) if path.exists() else None
        return str(best["checkpoint"]) if isinstance(best, dict) and "checkpoint" in best else None

    def whole_milestones(self, say: Callable[[str], None]) -> list[Path]:
        """The folders of the last milestones, those that are damaged passed over with a word."""
        whole = []
        for step in self.milestones():
            try:
                check_folder(self.path(step))
                whole.append(self.path(step))
            except CheckpointError as error:
                say(f"left out of the average: {error}")
        return whole

    def save_average(self, weights: dict[str, Tensor], step: int) -> None:
        """Writes checkpoints/average: weights to use, nothing to resume from."""

        def fill(place: Path) -> None:
            save(place / "model.safetensors", weights)
            write_json(place / "state.json", {"step": step})

        write_folder(self.folder / AVERAGE, fill)
