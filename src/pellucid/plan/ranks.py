"""What a world of ranks would do: the real dealing of micro-batches, replayed over the real lengths, at the pace of a
rank, with what ranks send; and what each of them would hold."""

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from pellucid.config import RunConfig
from pellucid.data.batching import Batches
from pellucid.errors import ConfigError
from pellucid.plan.budget import Machine, training
from pellucid.plan.gpus import GPU, find_gpu, spelt
from pellucid.plan.learner import in_micro_batches, model_of
from pellucid.plan.pace import LAUNCH, Pace, gpu_pace, measure_pace, mfu_of, peak_of
from pellucid.plan.rehearsal import Holdings, rehearsal
from pellucid.plan.traffic import Sizes, Traffic, sizes_of, traffic
from pellucid.plan.workload import Workload
from pellucid.train.parallel import check_world
from pellucid.train.workers import can_fork
from pellucid.train.world import World, deal

MOST = 1024  # ranks
NETWORK = 12.5e9  # bytes a second between hosts, where nobody says
_GPUS_A_HOST, _RANKS_A_CORE = 8, 4
_MICRO_BATCHES = 8192  # that are dealt
_HIDDEN = 2 / 3  # of a GPU's computing, its backward pass, in which it sends as well
_CONTEXT = 600 * 10**6  # bytes of a GPU that CUDA has


@dataclass(frozen=True)
class Asked:
    """The world that is asked for.

    Attributes:
        size: how many ranks.
        gpu: on each; None for a core.
        network: bytes a second that a host sends to others.
        per_host: ranks; as many as cores, or 8 GPUs, if left out.
    """

    size: int
    gpu: str | None = None
    network: float | None = None
    per_host: int | None = None


@dataclass(frozen=True)
class Update:
    """Seconds of an update: computing by the rank that is the last and by the mean rank, the optimizer's step, and what
    sending adds."""

    slowest: float
    mean: float
    step: float
    exchange: float

    @property
    def seconds(self) -> float:
        """All of it."""
        return self.slowest + self.step + self.exchange


@dataclass(frozen=True)
class Ranks:
    """What was found out of a world.

    Attributes:
        accumulate: micro-batches of an update, of all ranks.
        idle: the share of their computing that ranks wait for the dearest hand, by places for ids, as dealt.
        holdings: bytes of a rank's memory, by what holds them.
        tokens: source and target tokens of an update.
        update: None where no pace is known.
        strong, weak: efficiency, of one: as many micro-batches in all as one rank has, and as many for each.
        assumed: a sentence each.
    """

    asked: Asked
    shard: int
    accumulate: int
    idle: float
    traffic: Traffic
    holdings: Holdings
    tokens: float
    pace: Pace | None
    update: Update | None
    strong: float | None
    weak: float | None
    assumed: tuple[str, ...]

    @property
    def memory(self) -> int:
        """Bytes of a rank."""
        return sum(self.holdings.values())

    @property
    def tokens_per_second(self) -> float | None:
        """Of all ranks."""
        return None if self.update is None else self.tokens / self.update.seconds


def plan_ranks(config: RunConfig, workload: Workload, machine: Machine, asked: Asked, calibrate: bool,
               say: Callable[[str], None]) -> Ranks:
    """Plans.

    Args:
        asked: as `completed` gives it.
        calibrate: whether to time ranks here, where no GPU is named.
    """
    gpu = None if asked.gpu is None else find_gpu(asked.gpu)
    size, configured = asked.size, config.train.accumulate
    config = _dealt(config, size)
    accumulate = config.train.accumulate
    with rehearsal(compiled=False):
        sizes = sizes_of(model_of(config, workload))
    batches, shard = workload.epoch(config), config.train.shard
    say(f"dealing micro-batches to {size:,} ranks")
    numbers = range(max(_MICRO_BATCHES, 2 * configured * size))
    costs = np.array([batches.cost(number) for number in numbers], dtype=float)
    hands = replay(costs, accumulate, size)
    sent = traffic(sizes, size, shard, accumulate // size, gpu is None)
    pace = gpu_pace(gpu, config, workload, sizes.all // 4 // shard) if gpu else (
        measure_pace(config, workload, machine.precision, _at_once(asked), say) if calibrate else None)
    update = strong = weak = None
    if pace is not None:
        update = update_of(hands, accumulate // size, pace, asked, sent, shard)
        alone = update_of(hands.sum(1, keepdims=True), accumulate, pace, replace(asked, size=1), Traffic(0, 0, 0), 1)
        strong = alone.seconds / (size * update.seconds)
        many = traffic(sizes, size, shard, configured, gpu is None)
        wide = update_of(replay(costs, configured * size, size), configured, pace, asked, many, shard)
        weak = (wide.mean + wide.step) / wide.seconds
    return Ranks(asked, shard, accumulate, float(1 - hands.mean() / hands.max(1).mean()), sent,
                 memory_of_rank(config, workload, machine, asked, sizes),
                 _tokens_of_batch(workload, workload.batches(config)) * accumulate, pace, update, strong, weak,
                 tuple(_assumed(config, configured, asked, gpu, pace)))


def replay(costs: NDArray[np.float64], accumulate: int, size: int) -> NDArray[np.float64]:
    """The real dealing of update after update, as far as there are costs of micro-batches: [updates, ranks], the sum of
    each rank's hand."""
    updates = costs[: len(costs) // accumulate * accumulate].reshape(-1, accumulate)
    return np.array([[row[hand].sum() for hand in deal(row.tolist(), size)] for row in updates])


def update_of(hands: NDArray[np.float64], micro_batches: int, pace: Pace, asked: Asked, sent: Traffic,
              shard: int) -> Update:
    """The mean update of these hands, of so many micro-batches a rank."""
    fixed = micro_batches * pace.batch
    least = micro_batches * pace.least
    slowest, mean = (max(least, fixed + pace.place * float(cost)) for cost in (hands.max(1).mean(), hands.mean()))
    slowest += mean * (pace.late if asked.size > 1 else 0.0)
    exchange = exchange_seconds(sent, pace, asked, shard)
    if asked.gpu is not None:
        exchange = max(0.0, exchange - _HIDDEN * slowest / (1 if shard > 1 else micro_batches))
    return Update(slowest, mean, pace.step, exchange)


def exchange_seconds(sent: Traffic, pace: Pace, asked: Asked, shard: int) -> float:
    """Of an update, by itself. Groups that divide weights are neighbours; those that have the same part of them share
    the network of their hosts."""
    size, (network, per_host) = asked.size, _hosts(asked)
    within = 1 / pace.byte if pace.byte else math.inf
    divided = min(within, network) if shard > per_host else within
    beside = min(within, network / min(shard, per_host)) if size > per_host else within
    return sent.collectives * pace.collective + sent.divided / divided + sent.replicated / beside


def memory_of_rank(config: RunConfig, workload: Workload, machine: Machine, asked: Asked, sizes: Sizes) -> Holdings:
    """Of the first rank: what one process holds with its share of the micro-batches, and what the engine adds to it."""
    train = config.train
    micro = train.accumulate // asked.size
    alone = replace(config, train=replace(train, accumulate=micro, workers=1))
    if asked.gpu is not None:  # beside which checkpoints are averaged
        alone = replace(alone, train=replace(alone.train, average_last=1))
        machine = Machine("fp32" if train.precision == "fp32" else "bf16", False, 0, _CONTEXT, 0)
    held = dict(training(alone, workload, machine).holdings)
    if asked.gpu is not None:
        for holder in ("holes", "data"):
            held.pop(holder, None)
        held["CUDA"] = held.pop("process")
    if asked.size == 1:
        return held
    if train.shard == 1:
        if micro == 1:
            held.pop("gradients", None)  # they lie in the buckets alone
        return held | {"buckets of gradients": sizes.all}
    for holder in ("weights", "optimizer", "moving average"):
        if holder in held:
            held[holder] = math.ceil(held[holder] / train.shard)
    gathered = sizes.rest + 2 * sizes.largest  # the next layer is on its way while one computes
    if micro > 1:
        held["gradients"] = sizes.all  # whole, until those of the last micro-batch are there
    elif "gradients" in held:
        held["gradients"] = sizes.all // train.shard + gathered
    return held | {"gathered weights": gathered}


def completed(asked: Asked, config: RunConfig) -> Asked:
    """With what was left out.

    Raises:
        ConfigError: there can be no such world, or not for this training.
    """
    if not 1 <= asked.size <= MOST:
        raise ConfigError(f"a world of {asked.size} ranks", where="--world", fix=f"1 to {MOST:,}")
    check_world(World(size=asked.size), _dealt(config, asked.size).train)
    if asked.gpu is not None:
        find_gpu(asked.gpu)
    cores = torch.get_num_threads()
    gpu = None if asked.gpu is None else spelt(asked.gpu)
    per_host = _GPUS_A_HOST if gpu else cores
    if asked.per_host is not None:
        per_host = asked.per_host
        most = _RANKS_A_CORE * cores
        if per_host < 1 or (gpu is None and per_host > most):
            raise ConfigError(f"{per_host} ranks a host", where="--per-host",
                              why="" if gpu else f"they would be timed here, where there are {cores} cores",
                              fix="1 or more" if gpu else f"1 to {most}")
    return replace(asked, gpu=gpu, per_host=min(per_host, asked.size))


def _dealt(config: RunConfig, size: int) -> RunConfig:
    """With as many micro-batches an update as so many ranks can divide among them."""
    return in_micro_batches(config, math.ceil(config.train.accumulate / size) * size)


def _hosts(asked: Asked) -> tuple[float, int]:
    """Bytes a second between hosts, and ranks of a host."""
    assert asked.per_host is not None
    return asked.network or NETWORK, asked.per_host


def _at_once(asked: Asked) -> int:
    return _hosts(asked)[1] if can_fork() else 1


def _tokens_of_batch(workload: Workload, batches: Batches) -> float:
    """Source and target tokens, padding not counted."""
    corpus = workload.examples.in_epoch(0)
    return float(corpus.source.lengths.sum() + corpus.target.lengths.sum()) / batches.per_epoch


def _assumed(config: RunConfig, accumulate: int, asked: Asked, gpu: GPU | None, pace: Pace | None) -> list[str]:
    """What nobody measured."""
    (network, per_host), found = _hosts(asked), list[str]()
    if config.train.accumulate != accumulate:
        more = config.train.accumulate / accumulate
        times = f"{more:,.0f}" if more >= 10 else f"{more:.3g}"
        found.append(f"train.accumulate is {config.train.accumulate:,}, the next multiple of {asked.size:,} ranks, in "
                     f"place of {accumulate:,}: an update has {times} times the tokens")
    found.append("ranks are late as those that were timed" if pace is not None and pace.ranks > 1 else
                 "ranks are equally fast, and differ by the micro-batches that they are dealt alone")
    if asked.size > per_host:
        hosts = math.ceil(asked.size / per_host)
        found.append(f"{hosts:,} hosts of {per_host} ranks, each of which sends {network / 1e9:.3g} GB/s to others"
                     + ("" if asked.network else "; --network says otherwise"))
    if gpu is not None:
        found.append(f"{asked.gpu}: {peak_of(gpu, config) / 1e12:,.4g} TFLOP/s, {100 * mfu_of(config):.0f} % of it the "
                     f"model's (MFU); {gpu.memory / 1e9:.0f} GB, read at {gpu.bandwidth / 1e12:.3g} TB/s, "
                     f"{_CONTEXT / 1e9:.1f} of it CUDA's; {gpu.link / 1e9:.0f} GB/s to the others of its host")
        found.append(f"an operation takes {1e6 * LAUNCH:.0f} µs to launch, a micro-batch "
                     f"{1000 * (pace.least if pace else 0):.3g} ms at least")
        found.append("sending is hidden behind two thirds of computing, and begins without delay")
    elif pace is not None and asked.size > 1:
        found.append("nothing is sent while a core computes, for it is the same core that does both")
        if asked.size > pace.ranks:
            found.append(f"hosts are like this one, where {pace.ranks} rank{'s were' if pace.ranks > 1 else ' was'} "
                         f"timed at once; a collective begins as fast among {asked.size:,} as among them")
    return found


def as_json(ranks: Ranks) -> dict[str, Any]:
    """As plain data: what was measured, dealt, reckoned and assumed, apart."""
    update, pace = ranks.update, ranks.pace
    is_measured = pace is not None and pace.ranks > 0
    return {
        "size": ranks.asked.size, "per_host": ranks.asked.per_host, "gpu": ranks.asked.gpu, "shard": ranks.shard,
        "network": _hosts(ranks.asked)[0], "accumulate": ranks.accumulate, "tokens_per_update": ranks.tokens,
        "measured": asdict(pace) if pace is not None and is_measured else None,
        "from_data_sheet": asdict(pace) if pace is not None and not is_measured else None,
        "dealt": {"idle": ranks.idle},
        "predicted": None if update is None else {
            "tokens_per_second": ranks.tokens_per_second, "seconds_per_update": update.seconds,
            "computing": update.mean / update.seconds, "waiting": (update.slowest - update.mean) / update.seconds,
            "exchanging": update.exchange / update.seconds, "optimizer": update.step / update.seconds,
            "strong_efficiency": ranks.strong, "weak_efficiency": ranks.weak},
        "traffic": {"bytes": ranks.traffic.bytes, "collectives": ranks.traffic.collectives},
        "memory": {"bytes": ranks.memory, "held_by": ranks.holdings},
        "assumed": list(ranks.assumed)}
