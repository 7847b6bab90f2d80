"""One update: gradients over micro-batches, the check that they are finite, the optimizer's step, the counting."""

import contextlib
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor
from torch.autograd.graph import increment_version

from pellucid.config import RunConfig
from pellucid.data.batching import Batch, Batches
from pellucid.errors import NumericalError
from pellucid.model.classifier import Classifier
from pellucid.model.stepper import evaluating
from pellucid.model.transformer import Transformer
from pellucid.nn.initialization import seed_of
from pellucid.precision import products_in
from pellucid.train.averaging import MovingAverage
from pellucid.train.checkpoint import Progress
from pellucid.train.objective import batch_loss, training_loss
from pellucid.train.optimizer import clip_gradients, set_learning_rate
from pellucid.train.parts import as_batches, as_tensors, divide
from pellucid.train.workers import Tensors, Workers


@dataclass
class Learner:
    """Everything that an update works with."""

    config: RunConfig
    model: Transformer | Classifier
    optimizer: torch.optim.Optimizer
    average: MovingAverage | None
    batches: Batches
    schedule: Callable[[int], float]  # the learning rate of each update, counted from 1
    precision: str
    device: torch.device
    workers: Workers = field(default_factory=lambda: Workers(1, None))
    progress: Progress = field(default_factory=Progress)

    @cached_property
    def parameters(self) -> list[torch.nn.Parameter]:
        """Those of the model; to look them up at every update would take a while in a small one."""
        return list(self.model.parameters())


@contextlib.contextmanager
def at_work(learner: Learner) -> Iterator[None]:
    """The learner in training mode, its workers there, for as long as this lasts."""
    def gradients(worker: int, part: Tensors) -> list[float]:
        tokens = int(part.pop("tokens"))
        return [loss.item() for loss in add_gradients(learner, worker, as_batches(part), tokens)]

    def losses(worker: int, part: Tensors) -> list[float]:
        return [plain_loss(learner.model, batch, learner.precision) for batch in as_batches(part).values()]

    learner.model.train()
    with learner.workers.started(learner.parameters, {"gradients": gradients, "losses": losses}):
        yield


def update(learner: Learner) -> tuple[float, float]:
    """One step of the optimizer over `accumulate` micro-batches, as if they were one batch: the gradient norm before
    clipping, and the learning rate.

    Raises:
        NumericalError: the loss or its gradient is not finite; weights, moments and progress are as they were.
    """
    step, accumulate = learner.progress.step + 1, learner.config.train.accumulate
    micro_batches = {i: learner.batches[i] for i in range((step - 1) * accumulate, step * accumulate)}
    tokens = sum(batch.target_tokens for batch in micro_batches.values())
    loss, norm = accumulate_gradients(learner, micro_batches, tokens)
    check_finite("the loss or its gradient", step, {"loss": loss / tokens, "gradient norm": norm})
    rate = take_step(learner, step)
    count(learner.progress, micro_batches.values(), tokens, loss)
    return norm, rate


def accumulate_gradients(learner: Learner, micro_batches: Mapping[int, Batch], tokens: int) -> tuple[float, float]:
    """The gradients of the mean loss over all `tokens`, clipped: the summed loss, and the norm before clipping. The
    micro-batches come by their number in the whole run; each worker has a part of each."""
    parts = [dict[int, Batch]() for _ in range(learner.workers.count)]
    for number, batch in micro_batches.items():
        for part, rows in zip(parts, divide(batch, learner.workers.count), strict=True):
            part |= {} if rows is None else {number: rows}
    sent = [as_tensors(part) | {"tokens": torch.tensor(tokens)} for part in parts[1:]]
    with learner.workers.asked("gradients", sent) as answers:
        losses = add_gradients(learner, 0, parts[0], tokens)
    learner.workers.add_gradients(learner.parameters, answers)
    clipped = clip_gradients(learner.parameters, learner.config.train.clip_norm or math.inf)
    *summed, norm = torch.stack([*losses, clipped]).tolist()  # the one moment that waits for the device
    return sum(summed) + sum(map(sum, answers)), norm


def add_gradients(learner: Learner, worker: int, part: Mapping[int, Batch], tokens: int) -> list[Tensor]:
    """A worker's part of an update: adds to the gradients, and gives the summed loss of each of its batches."""
    losses = []
    for number, batch in part.items():
        dropout = ("dropout", number, worker) if worker else ("dropout", number)
        seed_dropout(seed_of(learner.config.seed, *dropout), learner.device)  # resuming needs no generator's state
        with products_in(learner.precision, learner.device):
            loss = training_loss(learner.model, batch.to(learner.device), learner.config.train)
        (loss / tokens).backward()  # type: ignore[no-untyped-call]
        losses.append(loss.detach())
    return losses


def seed_dropout(seed: int, device: torch.device) -> None:
    """torch.manual_seed on this device, which takes a while where it looks for others."""
    if device.type == "cpu":
        torch.default_generator.manual_seed(seed)
    else:
        torch.manual_seed(seed)


@torch.inference_mode()
def plain_loss(model: Transformer | Classifier, batch: Batch, precision: str) -> float:
    """The summed cross-entropy of a batch without dropout or smoothing, in nats."""
    with evaluating(model), products_in(precision, batch.source.device):
        return batch_loss(model, batch, smoothing=0.0).item()


def check_finite(what: str, step: int, values: dict[str, float]) -> None:
    """Stops, with a NumericalError, where one of the values is not finite."""
    if not all(map(math.isfinite, values.values())):
        raise NumericalError(f"{what} is not finite at step {step}", where=f"step {step}",
                             why=", ".join(f"{name} {value}" for name, value in values.items()),
                             fix="what was saved is whole; try a lower train.learning_rate, more warmup_steps, or "
                                 "train.precision fp32")


def take_step(learner: Learner, step: int) -> float:
    """The optimizer's step, at the rate that is given back, and then the moving average's."""
    rate = learner.schedule(step)
    set_learning_rate(learner.optimizer, rate)
    learner.optimizer.step()
    increment_version(learner.parameters)  # a fused optimizer does not say that it wrote to them
    for parameter in learner.parameters:
        parameter.grad = None
    if learner.average is not None:
        learner.average.update(learner.model, step)
    return rate


def count(progress: Progress, micro_batches: Iterable[Batch], tokens: int, loss: float) -> None:
    """Takes an update on so many target tokens, of this summed loss, into the progress."""
    progress.step += 1
    progress.source_tokens += sum(batch.source_tokens for batch in micro_batches)
    progress.target_tokens += tokens
    progress.loss_sum += loss
    progress.loss_tokens += tokens
