"""What a server has done, in the text format of Prometheus."""

from __future__ import annotations

import bisect
import time
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pellucid.serve.scheduler import Scheduler

_BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)  # seconds


class Metrics:
    """Counts of requests by outcome, and how long they took."""

    def __init__(self) -> None:
        self.under_way = 0
        self._requests: Counter[tuple[str, int]] = Counter()
        self._seconds: Counter[int] = Counter()
        self._sum = 0.0

    def begin(self) -> float:
        """A request has come; what `end` wants to know."""
        self.under_way += 1
        return time.perf_counter()

    def end(self, path: str, status: int, begun: float) -> None:
        """It was answered.

        Args:
            path: of its route, of which there are only so many.
        """
        seconds = time.perf_counter() - begun
        self.under_way -= 1
        self._requests[path, status] += 1
        self._seconds[bisect.bisect_left(_BOUNDS, seconds)] += 1
        self._sum += seconds

    def text(self, queue: Scheduler) -> str:
        """All of it, in the exposition format 0.0.4."""
        return "\n".join(self._lines(queue)) + "\n"

    def _lines(self, queue: Scheduler) -> Iterator[str]:
        for name, kind, told, value in (
                ("requests_under_way", "gauge", "requests that are not answered yet", self.under_way),
                ("queue_requests", "gauge", "requests of which something waits to be decoded", queue.waiting),
                ("queue_seconds", "gauge", "predicted time until what waits is decoded", queue.predicted),
                ("batches_total", "counter", "batches that were decoded", queue.batches),
                ("texts_total", "counter", "texts that were decoded", queue.texts),
                ("decoding_seconds_total", "counter", "time that the decoding threads have worked", queue.seconds)):
            yield from _head(name, kind, told)
            yield f"pellucid_{name} {value:.15g}"  # to the last text: a rate is a difference
        yield from _head("requests_total", "counter", "requests that were answered, by path and status")
        for (path, status), count in sorted(self._requests.items()):
            yield f'pellucid_requests_total{{path="{path}",status="{status}"}} {count}'
        yield from _head("request_seconds", "histogram", "time from a request to its answer")
        below = 0
        for place, bound in enumerate(_BOUNDS):
            below += self._seconds[place]
            yield f'pellucid_request_seconds_bucket{{le="{bound:g}"}} {below}'
        total = sum(self._seconds.values())
        yield f'pellucid_request_seconds_bucket{{le="+Inf"}} {total}'
        yield f"pellucid_request_seconds_sum {self._sum:.6f}"
        yield f"pellucid_request_seconds_count {total}"


def _head(name: str, kind: str, told: str) -> Iterator[str]:
    yield f"# HELP pellucid_{name} {told}"
    yield f"# TYPE pellucid_{name} {kind}"
