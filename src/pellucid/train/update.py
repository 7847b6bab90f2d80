"""One update: gradients over micro-batches, the check that they are finite, the optimizer's step, the counting."""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch.autograd.graph import increment_version

from pellucid.config import RunConfig
from pellucid.data.batching import Batch, Batches
from pellucid.errors import NumericalError
from pellucid.model.classifier import Classifier
from pellucid.model.transformer import Transformer
from pellucid.nn.initialization import seed_of
from pellucid.precision import products_in
from pellucid.train.averaging import MovingAverage
from pellucid.train.checkpoint import Progress
from pellucid.train.objective import training_loss
from pellucid.train.optimizer import set_learning_rate


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
    progress: Progress = field(default_factory=Progress)

    @cached_property
    def parameters(self) -> list[torch.nn.Parameter]:
        """Those of the model; to look them up at every update would take a while in a small one."""
        return list(self.model.parameters())


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
    micro-batches come by their number in the whole run."""
    train, losses = learner.config.train, []
    for number, batch in micro_batches.items():
        torch.manual_seed(seed_of(learner.config.seed, "dropout", number))  # resuming needs no generator's state
        with products_in(learner.precision, learner.device):
            loss = training_loss(learner.model, batch.to(learner.device), train)
        (loss / tokens).backward()  # type: ignore[no-untyped-call]
        losses.append(loss.detach())
    clipped = torch.nn.utils.clip_grad_norm_(learner.parameters, train.clip_norm or math.inf)
    *summed, norm = torch.stack([*losses, clipped]).tolist()  # the one moment that waits for the device
    return sum(summed), norm


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
    learner.optimizer.zero_grad(set_to_none=True)
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
