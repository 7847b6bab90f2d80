"""Whether training fits into a memory, and the largest batch that does."""

from collections.abc import Callable
from dataclasses import dataclass

from pellucid.config import RunConfig
from pellucid.plan.budget import Machine, training
from pellucid.plan.workload import Workload, with_batch

MARGIN = 0.15  # of a memory that is left free: as far as a plan may be off
_GRAIN = {"batch_tokens": 64, "batch_sentences": 1}
_DOUBLINGS = 4  # of the configured batch; a larger one is not looked for


@dataclass(frozen=True)
class Fit:
    """Whether the configured batch fits, and the largest that does, in the unit of `key`.

    Attributes:
        memory: bytes that there are.
        largest: None if no batch fits.
        least: bytes that the most modest batch takes of all that were tried.
    """

    memory: int
    key: str
    configured: int
    fits: bool
    largest: int | None
    least: int


def largest_batch(config: RunConfig, workload: Workload, machine: Machine, memory: int,
                  say: Callable[[str], None]) -> Fit:
    """Looks for the largest batch whose plan leaves MARGIN of `memory` free: doubles or halves the configured one until
    the answer changes, then goes between. What is proposed was itself planned."""
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

    low = high = configured
    while fits(high) and high < configured << _DOUBLINGS:
        low, high = high, 2 * high
    while not fits(low) and low > grain and machine.training < room:
        low, high = max(grain, low // 2), low
    while fits(low) and high - low > max(grain, low // 10):
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    best = max((size for size in totals if fits(size)), default=None)
    return Fit(memory, key, configured, fits(configured), best, min(totals.values()))
