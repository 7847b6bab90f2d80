"""Several batches at once, each on a thread of its own: nobody waits for anybody inside a step."""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

Batch = TypeVar("Batch")
Result = TypeVar("Result")


def each(decode: Callable[[Batch], Result], batches: Sequence[Batch], threads: int,
         use_threads: Callable[[int], None]) -> Iterator[Result]:
    """decode(batch) for each batch, in order, `threads` of them at once.

    Args:
        use_threads: how many threads a single `decode` takes, for the thread that calls this.
    """
    threads = min(threads, len(batches))
    if threads < 2:
        yield from map(decode, batches)
        return
    from concurrent.futures import ThreadPoolExecutor  # for which a single batch need not wait

    pool = ThreadPoolExecutor(threads, initializer=lambda: use_threads(1))
    try:
        yield from pool.map(decode, batches)
    finally:
        pool.shutdown(cancel_futures=True)
