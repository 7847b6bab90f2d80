"""How fast an update is here: a few real ones, on batches of the lengths that training will see."""

import statistics
import time
from collections.abc import Callable

import numpy as np

from pellucid.config import RunConfig
from pellucid.plan.learner import learner_of, model_of
from pellucid.plan.workload import Workload
from pellucid.train.update import update

SECONDS = 10.0
_BATCHES = 4


def tokens_per_second(config: RunConfig, workload: Workload, precision: str, say: Callable[[str], None]) -> float:
    """Source and target tokens that are learned from in a second, padding not counted.

    A few batches spread over the lengths come once to warm up, since oneDNN's primitives are made at the first one of
    each shape, then again by the clock, until SECONDS have passed in all; the last warm-up counts where one alone takes
    longer. The median of the updates is told, which a moment when the machine did something else does not move.
    """
    batches = workload.batches(config)
    by_length = np.argsort([len(rows) for rows in batches.examples(0)])
    places = np.linspace(0, len(by_length) - 1, min(_BATCHES, len(by_length))).round().astype(int)
    given = [batches[int(by_length[place])] for place in places]
    learner = learner_of(config, model_of(config, workload), given, precision)
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
    warm = -(-len(given) // config.train.accumulate)
    return statistics.median(speeds[min(warm, len(speeds) - 1):])
