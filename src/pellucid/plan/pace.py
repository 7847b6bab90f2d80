"""How fast a rank is: timed here, where ranks are processes of one thread, or reckoned from the data sheet of a GPU."""

import json
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
import torch

from pellucid.config import RunConfig
from pellucid.data.batching import Batch
from pellucid.doctor.busy import watched
from pellucid.errors import UserError
from pellucid.plan.calibration import SECONDS
from pellucid.plan.gpus import GPU
from pellucid.plan.learner import Given, learner_of, model_of
from pellucid.plan.memory import count_launches, largest_shapes, rehearse_operations
from pellucid.plan.traffic import BUCKET
from pellucid.plan.workload import Workload, shapes_of
from pellucid.train.optimizer import clip_gradients
from pellucid.train.update import add_gradients, take_step
from pellucid.train.world import World, joined

_BATCHES, _SUMS = 6, 4  # that are timed
_ALIKE = 0.2  # of the mean: the deviation of costs that are about the same
_ANSWER = 60.0  # seconds that a rank waits for another
LAUNCH = 5e-6  # seconds of an operation on a GPU, however small
_STEP_BYTES = 28  # a parameter: weight, gradient and moments are read, all but the gradient written


@dataclass(frozen=True)
class Pace:
    """Seconds of what a rank does.

    Attributes:
        batch: of a micro-batch, whatever its size.  place: of each place for an id in it.
        least: of a micro-batch, however small: a GPU's, whose operations have to be launched.
        step: of clipping and the optimizer.
        collective: of one with next to nothing in it.  byte: of each byte sent within a host; None: nothing was sent.
        late: that all wait in vain for the last of them, by each second that they compute, though all do the same.
        ranks: that were timed at once; 0: none was.
        others: the share of the processors that other processes had meanwhile; None where nobody tells.
    """

    batch: float
    place: float
    step: float
    collective: float
    byte: float | None
    ranks: int = 0
    others: float | None = None
    least: float = 0.0
    late: float = 0.0


def gpu_pace(gpu: GPU, config: RunConfig, workload: Workload, parameters: int) -> Pace:
    """By a GPU's data sheet; the operations, and their number, counted in a rehearsal.

    Args:
        parameters: that the optimizer of a rank has.
    """
    operations, a_second = rehearse_operations(config, workload), peak_of(gpu, config) * mfu_of(config)
    shape = largest_shapes(shapes_of(workload.epoch(config)), (1, 1))[0]
    launches = count_launches(config, workload, shape)
    step = _STEP_BYTES * parameters / gpu.bandwidth + operations.step / a_second
    return Pace(0.0, operations.token / a_second, step, 0.0, 1 / gpu.link, least=launches * LAUNCH)


def peak_of(gpu: GPU, config: RunConfig) -> float:
    """Products a second in the number format of training: bf16, unless fp32 is asked for."""
    return gpu.fp32_flops if config.train.precision == "fp32" else gpu.flops


def mfu_of(config: RunConfig) -> float:
    """The share of them that is taken to be the model's: wide products are faster."""
    return 0.35 if config.model.d_model >= 1024 else 0.2


def measure_pace(config: RunConfig, workload: Workload, precision: str, ranks: int,
                 say: Callable[[str], None]) -> Pace:
    """Times `ranks` processes at once: batches spread over the lengths, the optimizer, sums over all of them.

    Raises:
        UserError: one of them has ended before.
    """
    batches = workload.batches(config)
    by_length = np.argsort([len(rows) for rows in batches.examples(0)], kind="stable")
    places = ((np.arange(_BATCHES) + 0.5) * len(by_length) / _BATCHES).astype(int)
    given = [batches[int(by_length[place])] for place in np.unique(places)]
    say(f"calibrating {ranks} rank{'s' * (ranks > 1)} at once")
    fork, parent = get_context("fork"), os.getpid()
    with tempfile.TemporaryDirectory() as folder, watched() as others:
        processes = []
        for rank in range(ranks):
            here, there = fork.Pipe()
            work = _Work(config, workload, given, precision, World(rank, ranks, rank, parent), Path(folder) / "store")
            process = fork.Process(target=_tell, args=(there, work), daemon=True)
            process.start()
            there.close()
            processes.append((process, here))
        told = [_answer(pipe) for _, pipe in processes]
        for process, _ in processes:
            process.join()
    seconds = np.mean([answer["batches"] for answer in told], axis=0)
    costs = np.array([Given(given).cost(number) for number in range(len(given))], dtype=float)
    batch, place = line(costs, seconds)
    step, collective, byte = (float(np.mean([answer[key] for answer in told])) for key in ("step", "small", "byte"))
    late = float(np.mean([answer["late"] for answer in told]))
    return Pace(batch, place, step, collective, byte if ranks > 1 else None, ranks, others.share, late=late)


def line(costs: "np.typing.NDArray[np.float64]", seconds: "np.typing.NDArray[np.float64]") -> tuple[float, float]:
    """Seconds of a batch and of a place by least squares, neither below zero; of the mean batch, what was measured.
    Where all cost about the same, which tells nothing of a small one, all are taken to be of places."""
    proportional, away = float(seconds.mean() / costs.mean()), costs - costs.mean()
    if costs.std() < _ALIKE * costs.mean():
        return 0.0, proportional
    place = min(max(float((away * (seconds - seconds.mean())).sum() / (away**2).sum()), 0.0), proportional)
    return float(seconds.mean()) - place * float(costs.mean()), place


@dataclass(frozen=True)
class _Work:
    """What a rank is to time."""

    config: RunConfig
    workload: Workload
    given: Sequence[Batch]
    precision: str
    world: World
    store: Path


def _tell(pipe: Connection, work: _Work) -> None:
    """What a rank does, in a session of its own, as torchrun starts it."""
    os.setsid()
    torch.set_num_threads(1)
    if work.world.size == 1:
        pipe.send_bytes(json.dumps(_time_updates(work) | {"small": 0.0, "byte": 0.0}).encode())
        return
    from torch.distributed import FileStore  # type: ignore[attr-defined]  # which torch exports without saying so

    with joined(work.world, FileStore(str(work.store), work.world.size), _ANSWER):
        work.world.meet()
        found = _time_updates(work)
        work.world.meet()
        pipe.send_bytes(json.dumps(found | _time_sums(work.world)).encode())


def _answer(pipe: Connection) -> dict[str, list[float]]:
    try:
        found: dict[str, list[float]] = json.loads(pipe.recv_bytes())
    except EOFError:
        raise UserError("a rank that was to be timed is gone", why="out of memory perhaps",
                        fix="--no-calibration leaves the time out") from None
    return found


def _time_updates(work: _Work) -> dict[str, object]:
    """Mean seconds of each batch, and of a step; what comes first warms up. Ranks begin each round together."""
    learner = learner_of(work.config, model_of(work.config, work.workload), work.given, work.precision)
    begun, batches, steps, waits = time.monotonic(), [list[float]() for _ in work.given], list[float](), list[float]()
    while True:
        for number, (batch, seconds) in enumerate(zip(work.given, batches, strict=True)):
            started = time.monotonic()
            for loss in add_gradients(learner, 0, {number: batch}, batch.target_tokens):
                loss.item()
            seconds.append(time.monotonic() - started)
        started = time.monotonic()
        clip_gradients(learner.parameters, work.config.train.clip_norm or np.inf)
        take_step(learner, 1)
        steps.append(time.monotonic() - started)
        started = time.monotonic()
        passed = started - begun
        is_enough = passed > 3 * SECONDS or (len(steps) > 1 and passed > SECONDS)
        [ended] = work.world.sum(is_enough)
        waits.append(time.monotonic() - started)
        if ended:
            break
    warm = 1 if len(steps) > 1 else 0
    means = [float(np.mean(seconds[warm:])) for seconds in batches]
    return {"batches": means, "step": float(np.mean(steps[warm:])), "late": float(np.mean(waits[warm:])) / sum(means)}


def _time_sums(world: World) -> dict[str, float]:
    """Seconds of a sum of five numbers, and of each byte that a rank sends to sum a bucket."""
    small, large = [], []
    bucket = torch.zeros(BUCKET // 4)
    for _ in range(_SUMS + 1):
        started = time.monotonic()
        world.sum(0.0, 0.0, 0.0, 0.0, 0.0)
        small.append(time.monotonic() - started)
        started = time.monotonic()
        torch.distributed.all_reduce(bucket)
        large.append(time.monotonic() - started)
    sent = 2 * (world.size - 1) / world.size * BUCKET
    latency = float(np.mean(small[1:]))
    return {"small": latency, "byte": max(0.0, float(np.mean(large[1:])) - latency) / sent}
