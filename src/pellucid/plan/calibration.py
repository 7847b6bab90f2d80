"""How fast an update is here: a few real ones, on batches of the lengths that training will see."""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from pellucid.config import RunConfig
from pellucid.doctor.busy import watched
from pellucid.plan.learner import learner_of, model_of
from pellucid.plan.workload import Workload, workers_of
from pellucid.train.update import Learner, at_work, update

SECONDS = 10.0
_BATCHES = 4


@dataclass(frozen=True)
class Speed:
    """Source and target tokens that are learned from in a second, padding not counted.

    Attributes:
        workers: who learned, in words.
        others: the share of the processors that other processes had meanwhile; None where nobody tells.
    """

    tokens_per_second: float
    workers: str
    others: float | None


def measure(config: RunConfig, workload: Workload, precision: str, say: Callable[[str], None]) -> Speed:
    """By the workers that training will have, on a few batches spread over the lengths."""
    batches = workload.batches(config)
    by_length = np.argsort([len(rows) for rows in batches.examples(0)])
    places = np.linspace(0, len(by_length) - 1, min(_BATCHES, len(by_length))).round().astype(int)
    given = [batches[int(by_length[place])] for place in places]
    learner = learner_of(config, model_of(config, workload), given, precision)
    learner.workers = workers_of(config, batches)
    told = str(learner.workers)
    with watched() as others, at_work(learner):
        speed = median_speed(learner, len(given), say)
    return Speed(speed, told, others.share)


def median_speed(learner: Learner, batches: int, say: Callable[[str], None]) -> float:
    """Tokens a second of the median update, which a moment when the machine did something else does not move.

    The batches come once to warm up, since oneDNN's primitives are made at the first one of each shape, then again by
    the clock, until SECONDS have passed in all; the last warm-up counts where one alone takes longer.
    """
    progress, begun = learner.progress, time.monotonic()
    speeds: list[float] = []  # of each update
    while len(speeds) <= 1 or time.monotonic() - begun < SECONDS:
        before, started = progress.source_tokens + progress.target_tokens, time.monotonic()
        update(learner)
        now = time.monotonic()
        speeds.append((progress.source_tokens + progress.target_tokens - before) / (now - started))
        say(f"calibrating: {len(speeds)} updates in {now - begun:.0f} s")
        if now - begun > 3 * SECONDS:
            break
    warm = -(-batches // learner.config.train.accumulate)
    return statistics.median(speeds[min(warm, len(speeds) - 1):])
