"""The training loop, on one screen: update, log, validate, save, stop."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch.autograd.graph import increment_version

from pellucid.config import RunConfig
from pellucid.data.batching import Batches
from pellucid.errors import NumericalError
from pellucid.model.classifier import Classifier
from pellucid.model.transformer import Transformer
from pellucid.nn.initialization import seed_of
from pellucid.precision import products_in
from pellucid.train.averaging import MovingAverage
from pellucid.train.checkpoint import CheckpointStore, Progress, save_checkpoint
from pellucid.train.flow import Flow, watch
from pellucid.train.journal import Metrics, Reporter, duration
from pellucid.train.learning_rate import learning_rate
from pellucid.train.objective import training_loss
from pellucid.train.optimizer import set_learning_rate


@dataclass
class Session:
    """Everything that one run of the loop works with."""

    config: RunConfig
    model: Transformer | Classifier
    optimizer: torch.optim.Optimizer
    average: MovingAverage | None
    batches: Batches
    steps: int
    peak: float
    precision: str
    device: torch.device
    store: CheckpointStore
    metrics: Metrics
    reporter: Reporter
    validate: Callable[[MovingAverage | None], dict[str, float]]  # scores of its weights or, with None, the model's
    progress: Progress = field(default_factory=Progress)
    stop_requested: Callable[[], bool] = lambda: False

    @cached_property
    def parameters(self) -> list[torch.nn.Parameter]:
        """Those of the model; to look them up at every update would take a while in a small one."""
        return list(self.model.parameters())


def train_until_done(session: Session) -> bool:
    """Runs updates until the last one, early stopping, or a request to stop; false if it was a request."""
    progress, train = session.progress, session.config.train
    session.model.train()
    while progress.step < session.steps and not is_out_of_patience(session):
        started = time.monotonic()
        logged = (progress.step + 1) % train.log_every == 0 or progress.step + 1 == session.steps
        with watch(session.model, session.optimizer) if logged else contextlib.nullcontext() as flow:
            gradient_norm, rate = update(session)
        progress.seconds += time.monotonic() - started
        show_progress(session, rate)
        if flow is not None:
            log(session, gradient_norm, rate, flow)
        if session.store.is_milestone(progress.step):
            validate_and_save(session)
        elif session.stop_requested():
            save(session)
        if session.stop_requested():
            return False
    return True


def update(session: Session) -> tuple[float, float]:
    """One step of the optimizer over `accumulate` micro-batches, as if they were one batch: the gradient norm and
    rate."""
    progress, train = session.progress, session.config.train
    first = progress.step * train.accumulate
    micro_batches = [session.batches[first + i] for i in range(train.accumulate)]
    tokens = sum(batch.target_tokens for batch in micro_batches)
    losses = []
    for number, batch in enumerate(micro_batches, start=first):
        torch.manual_seed(seed_of(session.config.seed, "dropout", number))  # resuming needs no generator's state
        with products_in(session.precision, session.device):
            loss = training_loss(session.model, batch.to(session.device), train)
        (loss / tokens).backward()  # type: ignore[no-untyped-call]
        losses.append(loss.detach())
    clipped = torch.nn.utils.clip_grad_norm_(session.parameters, train.clip_norm or math.inf)
    *summed, norm = torch.stack([*losses, clipped]).tolist()  # the one moment that waits for the device
    loss_sum = sum(summed)
    if not math.isfinite(loss_sum) or not math.isfinite(norm):
        raise NumericalError(f"the loss or its gradient is not finite at step {progress.step + 1}",
                             where=f"step {progress.step + 1}", why=f"loss {loss_sum / tokens}, gradient norm {norm}",
                             fix="the weights were not touched; try a lower train.learning_rate, more warmup_steps, "
                                 "or train.precision fp32")
    rate = learning_rate(progress.step + 1, train.schedule, session.peak, train.warmup_steps, session.steps)
    set_learning_rate(session.optimizer, rate)
    session.optimizer.step()
    increment_version(session.parameters)  # a fused optimizer does not say that it wrote to them
    session.optimizer.zero_grad(set_to_none=True)
    progress.step += 1
    if session.average is not None:
        session.average.update(session.model, progress.step)
    progress.source_tokens += sum(batch.source_tokens for batch in micro_batches)
    progress.target_tokens += tokens
    progress.loss_sum += loss_sum
    progress.loss_tokens += tokens
    return norm, rate


def epoch_of(session: Session) -> int:
    """The epoch, counted from 1, that the last update took its batches from."""
    return (session.progress.step * session.config.train.accumulate - 1) // session.batches.per_epoch + 1


def tokens_per_second(progress: Progress) -> float:
    """Source and target tokens an update second, padding not counted."""
    return (progress.source_tokens + progress.target_tokens) / max(progress.seconds, 1e-9)


def log(session: Session, gradient_norm: float, rate: float, flow: Flow) -> None:
    """A line in metrics.jsonl: the mean loss since the line before; gradient norms before clipping."""
    progress = session.progress
    norms = flow.before_clipping(gradient_norm, session.config.train.clip_norm)
    session.metrics.write({
        "event": "train", "step": progress.step, "epoch": epoch_of(session),
        "loss": progress.loss_sum / progress.loss_tokens, "learning_rate": rate, "gradient_norm": gradient_norm,
        "source_tokens": progress.source_tokens, "target_tokens": progress.target_tokens,
        "tokens_per_second": round(tokens_per_second(progress), 1), "seconds": round(progress.seconds, 3),
        "gradient_norms": {part: rounded(norm) for part, norm in norms.items()},
        "update_ratios": {part: rounded(ratio) for part, ratio in flow.update_ratios.items()}})
    progress.loss_sum, progress.loss_tokens = 0.0, 0


def rounded(value: float) -> float:
    """Four significant digits, so that the lines stay short."""
    return float(f"{value:.4g}")


def show_progress(session: Session, rate: float) -> None:
    """Step, loss, rate, speed and time left, for people."""
    progress = session.progress
    left = progress.seconds / progress.step * (session.steps - progress.step)
    session.reporter.progress(f"step {progress.step:,}/{session.steps:,}  "
                              f"loss {progress.loss_sum / progress.loss_tokens:.3f}  rate {rate:.2e}  "
                              f"{tokens_per_second(progress):,.0f} tokens/s  {duration(left)} left")


def validate_and_save(session: Session) -> None:
    """Scores the weights, notes whether they are the best so far, and saves everything."""
    progress, monitor = session.progress, session.config.train.monitor
    scores = session.validate(session.average)
    session.model.train()
    if not math.isfinite(scores["loss"]):
        raise NumericalError(f"the validation loss is not finite at step {progress.step}",
                             where=f"step {progress.step}", fix="try a lower train.learning_rate, or train.precision "
                             "fp32; the last checkpoint is whole")
    session.metrics.write({"event": "validation", "step": progress.step, **scores})
    score = scores[monitor]
    better = progress.best_score is None or is_better(monitor, score, progress.best_score)
    if better:
        progress.best_score, progress.best_step, progress.validations_without_gain = score, progress.step, 0
    else:
        progress.validations_without_gain += 1
    save(session)
    told = "  ".join(f"{name} {value:.3f}" for name, value in scores.items())
    session.reporter.say(f"step {progress.step:,}  validation  {told}{'  (best)' if better else ''}")


def save(session: Session) -> None:
    """The checkpoint of this step, then the files that point to the best and the last one."""
    progress, store = session.progress, session.store
    save_checkpoint(store.path(progress.step), session.model, session.optimizer, session.average, progress)
    point_to_best(session)
    store.point_last(progress.step)


def point_to_best(session: Session) -> None:
    """Makes best.json say what the progress says."""
    progress = session.progress
    if progress.best_score is not None and session.store.path(progress.best_step).exists():
        session.store.point_best(session.store.path(progress.best_step).name, progress.best_step,
                                 session.config.train.monitor, progress.best_score)


def is_better(monitor: str, score: float, than: float) -> bool:
    """Lower for a loss, higher for every other score."""
    return score < than if monitor == "loss" else score > than


def is_out_of_patience(session: Session) -> bool:
    """Whether early stopping is on and due."""
    patience = session.config.train.patience
    return patience is not None and session.progress.validations_without_gain >= patience
