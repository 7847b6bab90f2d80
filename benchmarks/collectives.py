"""What ranks really send in an update: the collectives that torch is asked for, and the bytes that a process writes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from pellucid.config import RunConfig
from pellucid.model.build import build
from pellucid.plan.learner import Given, blank
from pellucid.plan.workload import Shape
from pellucid.train.optimizer import make_optimizer
from pellucid.train.parallel import Objective, parallelize
from pellucid.train.update import Learner, rehearse, update
from pellucid.train.world import World

WORDS = 8000


class Collectives(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch's own has no types
    """Counts, by name, the collectives that are begun while this is entered."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch's own has no types
        self.counts: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.namespace == "c10d":
            self.counts[func.overloadpacket.__name__.strip("_")] += 1
        return func(*args, **(kwargs or {}))


def written() -> int:
    """Bytes that this process has written so far, to sockets too (Linux)."""
    lines = Path("/proc/self/io").read_text(encoding="ascii").splitlines()
    return int(dict(line.split(": ") for line in lines)["wchar"])


def rank_of(config: RunConfig, world: World, shape: Shape) -> Learner:
    """A rank that has made its first two updates, of batches of this shape without padding."""
    train = config.train
    model = build(config.model, WORDS, WORDS, shared=True, seed=1)
    objective = parallelize(Objective(model.train(), train), world, train.shard)
    learner = Learner(config=config, model=model, objective=objective, optimizer=make_optimizer(model, train),
                      average=None, batches=Given([blank(shape)] * train.accumulate), schedule=lambda step: 1e-4,
                      precision="fp32", device=torch.device("cpu"), world=world)
    rehearse(learner)
    for _ in range(2):
        update(learner)
    return learner


def counted(config: RunConfig, shape: Shape) -> Callable[[World], dict[str, Any]]:
    """For a rank: the collectives of an update, by name, and the bytes that it writes meanwhile."""
    def task(world: World) -> dict[str, Any]:
        learner = rank_of(config, world, shape)
        before = written()
        with Collectives() as seen:
            update(learner)
        return {"collectives": dict(seen.counts), "bytes": written() - before}

    return task
