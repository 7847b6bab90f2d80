"""The world of a run: one process or, under torchrun, many ranks, which share out the micro-batches of each update.

torchrun starts the ranks, tells them who they are by variables of the environment, and starts them anew when one of
them is gone. What a run learns follows from the numbers of its micro-batches, and not from who computes them: so what
ranks exchange of it is sums; beside that, before they begin, a few texts that must be the same on all of them.
"""

import contextlib
import itertools
import json
import os
import secrets
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

import torch

from pellucid.errors import ConfigError, UserError

if TYPE_CHECKING:
    from torch.distributed.distributed_c10d import Store

_PREPARED, _LEAVING, _GONE = "prepared", "leaving", "gone"  # keys of a start
_A_LITTLE = 0.02  # seconds
_left: list[object] = []  # gloo's: they wait for threads when they go, and keep from them Python, which these may want
_PREPARING = timedelta(days=30)  # how long others wait for the first rank, which may have a large corpus to encode


class RankGone(UserError):
    """Another rank of the run does not answer any more (exit 74)."""

    exit_code = 74


@dataclass(frozen=True)
class World:
    """Which rank of how many this process is. One that is alone needs no network, and imports none.

    Attributes:
        rank: of this process, from 0.
        size: how many ranks there are.
        local_rank: of this process among those of its host.
        parent: the process that started this one, torchrun's where there are several ranks.
    """

    rank: int = 0
    size: int = 1
    local_rank: int = 0
    parent: int = 0

    @property
    def is_first(self) -> bool:
        """Whether this is the rank that writes and tells."""
        return self.rank == 0

    @property
    def is_abandoned(self) -> bool:
        """Whether torchrun is gone, which should have ended this rank before."""
        return self.size > 1 and os.getppid() != self.parent

    @property
    def device(self) -> torch.device:
        """Where this rank computes."""
        return torch.device("cuda", self.local_rank) if torch.cuda.is_available() else torch.device("cpu")

    def sum(self, *numbers: float) -> list[float]:
        """The sum over all ranks of each of these numbers, in fp64: the same bits on every rank."""
        if self.size == 1:
            return list(numbers)
        from torch.distributed import all_reduce

        sums = torch.tensor(numbers, dtype=torch.float64, device=self.device)
        all_reduce(sums)
        return [float(each) for each in sums.tolist()]

    def gather(self, mine: list[str]) -> list[list[str]]:
        """The texts of every rank, in the order of the ranks."""
        if self.size == 1:
            return [mine]
        from torch.distributed import all_gather

        told = torch.frombuffer(bytearray(json.dumps(mine).encode()), dtype=torch.uint8)
        sizes = [int(size) for size in self.sum(*(len(told) * (rank == self.rank) for rank in range(self.size)))]
        rows = torch.zeros(self.size, max(sizes), dtype=torch.uint8, device=self.device)
        all_gather(list(rows), torch.nn.functional.pad(told, (0, max(sizes) - len(told))).to(self.device))
        return [json.loads(bytes(row[:size].tolist())) for row, size in zip(rows, sizes, strict=True)]

    def meet(self) -> None:
        """Waits until all ranks are here."""
        self.sum(0.0)

    def share(self, costs: Sequence[int]) -> list[int]:
        """Which pieces of work, of these costs, are this rank's (see `deal`)."""
        return deal(costs, self.size)[self.rank]


ALONE = World()


def find_world() -> World:
    """What torchrun says; alone, if it says nothing.

    Raises:
        ConfigError: its variables make no sense.
    """
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK")
    if not all(name in os.environ for name in names):
        return ALONE
    told = [os.environ[name] for name in names]
    if not all(number.isdecimal() for number in told) or not int(told[0]) < int(told[1]):
        raise ConfigError(f"no world: {', '.join(map('='.join, zip(names, told, strict=True)))}",
                          where="the environment", fix="start it with torchrun, or unset these variables")
    rank, size, local_rank = map(int, told)
    return World(rank, size, local_rank, os.getppid())


def meeting_point(world: World) -> "Store | None":
    """The table of keys and values by which ranks find each other; None for one that is alone.

    torchrun's table outlives the ranks, and those that it starts anew would take the addresses of their predecessors
    for each other's (pytorch 135712). So each start has a part of the table to itself: the first rank numbers it, and
    tells the number to whoever asks by a word that no other process knows.

    Raises:
        RankGone: another rank is gone, which may have kept the table.
    """
    if world.size == 1:
        return None
    from torch.distributed.distributed_c10d import PrefixStore
    from torch.distributed.rendezvous import rendezvous

    store: Store = next(rendezvous("env://", timeout=_PREPARING))[0]
    with noticing_others(world):
        return PrefixStore(f"pellucid/{_number_of_start(world, store)}", store)


def _number_of_start(world: World, store: "Store") -> str:
    if not world.is_first:
        word = secrets.token_hex(8)
        store.set(f"pellucid/word/{world.rank}", word)
        start = store.get(f"pellucid/start/{word}").decode()
        store.set(f"pellucid/heard/{start}/{world.rank}", "")
        return start
    start = str(store.add("pellucid/starts", 1))
    for rank in range(1, world.size):
        while not store.check([f"pellucid/heard/{start}/{rank}"]):
            if store.check([f"pellucid/word/{rank}"]):
                store.set(f"pellucid/start/{store.get(f'pellucid/word/{rank}').decode()}", start)
            time.sleep(_A_LITTLE)
    return start


@contextlib.contextmanager
def joined(world: World, store: "Store | None", seconds: float) -> Iterator[None]:
    """The ranks can talk to each other while this lasts.

    Args:
        seconds: how long a rank waits for the others, before it takes them for gone.
    """
    if store is None:
        yield
        return
    from torch import distributed

    if world.device.type == "cuda":
        torch.cuda.set_device(world.device)
    with noticing_others(world):
        distributed.init_process_group("nccl" if world.device.type == "cuda" else "gloo", store=store, rank=world.rank,
                                       world_size=world.size, timeout=timedelta(seconds=seconds))
        yield  # after an error, what others still wait for must not be taken down
    _leave(world, store, time.monotonic() + seconds)
    if world.device.type != "cuda":
        _left.append(distributed.group.WORLD)
    distributed.destroy_process_group()


def _leave(world: World, store: "Store", until: float) -> None:
    """Nobody hangs up on one who still listens; and the first rank, which may keep the store, goes last."""
    store.add(_LEAVING, 1)
    for key, wanted in ((_LEAVING, world.size), (_GONE, world.size - 1 if world.is_first else 0)):
        while store.add(key, 0) < wanted and time.monotonic() < until:
            time.sleep(_A_LITTLE)
    store.add(_GONE, 1)


@contextlib.contextmanager
def after_first(world: World, store: "Store | None") -> Iterator[None]:
    """The first rank does this alone, before any of the others begins it: no time that they have for answers runs
    meanwhile. What it prepares, they find.

    Raises:
        RankGone: it is gone, and was to keep the table.
    """
    if store is not None and not world.is_first:
        with noticing_others(world):
            store.wait([_PREPARED], _PREPARING)
    yield
    if store is not None and world.is_first:
        store.set(_PREPARED, "")


@contextlib.contextmanager
def noticing_others(world: World) -> Iterator[None]:
    """Turns what the network says of another rank's end into one error.

    Raises:
        RankGone: another rank is gone, or has not answered in time.
    """
    from torch.distributed import DistError

    try:
        yield
    except RuntimeError as error:
        if not isinstance(error, DistError) and "gloo" not in str(error).lower():
            raise
        raise RankGone("another rank is gone, or does not answer", where=f"rank {world.rank} of {world.size}",
                       why=str(error).splitlines()[0].partition(" This is")[0],
                       fix="read what the others told, which says why; where they told nothing, the same command, or "
                           "torchrun --max-restarts by itself, begins again at the last checkpoint"
                       ) from error


def require_same(world: World, told: dict[str, str]) -> None:
    """Makes sure that what ranks must have in common is the same on all of them.

    Raises:
        ConfigError: what is not, and the rank that has it otherwise.
    """
    every = [dict(zip(told, values, strict=True)) for values in world.gather(list(told.values()))]
    for rank, (name, first) in itertools.product(range(world.size), every[0].items()):
        if every[rank][name] != first:
            raise ConfigError(f"ranks 0 and {rank} have another {name}", where=f"rank {rank} of {world.size}",
                              why=f"{_differing(first, every[rank][name])} there",
                              fix="start all ranks with the same flags and versions; hosts of different kinds need "
                                  "train.precision fp32")


def _differing(first: str, other: str) -> str:
    """Where two texts part: a few words of each."""
    place = next((i for i, (a, b) in enumerate(zip(first, other, strict=False)) if a != b), min(len(first), len(other)))
    start = max(0, place - 40)
    return f"{first[start : place + 20]!r} here, {other[start : place + 20]!r}"


def deal(costs: Sequence[int], size: int) -> list[list[int]]:
    """Deals work of these costs to `size` ranks, so that the costs of all are about equal: the dearest first, in rounds
    that go to and fro.

    Returns:
        For each rank, the places of its work in `costs`, in order.
    """
    hands = [list[int]() for _ in range(size)]
    for place, item in enumerate(sorted(range(len(costs)), key=lambda i: -costs[i])):
        turn, rank = divmod(place, size)
        hands[rank if turn % 2 == 0 else size - 1 - rank].append(item)
    return [sorted(hand) for hand in hands]
