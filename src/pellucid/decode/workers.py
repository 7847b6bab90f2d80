"""Several batches at once, each on a thread of its own: nobody waits for anybody inside a step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import torch

from pellucid.decode.engine import Engine
from pellucid.decode.step import Step
from pellucid.nn import kernels

Batch = TypeVar("Batch")
Result = TypeVar("Result")


def each(decode: Callable[[Batch], Result], batches: Sequence[Batch], step: Step[Any, Any]) -> Iterator[Result]:
    """decode(batch) for each batch, in order.

    The engine's kernels let other threads of Python run meanwhile, so it decodes as many batches at once as torch has
    threads. The plain step's do not, and a single batch is better shared by all threads.
    """
    threads = min(torch.get_num_threads(), len(batches))
    if threads < 2 or not isinstance(step, Engine):
        yield from map(decode, batches)
        return
    pool = ThreadPoolExecutor(threads, initializer=lambda: kernels.use_threads(1))
    try:
        yield from pool.map(decode, batches)
    finally:
        pool.shutdown(cancel_futures=True)
