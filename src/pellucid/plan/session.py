"""A training session on given batches that writes nothing: rehearsed for its memory, or run for its time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from pellucid.config import RunConfig
from pellucid.data.batching import Batch, Batches
from pellucid.model.build import build, build_classifier
from pellucid.model.classifier import Classifier
from pellucid.model.transformer import Transformer
from pellucid.plan.workload import Shape, Workload
from pellucid.train.averaging import MovingAverage
from pellucid.train.checkpoint import CheckpointStore
from pellucid.train.journal import Metrics, Reporter
from pellucid.train.loop import Session
from pellucid.train.optimizer import make_optimizer

_NOWHERE = Path("/nonexistent")


class Given(Batches):
    """Batches as they are given, one after another and again."""

    def __init__(self, batches: Sequence[Batch]) -> None:
        self._given = batches

    @property
    def per_epoch(self) -> int:
        """All that there are."""
        return len(self._given)

    def __getitem__(self, number: int) -> Batch:
        return self._given[number % len(self._given)]


def blank(shape: Shape) -> Batch:
    """A batch of this shape, without padding; what its ids are is left open."""
    def ids(length: int) -> torch.Tensor:
        return torch.zeros(shape.sentences, length, dtype=torch.int64)

    return Batch(ids(shape.source), None, ids(shape.target), ids(shape.target), None)


def model_of(config: RunConfig, workload: Workload) -> Transformer | Classifier:
    """The model that the run will have."""
    if workload.classes:
        return build_classifier(config.model, workload.source_vocab, workload.classes)
    return build(config.model, workload.source_vocab, workload.target_vocab, shared=workload.shared)


def session_of(config: RunConfig, model: Transformer | Classifier, batches: Sequence[Batch],
               precision: str) -> Session:
    """Ready for `train.loop.update`, on the CPU."""
    average = MovingAverage(model, config.train.ema_decay) if config.train.ema_decay else None
    return Session(config=config, model=model.train(), optimizer=make_optimizer(model, config.train), average=average,
                   batches=Given(batches), steps=10**9, peak=1e-4, precision=precision, device=torch.device("cpu"),
                   store=CheckpointStore(_NOWHERE, 1, lambda step: False), metrics=Metrics(_NOWHERE),
                   reporter=Reporter(), validate=lambda average: {})
