"""Whether training fits into a memory, and the largest batch that does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pellucid.config import RunConfig
from pellucid.plan.budget import Machine, training
from pellucid.plan.workload import Workload, with_batch

MARGIN = 0.15  # of a memory that is left free: as far as a plan may be off
_GRAIN = {"batch_tokens": 64, "batch_sentences": 1}
_TRIALS = 12
_MOST_TIMES = 64  # larger than the configured batch, a larger one is not looked for


@dataclass(frozen=True)
class Fit:
    """Whether the configured batch fits, and the largest that does (None: not even the smallest); in the unit of
    `key`."""

    memory: int
    fits: bool
    key: str
    configured: int
    largest: int | None


def largest_batch(config: RunConfig, workload: Workload, machine: Machine, memory: int,
                  say: Callable[[str], None]) -> Fit:
    """Looks for the largest batch whose plan leaves MARGIN of `memory` free.

    Peak memory grows all but linearly with the batch, so a line through the two nearest trials says what to try next;
    what is proposed was itself planned.
    """
    train = config.train
    key = "batch_sentences" if train.batch_sentences else "batch_tokens"
    configured = train.batch_sentences or train.batch_tokens
    grain, room = _GRAIN[key], memory * (1 - MARGIN)
    totals: dict[int, int] = {}

    def fits(size: int) -> bool:
        if size not in totals:
            say(f"trying train.{key} {size:,}")
            totals[size] = training(with_batch(config, size), workload, machine).total
        return totals[size] <= room

    low, high = 0, _MOST_TIMES * configured  # low fits, high is not known to
    size = configured
    for _ in range(_TRIALS if machine.process < room else 0):
        low, high = (size, high) if fits(size) else (low, size)
        if high - low <= max(grain, low // 50):
            break
        size = _next(totals, low, high, room) // grain * grain
        if not low < size < high:
            size = (low + high) // 2 // grain * grain
        if not low < size < high:
            break
    return Fit(memory, 0 < configured <= low, key, configured, low or None)


def _next(totals: dict[int, int], low: int, high: int, room: float) -> int:
    """Where the line through the two trials nearest to `room` meets it."""
    near = sorted(totals, key=lambda size: abs(totals[size] - room))[:2]
    if len(near) < 2 or totals[near[0]] == totals[near[1]]:
        return min(high - 1, 2 * low) if low else high // 2
    a, b = near
    slope = (totals[a] - totals[b]) / (a - b)
    return int(a + (room - totals[a]) / slope) if slope > 0 else (low + high) // 2
