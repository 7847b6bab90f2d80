"""What ranks are said to send and to hold is what ranks send and hold."""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.plan.allocations import most_allocated
from tests.promises.ranks import in_world

from benchmarks.collectives import WORDS, counted, rank_of
from pellucid.config import ModelConfig, RunConfig, TrainConfig
from pellucid.data.sample import corpus_of
from pellucid.model.build import build
from pellucid.plan.budget import Machine
from pellucid.plan.ranks import Asked, memory_of_rank
from pellucid.plan.traffic import Sizes, Traffic, sizes_of, traffic
from pellucid.plan.workload import Shape, Workload
from pellucid.train.update import update
from pellucid.train.workers import can_fork
from pellucid.train.world import World

SHAPE = Shape(16, 20, 20)
SIZES = ModelConfig(d_model=128, n_heads=4, d_ff=512, encoder_layers=3, decoder_layers=2)
forks = pytest.mark.skipif(not (can_fork() and sys.platform == "linux"), reason="ranks are forked, and /proc is read")


def config_of(shard: int, accumulate: int) -> RunConfig:
    return RunConfig(model=SIZES, train=replace(TrainConfig(), shard=shard, accumulate=accumulate, precision="fp32",
                                                average_last=1))


def sizes() -> Sizes:
    return sizes_of(build(SIZES, WORDS, WORDS, shared=True))


def test_sizes_add_up() -> None:
    model = build(SIZES, WORDS, WORDS, shared=True)
    assert sizes().all == 4 * sum(p.numel() for p in model.parameters())
    assert sizes().count == 5
    assert sizes().rest == pytest.approx(4 * WORDS * SIZES.d_model, rel=0.05)
    assert sizes().largest > sizes().layers / 5


def test_traffic_by_hand() -> None:
    of = Sizes(layers=60, largest=20, rest=40, count=3, buckets=2)
    assert traffic(of, 1, 1, 5, True) == Traffic(0, 0, 0)
    assert traffic(of, 4, 1, 5, True).bytes == 2 * 3 / 4 * (100 + 40)  # gradients, and five numbers
    assert traffic(of, 4, 1, 5, True) == traffic(of, 4, 1, 1, False)  # whatever the micro-batches
    nccl = traffic(of, 4, 4, 2, False)
    assert nccl.divided == 3 / 4 * (2 * (2 * 60 + 40) + 100)
    assert traffic(of, 4, 4, 2, True).divided == nccl.divided + 3 / 4 * 100
    assert traffic(of, 4, 2, 2, True).replicated == 2 / 2 * 100 / 2 + 2 * 3 / 4 * 40


@forks
@pytest.mark.parametrize(("size", "shard", "accumulate"), [(2, 1, 4), (3, 1, 3), (2, 2, 4), (3, 3, 3), (4, 2, 8)])
def test_ranks_send_what_is_said(size: int, shard: int, accumulate: int) -> None:
    """Bytes that the system counts, within two hundredths for what goes around them; collectives that torch counts."""
    told = in_world(size, counted(config_of(shard, accumulate), SHAPE))
    said = traffic(sizes(), size, shard, accumulate // size, by_gloo=True)
    for rank in told:
        assert rank["bytes"] == pytest.approx(said.bytes, rel=0.02)
        assert sum(rank["collectives"].values()) == said.collectives


def held(world: World, config: RunConfig) -> int:
    """Bytes of weights and moments here, and the most that torch allocates beside them and the buckets in an update."""
    from pellucid.runs.sharded import local

    learner = rank_of(config, world, SHAPE)
    state = [t for s in learner.optimizer.state.values() for t in s.values() if isinstance(t, torch.Tensor)]
    here = sum(t.numel() * t.element_size() for each in [*state, *learner.parameters] for t in local([each]))
    return here + most_allocated(lambda: update(learner))


@forks
@pytest.mark.parametrize(("size", "shard", "accumulate"), [(2, 1, 2), (2, 1, 4), (2, 2, 2), (2, 2, 4)])
def test_ranks_hold_what_is_said(size: int, shard: int, accumulate: int) -> None:
    config = config_of(shard, accumulate)
    rows = [np.full(SHAPE.source, 5)] * SHAPE.sentences
    workload = Workload(corpus_of(rows, rows), SHAPE.sentences, WORDS, WORDS, True, 0, ())
    said = memory_of_rank(config, workload, Machine("fp32", False, 0, 0, 0), Asked(size, per_host=size), sizes())
    tensors = sum(size for holder, size in said.items() if holder not in ("holes", "data", "process"))
    buckets = said.get("buckets of gradients", 0)  # there before the update that is watched
    for real in in_world(size, lambda world: held(world, config)):
        assert tensors == pytest.approx(real + buckets, rel=0.05)
