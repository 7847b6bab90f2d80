"""A learner on given batches, which writes nothing: rehearsed for its memory, or run for its time."""

from collections.abc import Sequence
from dataclasses import replace

import torch

from pellucid.config import RunConfig
from pellucid.data.batching import Batch, Batches
from pellucid.model.build import build, build_classifier
from pellucid.model.classifier import Classifier
from pellucid.model.transformer import Transformer
from pellucid.plan.workload import Shape, Workload
from pellucid.train.averaging import MovingAverage
from pellucid.train.optimizer import make_optimizer
from pellucid.train.parallel import Objective
from pellucid.train.update import Learner


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

    def target_tokens(self, number: int) -> int:
        """Those of the batch of this number."""
        return self[number].target_tokens

    def cost(self, number: int) -> int:
        """The places that it has for source and target ids."""
        return self[number].source.numel() + self[number].target.numel()


def blank(shape: Shape) -> Batch:
    """A batch of this shape, without padding; what its ids are is left open."""
    def ids(length: int) -> torch.Tensor:
        return torch.zeros(shape.sentences, length, dtype=torch.int64)

    return Batch(ids(shape.source), None, ids(shape.target), ids(shape.target), None)


def in_micro_batches(config: RunConfig, count: int) -> RunConfig:
    """The configuration with so many micro-batches an update."""
    return replace(config, train=replace(config.train, accumulate=count))


def model_of(config: RunConfig, workload: Workload) -> Transformer | Classifier:
    """The model that the run will have."""
    if workload.classes:
        return build_classifier(config.model, workload.source_vocab, workload.classes)
    return build(config.model, workload.source_vocab, workload.target_vocab, shared=workload.shared)


def learner_of(config: RunConfig, model: Transformer | Classifier, batches: Sequence[Batch],
               precision: str) -> Learner:
    """Ready for `train.update.update`, on the CPU: of one process, which divides weights with nobody, and whose updates
    are as they are at the end, with R-Drop where it has begun."""
    config = replace(config, train=replace(config.train, shard=1, r_drop_after=0))
    average = MovingAverage(model, config.train.ema_decay) if config.train.ema_decay else None
    return Learner(config=config, model=model.train(), optimizer=make_optimizer(model, config.train), average=average,
                   batches=Given(batches), schedule=lambda step: 1e-4, precision=precision, device=torch.device("cpu"),
                   objective=Objective(model, config.train))
