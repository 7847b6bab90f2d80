"""A part of the work that another process does meanwhile: forked from this one, it knows all that this one knows."""

import contextlib
import json
import signal
from collections.abc import Callable, Iterator
from multiprocessing import get_context
from multiprocessing.connection import Connection

import torch

from pellucid.errors import UserError, error_in, in_words
from pellucid.train.workers import can_fork, on_threads

Work = Callable[[], list[str]]


@contextlib.contextmanager
def meanwhile(work: Work) -> Iterator[Work]:
    """Has another process do `work` while this one goes on, with a thread less; what is yielded waits for what comes
    of it. The process ends with the context. Where there is but one thread, or none can be forked, the work is done
    when it is waited for.

    Raises:
        UserError: what the work raises, where it is waited for; or its process is gone.
    """
    threads = torch.get_num_threads()
    if threads == 1 or not can_fork():
        yield work
        return
    fork = get_context("fork")
    here, there = fork.Pipe(duplex=False)
    process = fork.Process(target=_tell, args=(there, work), daemon=True)
    process.start()
    there.close()
    try:
        with on_threads(threads - 1):
            yield lambda: _answer(here)
    finally:
        process.kill()  # there is nothing to be lost
        process.join()
        here.close()


def _tell(pipe: Connection, work: Work) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that waits decides
    try:
        answer: dict[str, object] = {"done": work()}
    except Exception as error:
        answer = {"error": in_words(error)}
    with contextlib.suppress(OSError):  # nobody waits any more
        pipe.send_bytes(json.dumps(answer).encode())


def _answer(pipe: Connection) -> list[str]:
    try:
        answer = json.loads(pipe.recv_bytes())
    except EOFError:
        raise UserError("the process that did a part of the work is gone", why="out of memory perhaps",
                        fix="OMP_NUM_THREADS=1 does all of it in one") from None
    if "error" in answer:
        raise error_in(answer["error"], "another process")
    done: list[str] = answer["done"]
    return done
