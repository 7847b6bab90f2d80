"""What decoding would take if a step were nothing but its matrix products, each at its best, or nothing but reading
the bytes it needs, whichever takes longer; before the steps, the encoder's products and those of the cross-attention's
keys and values.

A step's products: the projections, the feed-forward layers and the output, for every live hypothesis, and attention
over half of the target and all of the source, in which the beams of a sentence are queries side by side. Its bytes, in
bf16: the decoder's weights, the output matrix, and the keys and values.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass
from typing import Any

import torch

from benchmarks.decode_job import Job
from benchmarks.limit import Limit, Shape, flops

SENTENCES, TOKENS = 256, 8192  # decoded together, at most: enough for the products to be at their best


@dataclass(frozen=True)
class Bound:
    """The limit of a job: for a step of a full batch, and for all of it."""

    rows: int  # hypotheses in a step
    flops: float  # of a step
    bytes: int  # that a step reads
    product_seconds: float
    byte_seconds: float
    tokens_per_second: float

    def __str__(self) -> str:
        return (f"a step of {self.rows} hypotheses: {self.flops / 1e9:.2f} GFLOP in {self.product_seconds * 1e3:.2f} "
                f"ms, {self.bytes / 1e6:.1f} MB in {self.byte_seconds * 1e3:.2f} ms; limit "
                f"{self.tokens_per_second:,.0f} tokens/s")


def bound_of(job: Job, target: float, limit: Limit) -> Bound:
    """The limit of a job whose outputs have `target` tokens in the mean."""
    source = sum(map(len, job.sources)) / len(job.sources)
    sentences = 1 if job.one_by_one else min(len(job.sources), SENTENCES, max(1, round(TOKENS / source)))
    m, beams = job.model, job.search.beam_size
    products = step_products(m, sentences, beams, round(source), max(1, round(target / 2)))
    size = step_bytes(m, sentences, beams, source, target / 2)
    product_seconds, byte_seconds = limit.seconds(products), reading_seconds(size)
    before = limit.seconds(source_products(m, sentences, round(source)))
    whole = before + target * max(product_seconds, byte_seconds)
    return Bound(sentences * beams, flops(products), size, product_seconds, byte_seconds, sentences * target / whole)


def source_products(m: dict[str, Any], sentences: int, source: int) -> Counter[Shape]:
    """The products before the first step."""
    d, f, h, rows = m["d_model"], m["d_ff"], m["n_heads"], sentences * source
    products: Counter[Shape] = Counter()
    for _ in range(m["encoder_layers"]):
        products.update([(1, rows, d, 3 * d), (1, rows, d, d), (1, rows, d, f), (1, rows, f, d)])
        products.update([(sentences * h, source, d // h, source), (sentences * h, source, source, d // h)])
    for _ in range(m["decoder_layers"]):
        products.update([(1, rows, d, 2 * d)])
    return products


def step_products(m: dict[str, Any], sentences: int, beams: int, source: int, target: int) -> Counter[Shape]:
    """The products of a step after `target` tokens."""
    d, f, h, rows = m["d_model"], m["d_ff"], m["n_heads"], sentences * beams
    products: Counter[Shape] = Counter()
    for _ in range(m["decoder_layers"]):
        products.update([(1, rows, d, 3 * d), *[(1, rows, d, d)] * 3, (1, rows, d, f), (1, rows, f, d)])
        products.update([(rows * h, 1, d // h, target), (rows * h, 1, target, d // h)])
        products.update([(sentences * h, beams, d // h, source), (sentences * h, beams, source, d // h)])
    products.update([(1, rows, d, m["vocabulary"])])
    return products


def step_bytes(m: dict[str, Any], sentences: int, beams: int, source: float, target: float) -> int:
    """The bytes that a step reads, two for each number."""
    d, f = m["d_model"], m["d_ff"]
    weights = m["decoder_layers"] * (6 * d * d + 2 * d * f) + d * m["vocabulary"]
    kept = m["decoder_layers"] * 2 * d * sentences * (beams * target + source)
    return int(2 * (weights + kept))


def reading_seconds(size: int) -> float:
    """To read so many bytes that were read just before: from the caches, as far as they fit there."""
    buffer = torch.ones(max(size // 4, 1))
    buffer.sum()
    times = []
    for _ in range(5):
        started = time.perf_counter()
        buffer.sum()
        times.append(time.perf_counter() - started)
    return min(times)
