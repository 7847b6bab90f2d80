"""Several ranks on this machine, as torchrun would start them, for tests and promises."""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import os
import pickle
import secrets
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import torch

from pellucid.train.world import World, find_world, joined, meeting_point


def free_port() -> int:
    """A port that nobody listens on, and that the system gives to nobody who asks for any, before a rank takes it."""
    while True:
        port = secrets.choice(range(20_000, 32_768))  # below those that Linux and others give
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def variables(rank: int, size: int, port: int) -> dict[str, str]:
    """What torchrun tells a rank."""
    return {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port)}


def in_world(size: int, task: Callable[[World], Any], seconds: float = 60.0) -> list[Any]:
    """What `task` gives on each rank: processes of one thread that are forked from this one, and can talk."""
    def joining() -> bytes:
        world = find_world()
        with joined(world, meeting_point(world), seconds):
            return pickle.dumps(task(world))  # whole, and not as memory that ends with this rank

    return [pickle.loads(answer) for answer in on_ranks(size, joining)]


def on_ranks(size: int, task: Callable[[], Any]) -> list[Any]:
    """The same of a task that finds its world by itself, as what torchrun starts does. Once one has raised an error,
    the others have a minute for theirs."""
    fork, port = multiprocessing.get_context("fork"), free_port()
    processes, waiting, found = [], dict[Connection, int](), dict[int, Any]()
    for rank in range(size):
        here, there = fork.Pipe()
        process = fork.Process(target=_rank, args=(there, task, variables(rank, size, port)), daemon=True)
        process.start()
        there.close()
        processes.append(process)
        waiting[here] = rank
    patience = None
    try:
        while waiting and (ready := wait(waiting, patience)):
            found |= {waiting.pop(pipe): _answer(pipe) for pipe in ready}
            patience = 60.0 if any(isinstance(answer, RuntimeError) for answer in found.values()) else None
    finally:
        for process in processes:
            process.join(0 if waiting else 60)
            process.kill()
            process.join()
    for answer in map(found.get, range(size)):
        if isinstance(answer, RuntimeError):
            raise answer
    return [found[rank] for rank in range(size)]


def _answer(pipe: Connection) -> Any:
    try:
        return pickle.loads(pipe.recv_bytes())
    except EOFError:
        return RuntimeError("the rank is gone")


def _rank(pipe: Connection, task: Callable[[], Any], told: dict[str, str]) -> None:
    torch.set_num_threads(1)
    os.environ.update(told)
    try:
        pipe.send_bytes(pickle.dumps(task()))
    except BaseException as error:
        pipe.send_bytes(pickle.dumps(RuntimeError(f"rank {told['RANK']}: {error!r}")))


def torchrun(ranks: int, words: list[str], restarts: int = 0) -> list[str]:
    """The command that starts `pellucid` with these words on so many ranks of this machine."""
    return [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(ranks), "--master-port",
            str(free_port()), "--max-restarts", str(restarts), "-m", "pellucid", *words]


def train_with(ranks: int, words: Sequence[str], out: Path, restarts: int = 0) -> subprocess.Popen[bytes]:
    """Trains in `out` by so many ranks; what they tell stands in a file beside it."""
    with (out.parent / f"{out.name}.log").open("ab") as log:
        return subprocess.Popen(torchrun(ranks, [*words, "--out", str(out)], restarts), stderr=log, stdout=log)


def await_checkpoint(process: subprocess.Popen[bytes], out: Path) -> None:
    """Waits until the training in `out` has saved something, or has ended."""
    while process.poll() is None and not (out / "last.json").exists():
        time.sleep(0.01)


def children(process: int) -> list[int]:
    """The processes that a process has started, in the order of their numbers; of ranks, that of their ranks."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            text = stat.read_text()
            if int(text.rpartition(")")[2].split()[1]) == process:
                found.append(int(stat.parent.name))
    return sorted(found)


def arguments_of(about: str, count: int, ranks: int) -> argparse.Namespace:
    """What the command line of a promise on torchrun says."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=count)
    parser.add_argument("--ranks", type=int, default=ranks)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path)
    return parser.parse_args()


def close(number: int, passed: int, of: int, told: object, path: Path | None) -> int:
    """Writes what was found where a path is given, prints the promise's closing line, gives the code of its exit."""
    if path:
        path.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
    print(f"promise {number}: {passed} of {of}")
    return 0 if passed == of else 1
