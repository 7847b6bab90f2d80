"""Several ranks on this machine, as torchrun would start them, for tests and promises."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import socket
import sys
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch

from pellucid.train.world import World, find_world, joined, meeting_point


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def variables(rank: int, size: int, port: int) -> dict[str, str]:
    """What torchrun tells a rank."""
    return {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port)}


def in_world(size: int, task: Callable[[World], Any], seconds: float = 60.0) -> list[Any]:
    """What `task` gives on each rank: processes of one thread that are forked from this one, and can talk."""
    fork, port, answers = multiprocessing.get_context("fork"), free_port(), []
    for rank in range(size):
        here, there = fork.Pipe()
        process = fork.Process(target=_rank, args=(there, task, variables(rank, size, port), seconds))
        process.start()
        there.close()
        answers.append((process, here))
    found = []
    for process, pipe in answers:
        try:
            found.append(pickle.loads(pipe.recv_bytes()))
        except EOFError:
            found.append(RuntimeError("the rank is gone"))
        process.join()
    for answer in found:
        if isinstance(answer, BaseException):
            raise answer
    return found


def _rank(pipe: Connection, task: Callable[[World], Any], told: dict[str, str], seconds: float) -> None:
    torch.set_num_threads(1)
    os.environ.update(told)
    try:
        world = find_world()
        with joined(world, meeting_point(world), seconds):
            pipe.send_bytes(pickle.dumps(task(world)))  # whole, and not as memory that ends with this rank
    except BaseException as error:
        pipe.send_bytes(pickle.dumps(RuntimeError(f"rank {told['RANK']}: {error!r}")))


def torchrun(ranks: int, words: list[str], restarts: int = 0) -> list[str]:
    """The command that starts `pellucid` with these words on so many ranks of this machine."""
    return [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(ranks), "--master-port",
            str(free_port()), "--max-restarts", str(restarts), "-m", "pellucid", *words]


def children(process: int) -> list[int]:
    """The processes that a process has started, in the order of their numbers; of ranks, that of their ranks."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            text = stat.read_text()
            if int(text.rpartition(")")[2].split()[1]) == process:
                found.append(int(stat.parent.name))
    return sorted(found)
