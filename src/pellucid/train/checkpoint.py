"""Checkpoints to go on from: model.safetensors, optimizer.safetensors, state.json, and a manifest written last.

`model.safetensors` holds the weights to use. When a moving average is on, which state.json records, those are its
weights, and the ones being trained are kept beside the optimizer's moments.
"""

import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from pellucid.config.reader import read_dataclass
from pellucid.errors import CheckpointError, ConfigError
from pellucid.files import check_folder, checked_sha256, read_json, write_json
from pellucid.runs.checkpoint import check_weights, fill, weights_of, write_checkpoint
from pellucid.runs.format import AVERAGE, MOMENTS, WEIGHTS
from pellucid.runs.sharded import like, whole
from pellucid.runs.tensors import read_tensors, shapes_of
from pellucid.train.averaging import MovingAverage
from pellucid.train.optimizer import load_optimizer_state, optimizer_state
from pellucid.train.world import ALONE, World

_TRAINED, _AVERAGED = "trained.", "moving_average"  # names of weights there; the key in state.json


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


def buffers_of(model: nn.Module) -> dict[str, Tensor]:
    """Copies of what a state_dict holds beside parameters; parts of one's own may have some."""
    state = model.state_dict()
    return {name: buffer.clone() for name, buffer in model.named_buffers() if name in state}


def check_buffers(model: nn.Module, before: dict[str, Tensor]) -> None:
    """Makes sure that an update changed nothing that no checkpoint holds.

    Args:
        before: what `buffers_of` said before the update.

    Raises:
        ConfigError: it did.
    """
    now = dict(model.named_buffers())
    changed = [name for name, buffer in before.items() if not torch.equal(now[name], buffer)]
    if changed:
        raise ConfigError("training changes a buffer, and checkpoints hold parameters alone", where=changed[0],
                          fix="make it nn.Parameter(…, requires_grad=False), or register it with persistent=False if "
                              "it can be made anew")


def save_checkpoint(folder: Path, model: nn.Module, optimizer: torch.optim.Optimizer, average: MovingAverage | None,
                    progress: Progress, world: World = ALONE) -> None:
    """Writes `folder` whole, or not at all: the first rank does, and all of them give their part.

    Raises:
        OutputError: disk full, no permission.
    """
    trained = weights_of(model)
    moments = optimizer_state(model, optimizer)
    if average is not None:
        moments |= {_TRAINED + name: tensor for name, tensor in trained.items()}
    used = trained if average is None else {name: whole(tensor) for name, tensor in average.weights.items()}
    if world.is_first:
        write_checkpoint(folder, {WEIGHTS: used, MOMENTS: moments},
                         asdict(progress) | {_AVERAGED: average is not None})


def load_checkpoint(folder: Path, model: nn.Module, optimizer: torch.optim.Optimizer,
                    average: MovingAverage | None) -> Progress:
    """Fills everything from a folder that is read and checked first; returns where the run stood.

    The model gets the weights that were trained, whether or not an average was on or is on now. An average that was not
    saved begins with them; one that is not asked for any more is left out.

    Raises:
        CheckpointError: missing, damaged, or of another architecture; nothing has been filled.
    """
    check_folder(folder)
    weights, moments = read_tensors(folder / WEIGHTS), read_tensors(folder / MOMENTS)
    trained = {name.removeprefix(_TRAINED): tensor for name, tensor in moments.items() if name.startswith(_TRAINED)}
    state = read_json(folder / "state.json")
    if isinstance(state, dict) and not state.pop(_AVERAGED, bool(trained)):  # earlier versions did not record it
        trained = weights
    try:
        progress: Progress = read_dataclass(Progress, state, "state.json")
        check_weights(shapes_of(weights), model, folder / WEIGHTS)
        check_weights(shapes_of(trained), model, folder / MOMENTS)
        load_optimizer_state(model, optimizer, moments)  # the last check, and the first to be filled
    except (KeyError, ConfigError) as error:
        raise CheckpointError("the checkpoint does not belong to this run", where=str(folder),
                              why=str(error)) from error
    fill(model, trained)
    if average is not None:
        for name, tensor in weights.items():
            average.weights[name].copy_(like(tensor, average.weights[name]))
    return progress


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
        validated = [step for step in self.steps() if self.is_milestone(step)]
        return validated[max(len(validated) - self.keep, 0) :]

    def prune(self, *steps: int) -> None:
        """Removes what is neither of these steps, nor the best, nor among the last milestones."""
        wanted = {self.path(step).name for step in [*steps, *self.milestones()]} | {self.best_name()}
        for step in self.steps():
            if self.path(step).name not in wanted:
                shutil.rmtree(self.path(step), ignore_errors=True)

    def point_last(self, step: int) -> None:
        """Writes last.json."""
        write_json(self.run_folder / "last.json", {"checkpoint": self.path(step).name, "step": step})

    def point_best(self, name: str, step: int, monitor: str, score: float) -> None:
        """Writes best.json."""
        write_json(self.run_folder / "best.json",
                   {"checkpoint": name, "step": step, "monitor": monitor, "score": score})

    def best_name(self) -> str | None:
        """The name of the best checkpoint's folder, if there is one yet, and best.json can be read."""
        try:
            best = read_json(self.run_folder / "best.json")
        except CheckpointError:
            return None
        return str(best["checkpoint"]) if isinstance(best, dict) and "checkpoint" in best else None

    def whole_milestones(self, say: Callable[[str], None]) -> list[Path]:
        """The folders of the last milestones, those whose weights are damaged passed over with a word."""
        whole = []
        for step in self.milestones():
            try:
                checked_sha256(self.path(step), WEIGHTS, anew=True)
                whole.append(self.path(step))
            except CheckpointError as error:
                say(f"left out of the average: {error}")
        return whole

    def save_average(self, weights: dict[str, Tensor], step: int) -> None:
        """Writes checkpoints/average: weights to use, nothing to resume from."""
        write_checkpoint(self.folder / AVERAGE, {WEIGHTS: weights}, {"step": step})
