"""Workers: processes of one thread each, this one among them, which compute parts of an update with the same weights.

Threads that share every operation meet hundreds of times an update, and one that spins burns the time of one that is
late. Workers meet once: each is told its part, computes and answers, and to wait is to read from a pipe. The weights
lie in memory that all of them see, so a step of the optimizer here is seen there; gradients are added in the order of
the workers, so that as many of them give the same bits. A worker holds nothing of its own, and ends with this process.
"""

import contextlib
import gc
import json
import mmap
import os
import signal
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing import Pipe
from multiprocessing.connection import Connection

import safetensors.torch
import torch
from torch import Tensor
from torch.autograd.graph import increment_version

from pellucid.errors import UserError, error_in, in_words

Tensors = dict[str, Tensor]
Task = Callable[[int, Tensors], list[float]]  # of a worker's number and what it is sent; numbers alone come back
_LINE = 16  # floats in a line of the cache, which every tensor begins with
_TOKENS = 512  # source and target tokens of a part that is worth a worker


def can_fork() -> bool:
    """Whether a process that has loaded torch can be forked: on macOS its libraries forbid it, and a GPU does."""
    return hasattr(os, "fork") and sys.platform != "darwin" and not torch.cuda.is_available()


@dataclass
class Worker:
    """One of the other processes, the pipe to it, and its gradients of each parameter in memory that both see."""

    process: int
    pipe: Connection
    gradients: list[Tensor]


@dataclass
class Workers:
    """So many processes, this one among them.

    Attributes:
        count: of all of them.
        threads: that each takes; None leaves the number to torch.
    """

    count: int
    threads: int | None
    _others: list[Worker] = field(default_factory=list)

    @property
    def all_threads(self) -> int:
        """Of all of them together."""
        return self.count * (self.threads or torch.get_num_threads())

    @property
    def processes(self) -> list[int]:
        """Of the others, while they are there."""
        return [worker.process for worker in self._others]

    def __str__(self) -> str:
        each = self.all_threads // self.count
        return (f"{self.count} worker{'s' if self.count > 1 else ''} of "
                f"{'one thread' if each == 1 else f'{each} threads'}")

    @contextlib.contextmanager
    def started(self, parameters: Sequence[Tensor], tasks: dict[str, Task]) -> Iterator[None]:
        """The workers are there while this lasts, and nothing here takes another thread.

        Args:
            parameters: of the model; they move to memory that all see, and are written to in place from here on.
            tasks: what a worker can be asked for, by name.
        """
        with on_threads(self.threads or torch.get_num_threads()):
            if self.count > 1:
                for parameter, place in zip(parameters, _shared_like(parameters), strict=True):
                    parameter.data = place.copy_(parameter.detach())
            try:
                for number in range(1, self.count):
                    self._fork(number, parameters, tasks)
                yield
            finally:
                while self._others:
                    worker = self._others.pop()
                    worker.pipe.close()
                    with contextlib.suppress(ProcessLookupError, ChildProcessError):
                        os.kill(worker.process, signal.SIGKILL)  # there is nothing to be lost
                        os.waitpid(worker.process, 0)

    @contextlib.contextmanager
    def asked(self, task: str, parts: Sequence[Tensors]) -> Iterator[list[list[float]]]:
        """As many of the others as there are parts do a task while this lasts; the list then has what they answered.

        Raises:
            UserError: what a worker raised; or one has ended, with the exit code of its signal.
        """
        asked = self._others[: len(parts)]
        answers: list[list[float]] = []
        for number, (worker, part) in enumerate(zip(asked, parts, strict=True), start=1):
            with self._noticing(number, worker):
                worker.pipe.send_bytes(task.encode())
                worker.pipe.send_bytes(safetensors.torch.save(part))
        try:
            yield answers
        finally:  # nobody's answer is left for the next task
            told = []
            for number, worker in enumerate(asked, start=1):
                with self._noticing(number, worker):
                    told.append(json.loads(worker.pipe.recv_bytes()))
        for number, answer in enumerate(told, start=1):
            if "error" in answer:
                raise error_in(answer["error"], f"worker {number} of {self.count}")
            answers.append(answer["numbers"])

    @torch.no_grad()
    def add_gradients(self, parameters: Sequence[Tensor], answers: Sequence[list[float]]) -> None:
        """Adds the gradients of all others who had something to do to those here, in the order of the workers."""
        for worker, answer in zip(self._others, answers, strict=True):
            if answer:
                for parameter, there in zip(parameters, worker.gradients, strict=True):
                    if parameter.grad is None and bool(there.any()):
                        parameter.grad = torch.zeros_like(parameter)
                torch._foreach_add_(*_both(parameters, worker.gradients))

    def _fork(self, number: int, parameters: Sequence[Tensor], tasks: dict[str, Task]) -> None:
        """Starts worker `number`, which never returns from here."""
        here, there = Pipe()
        gradients = _shared_like(parameters)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of threads, which wait for work that will not come
            process = os.fork()
        if process:
            there.close()
            self._others.append(Worker(process, here, gradients))
            return
        try:
            for pipe in (here, *(worker.pipe for worker in self._others)):
                pipe.close()  # else nobody would read the end of it when the main process is gone
            _serve(number, there, parameters, gradients, tasks)
        finally:
            os._exit(0)

    @contextlib.contextmanager
    def _noticing(self, number: int, worker: Worker) -> Iterator[None]:
        """Turns the end of a pipe into an error that says how its worker ended."""
        try:
            yield
        except (EOFError, OSError):
            code = os.waitstatus_to_exitcode(os.waitpid(worker.process, 0)[1])
            self._others.remove(worker)
            how = f"ended by {signal.Signals(-code).name}" if code < 0 else f"it left with code {code}"
            error = UserError(f"worker {number} of {self.count} is gone", why=how + (
                ", out of memory perhaps" if code == -signal.SIGKILL else ""),
                fix="run the same command again: it goes on from the last checkpoint")
            error.exit_code = 128 - code if code < 0 else 1
            raise error from None


def choose_workers(wanted: int | None, tokens: int) -> Workers:
    """As many as are wanted; else one for each thread that torch would take, as far as updates of so many source and
    target tokens have work for them. Where processes cannot be forked there is one, with torch's threads."""
    if not can_fork():
        return Workers(1, None)
    return Workers(wanted or max(1, min(torch.get_num_threads(), tokens // _TOKENS)), 1)


def _serve(number: int, pipe: Connection, parameters: Sequence[Tensor], gradients: list[Tensor],
           tasks: dict[str, Task]) -> None:
    """What a worker does until the main process closes its end: one task after another."""
    for stop in (signal.SIGINT, signal.SIGTERM):
        signal.signal(stop, signal.SIG_IGN)  # the main process decides
    gc.freeze()  # what was made before stays where both see it
    torch.set_num_threads(1)
    with contextlib.suppress(EOFError, OSError):
        while True:
            task, part = pipe.recv_bytes().decode(), safetensors.torch.load(pipe.recv_bytes())
            increment_version(parameters)  # the main process has written to them
            for parameter in parameters:
                parameter.grad = None
            try:
                answer: dict[str, object] = {"numbers": tasks[task](number, part)}
                if any(parameter.grad is not None for parameter in parameters):
                    _leave(parameters, gradients)
            except Exception as error:
                answer = {"error": in_words(error)}
            pipe.send_bytes(json.dumps(answer).encode())


def _leave(parameters: Sequence[Tensor], gradients: Sequence[Tensor]) -> None:
    """Copies what parameters have of gradients to where all see them; zeros, of one that has none."""
    found, places = _both(parameters, gradients)
    torch._foreach_copy_(places, found)
    for parameter, place in zip(parameters, gradients, strict=True):
        if parameter.grad is None:
            place.zero_()


def _both(parameters: Sequence[Tensor], gradients: Sequence[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
    """The gradients that parameters have, and their places among `gradients`, which has one for each parameter."""
    pairs = [(p.grad, place) for p, place in zip(parameters, gradients, strict=True) if p.grad is not None]
    return [found for found, _ in pairs], [place for _, place in pairs]


def _shared_like(tensors: Sequence[Tensor]) -> list[Tensor]:
    """Zeros of the same shapes, in memory that stays one in processes that are forked."""
    sizes = [-(-tensor.numel() // _LINE) * _LINE for tensor in tensors]
    room = torch.frombuffer(mmap.mmap(-1, 4 * sum(sizes)), dtype=torch.float32)
    parts = zip(torch.split(room, sizes), tensors, strict=True)
    return [part[: tensor.numel()].view(tensor.shape) for part, tensor in parts]


@contextlib.contextmanager
def on_threads(count: int) -> Iterator[None]:
    """So many threads of torch, and of the kernels with it, while this lasts."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
