"""One update: gradients over micro-batches, the check that they are finite, the optimizer's step, the counting."""

import contextlib
import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.autograd.graph import increment_version

from pellucid.config import RunConfig
from pellucid.data.batching import Batch, Batches
from pellucid.engine.graphed_step import unrecordable
from pellucid.errors import NumericalError
from pellucid.kernels.gpu import repeatable
from pellucid.model.classifier import Classifier
from pellucid.model.stepper import evaluating
from pellucid.model.transformer import Transformer
from pellucid.nn.initialization import seed_of
from pellucid.precision import products_in
from pellucid.runs.sharded import is_sharded
from pellucid.train.averaging import MovingAverage
from pellucid.train.checkpoint import Progress
from pellucid.train.fused import fused
from pellucid.train.launches import AtOnce, OneByOne, tell_of
from pellucid.train.objective import Model, batch_loss, label_loss, passes, words_of
from pellucid.train.optimizer import clip_gradients, scale_gradients, set_learning_rate
from pellucid.train.parallel import exchanging
from pellucid.train.parts import as_batches, as_tensors, divide
from pellucid.train.workers import Tensors, Workers, on_threads
from pellucid.train.world import ALONE, World


@dataclass
class Learner:
    """Everything that an update works with."""

    config: RunConfig
    model: Model
    optimizer: torch.optim.Optimizer
    average: MovingAverage | None
    batches: Batches
    schedule: Callable[[int], float]  # the learning rate of each update, counted from 1
    precision: str
    device: torch.device
    objective: torch.nn.Module  # `training_loss` of the model, on one process or many
    workers: Workers = field(default_factory=lambda: Workers(1, None))
    world: World = ALONE
    progress: Progress = field(default_factory=Progress)
    launch: OneByOne = field(init=False)
    parameters: list[torch.nn.Parameter] = field(init=False)  # to look them up at every update would take a while

    def __post_init__(self) -> None:
        self.launch, self.parameters = OneByOne(self.device), list(self.model.parameters())


@contextlib.contextmanager
def at_work(learner: Learner) -> Iterator[None]:
    """The learner in training mode, its workers there, for as long as this lasts."""
    def gradients(worker: int, part: Tensors) -> list[float]:
        tokens = int(part.pop("tokens"))
        return [loss.item() for loss in add_gradients(learner, worker, as_batches(part), tokens)]

    def assessed(worker: int, part: Tensors) -> list[float]:
        return [number for batch in as_batches(part).values()
                for number in assess(learner.model, batch, learner.precision)]

    learner.model.train()
    parts: dict[str, Callable[[int, Tensors], list[float]]] = {"gradients": gradients, "assess": assessed}
    with (repeatable(learner.device), fused(learner.model, learner.batches[0].tokens), _recorded(learner),
          learner.workers.started(learner.parameters, parts)):
        rehearse(learner)
        yield


@contextlib.contextmanager
def _recorded(learner: Learner) -> Iterator[None]:
    """Work on a GPU is launched at once while this lasts, where it can be."""
    if (reason := against_recording(learner)) is None:
        learner.launch = AtOnce(learner.device)
    elif learner.device.type == "cuda" and learner.config.train.kernels == "auto" and learner.world.is_first:
        tell_of(reason)
    yield
    learner.launch = OneByOne(learner.device)
    learner.launch.clear(learner.parameters)


def against_recording(learner: Learner) -> str | None:
    """Why updates cannot be recorded, if they cannot."""
    if learner.world.size > 1:
        return "there are other ranks"
    if not isinstance(learner.model, Transformer | Classifier):
        return f"a {type(learner.model).__name__} waits for the GPU"
    if learner.config.model.output_bias:
        return "an output bias waits for the GPU"
    return unrecordable(learner.model)


def rehearse(learner: Learner) -> None:
    """A pass of all ranks whose gradients are thrown away. DDP divides gradients into buckets in the order in which
    its first backward found them, and in which order three ranks or more are summed follows from the place in a bucket:
    so a run that is resumed must have had such a pass, too, before it goes on."""
    if learner.world.size > 1:
        add_gradients(learner, 0, {0: learner.batches[0]}, tokens=1)
        for parameter in learner.parameters:
            parameter.grad = None


@dataclass(frozen=True)
class Update:
    """What an update was like, the same on all ranks.

    Attributes:
        loss: summed over its target tokens, in nats.
        gradient_norm: before clipping.
        source_tokens, target_tokens: of all its micro-batches.
        waited: seconds in which ranks did not compute, summed over them.
        stops: whether a rank has been asked to stop.
    """

    loss: float
    gradient_norm: float
    source_tokens: int
    target_tokens: int
    waited: float
    stops: bool


def update(learner: Learner, stop_requested: Callable[[], bool] = lambda: False) -> tuple[Update, float]:
    """One step of the optimizer over `accumulate` micro-batches, as if they were one batch; and the learning rate.

    Raises:
        NumericalError: the loss or its gradient is not finite; weights, moments and progress are as they were.
    """
    step = learner.progress.step + 1
    micro_batches, tokens = share_of(learner, step)
    made = accumulate_gradients(learner, micro_batches, tokens, stop_requested)
    check_finite("the loss or its gradient", step, {"loss": made.loss / tokens, "gradient norm": made.gradient_norm})
    rate = take_step(learner, step)
    count(learner.progress, made)
    return made, rate


def share_of(learner: Learner, step: int) -> tuple[dict[int, Batch], int]:
    """This rank's micro-batches of an update, by their numbers in the whole run; the target tokens of those of all."""
    accumulate, batches = learner.config.train.accumulate, learner.batches
    numbers = range((step - 1) * accumulate, step * accumulate)
    if learner.world.size == 1:
        all_of_them = {number: batches[number] for number in numbers}
        return all_of_them, sum(batch.target_tokens for batch in all_of_them.values())
    mine = learner.world.share([batches.cost(number) for number in numbers])
    return {numbers[i]: batches[numbers[i]] for i in mine}, sum(map(batches.target_tokens, numbers))


def accumulate_gradients(learner: Learner, micro_batches: Mapping[int, Batch], tokens: int,
                         stop_requested: Callable[[], bool]) -> Update:
    """The gradients of the mean loss over all `tokens` of an update, clipped. The micro-batches are those of this rank,
    by their number in the whole run; each worker has a part of each."""
    started, computing = time.monotonic(), time.thread_time()
    parts = [dict[int, Batch]() for _ in range(learner.workers.count)]
    for number, batch in micro_batches.items():
        for part, rows in zip(parts, divide(batch, learner.workers.count), strict=True):
            part |= {} if rows is None else {number: rows}
    sent = [as_tensors(part) | {"tokens": torch.tensor(tokens)} for part in parts[1:]]
    with learner.workers.asked("gradients", sent) as answers:
        losses = add_gradients(learner, 0, parts[0], tokens)
    learner.workers.add_gradients(learner.parameters, answers)
    most, divided = learner.config.train.clip_norm or math.inf, is_sharded(learner.parameters[0])
    norm_here = learner.launch("clip", lambda: clip_gradients(learner.parameters, math.inf if divided else most))
    *summed, norm = torch.stack([*losses, norm_here]).tolist()  # the one moment that waits for the device
    waited = time.monotonic() - started - (time.thread_time() - computing)
    replicas = learner.world.size // learner.config.train.shard
    loss, sources, waited, stops, squares = learner.world.sum(
        sum(summed) + sum(map(sum, answers)), sum(batch.source_tokens for batch in micro_batches.values()), waited,
        stop_requested(), norm ** 2 / replicas)
    if divided:
        norm = math.sqrt(squares)
        scale_gradients(learner.parameters, norm, most)
    return Update(loss, norm, int(sources), tokens, waited, bool(stops))


def add_gradients(learner: Learner, worker: int, part: Mapping[int, Batch], tokens: int) -> list[Tensor]:
    """A worker's part of an update: adds to the gradients, and gives the summed loss of each of its batches."""
    losses = []
    for place, (number, batch) in enumerate(part.items(), start=1):
        dropout = ("dropout", number, worker) if worker else ("dropout", number)
        seed_dropout(seed_of(learner.config.seed, *dropout), learner.device)  # resuming needs no generator's state
        with exchanging(learner.objective, place == len(part)):
            losses.append(_add_gradient(learner, batch, 1 + number // learner.config.train.accumulate, tokens))
    return losses


def _add_gradient(learner: Learner, batch: Batch, step: int, tokens: int) -> Tensor:
    """Adds the gradient of a batch's loss, divided by `tokens`, and gives its summed loss."""
    def work(tokens: float | Tensor, *tensors: Tensor | None) -> Tensor:
        with products_in(learner.precision, learner.device):
            loss: Tensor = learner.objective(Batch.of(tensors), step, words)
        learner.launch.add_gradients(loss / tokens, learner.parameters)
        return loss.detach()

    words = words_of(batch, learner.config.train)
    kind = "gradient", passes(learner.config.train, step) - passes(learner.config.train, step - 1), words
    summed: Tensor = learner.launch(kind, work, [float(tokens), *batch.tensors()])
    return summed


def seed_dropout(seed: int, device: torch.device) -> None:
    """torch.manual_seed on this device, which takes a while where it looks for others."""
    if device.type == "cpu":
        torch.default_generator.manual_seed(seed)
    else:
        torch.manual_seed(seed)


@torch.no_grad()
def assess(model: Model, batch: Batch, precision: str) -> list[float]:
    """The summed cross-entropy of a batch without dropout or smoothing, in nats; behind it a classifier's label of each
    row."""
    with evaluating(model), products_in(precision, batch.source.device):
        if isinstance(model, Classifier):
            logits = model(batch.source, batch.real_source)
            return [label_loss(logits, batch, smoothing=0.0).item(), *logits.argmax(-1).tolist()]
        return [batch_loss(model, batch, smoothing=0.0).item()]


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
    is_unseen = not (learner.optimizer._optimizer_step_pre_hooks or learner.optimizer._optimizer_step_post_hooks)

    def work(rate: float | Tensor) -> None:
        set_learning_rate(learner.optimizer, rate)
        learner.optimizer.step()

    with on_threads(learner.workers.all_threads):  # the other workers wait
        learner.launch("step" if is_unseen else None, work, [rate])
    increment_version(learner.parameters)  # a fused optimizer does not say that it wrote to them
    learner.launch.clear(learner.parameters)
    if learner.average is not None:
        learner.average.update(learner.model, step)
    return rate


def count(progress: Progress, made: Update) -> None:
    """Takes an update into the progress."""
    progress.step += 1
    progress.source_tokens += made.source_tokens
    progress.target_tokens += made.target_tokens
    progress.loss_sum += made.loss
    progress.loss_tokens += made.target_tokens
