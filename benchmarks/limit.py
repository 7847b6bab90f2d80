"""The limit: how long the matrix products of an update would take alone, each at its best.

The products are those of the projections, the feed-forward layers, the scores and the output, forward and twice
backward, over real tokens only. Each distinct shape is timed in fp32 and in bf16, whole and in chunks of rows that fit
the cache, into memory that is there already; the fastest counts.
"""

from __future__ import annotations

import statistics
import time
from collections import Counter
from typing import Any

import numpy as np
import torch

from pellucid.kernels.levels import multiplies_bf16

Shape = tuple[int, int, int, int]  # products side by side, rows, inner, columns


def products(m: dict[str, Any], batch: tuple[np.ndarray, np.ndarray]) -> Counter[Shape]:
    """Every product of one update on `batch` (padded ids, 0 is padding), with its number."""
    source, target = ((side != 0) for side in batch)
    d, f, h = m["d_model"], m["d_ff"], m["n_heads"]
    s, t, sentences = int(source.sum()), int(target.sum()), len(source)
    mean_s, mean_t = round(s / sentences), round(t / sentences)
    forward: Counter[Shape] = Counter()
    for _ in range(m["encoder_layers"]):
        forward.update([(1, s, d, 3 * d), (1, s, d, d), (1, s, d, f), (1, s, f, d)])
        forward.update(_attention(sentences * h, mean_s, mean_s, d // h))
    for _ in range(m["decoder_layers"]):
        forward.update([(1, t, d, 3 * d), (1, t, d, d), (1, t, d, d), (1, s, d, 2 * d), (1, t, d, d), (1, t, d, f),
                        (1, t, f, d)])
        forward.update(_attention(sentences * h, mean_t, mean_t, d // h))
        forward.update(_attention(sentences * h, mean_t, mean_s, d // h))
    if m["classes"]:
        forward.update([(1, sentences, d, d), (1, sentences, d, m["classes"])])
    else:
        forward.update([(1, t, d, m["vocabulary"])])
    every: Counter[Shape] = Counter()
    for (n, rows, inner, columns), count in forward.items():
        every[n, rows, inner, columns] += count
        every[n, rows, columns, inner] += count  # the gradient of the input
        every[n, inner, rows, columns] += count  # the gradient of the weight
    return every


def _attention(n: int, queries: int, keys: int, width: int) -> list[Shape]:
    return [(n, queries, width, keys), (n, queries, keys, width)]


def flops(shapes: Counter[Shape]) -> int:
    """Floating-point operations, two for each multiplication and addition."""
    return sum(2 * n * rows * inner * columns * count for (n, rows, inner, columns), count in shapes.items())


class Limit:
    """Times each shape once, and remembers."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._known: dict[Shape, float] = {}

    def seconds(self, shapes: Counter[Shape]) -> float:
        """Of all the products, one after the other."""
        return sum(count * self._best(shape) for shape, count in shapes.items())

    def _best(self, shape: Shape) -> float:
        if shape not in self._known:
            is_imitated = self.device.type == "cpu" and not multiplies_bf16()  # which takes minutes
            dtypes = [torch.float32] if is_imitated else [torch.float32, torch.bfloat16]
            times = [self._time(shape, dtype, rows) for dtype in dtypes for rows in {shape[1], min(shape[1], 512)}]
            self._known[shape] = min(times)
        return self._known[shape]

    def _time(self, shape: Shape, dtype: torch.dtype, chunk: int) -> float:
        n, rows, inner, columns = shape
        lead = (n,) if n > 1 else ()
        a = torch.randn(*lead, rows, inner, device=self.device).to(dtype)
        b = torch.randn(*lead, columns, inner, device=self.device).to(dtype).transpose(-2, -1)
        out = torch.empty(*lead, min(rows, chunk), columns, dtype=dtype, device=self.device)

        def run() -> None:
            for start in range(0, rows, chunk):
                piece = a[..., start : start + chunk, :]
                torch.matmul(piece, b, out=out[..., : piece.shape[-2], :])

        def run_all() -> None:
            for _ in range(calls):
                run()
            if self.device.type == "cuda":
                torch.cuda.synchronize()

        calls = 20 if self.device.type == "cuda" else 1  # a GPU computes while it is told what comes next
        run_all()
        times = []
        for _ in range(3):
            started = time.perf_counter()
            run_all()
            times.append((time.perf_counter() - started) / calls)
        return statistics.median(times)
