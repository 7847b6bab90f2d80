"""What the compiled passes bring, one by one: `python -m benchmarks.techniques [--repeat N]`.

Each is computed forward and backward by its plain equation and by the kernels, in turns, on one thread, as training
calls it (bf16 where the processor multiplies it): milliseconds, the least of N. The first row is a product of torch in
fp32 beside one in bf16.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import torch
from torch import Tensor

from benchmarks.arguments import positive
from pellucid.kernels.compiled import use_kernels
from pellucid.kernels.levels import multiplies_bf16
from pellucid.nn.attention_pattern import AttentionPattern
from pellucid.nn.cross_entropy import linear_cross_entropy
from pellucid.nn.dropout import Dropout
from pellucid.nn.positional_encoding import RotaryPosition
from pellucid.nn.r_drop import linear_r_drop
from pellucid.nn.scaled_dot_product_attention import ScaledDotProductAttention

CPU = torch.device("cpu")


def leaf(*shape: int) -> Tensor:
    """Random numbers that want a gradient."""
    return torch.randn(*shape, requires_grad=True)


def projected(sentences: int, tokens: int, heads: int, width: int) -> list[Tensor]:
    """Queries, keys and values as the projections leave them."""
    dtype = torch.bfloat16 if multiplies_bf16() else torch.float32
    joint = torch.randn(sentences, tokens, 3 * width).to(dtype).requires_grad_()
    return [part.unflatten(2, (heads, -1)).transpose(1, 2) for part in torch.split(joint, width, dim=2)]


def attention(sentences: int, tokens: int, heads: int, width: int) -> Callable[[], Tensor]:
    """Sentences that look at themselves."""
    q, k, v = projected(sentences, tokens, heads, width)
    places = torch.arange(tokens)
    pattern, attend = AttentionPattern(places, places), ScaledDotProductAttention()
    return lambda: attend(q, k, v, pattern, None).sum()


def rotary(sentences: int, tokens: int, heads: int, width: int) -> Callable[[], Tensor]:
    """Queries of sentences, turned by their positions."""
    q, _, _ = projected(sentences, tokens, heads, width)
    position, places = RotaryPosition(width // heads), torch.arange(tokens)
    return lambda: position.rotate(q, places).sum()


def passes() -> dict[str, Callable[[], Tensor]]:
    """Name → a pass; what it returns is a scalar to go back from."""
    dropout, x, y = Dropout(0.1), leaf(4096, 256), leaf(4096, 256)
    hidden, weight, targets = leaf(2048, 128), leaf(8000, 128), torch.randint(8000, (2048,))
    both, words, wanted = leaf(2, 4096, 128), leaf(10_000, 128), torch.randint(10_000, (4096,))
    return {"dropout and residual sum, 4,096 × 256": lambda: dropout.add(x, y).sum(),
            "attention, 290 sentences of 14 tokens, width 256": attention(290, 14, 4, 256),
            "attention, 290 sentences of 14 tokens, width 128": attention(290, 14, 4, 128),
            "rotary positions, 30 windows of 272 tokens, width 192": rotary(30, 272, 4, 192),
            "output and loss, 2,048 targets, 8,000 words, width 128":
                lambda: linear_cross_entropy(hidden, weight, targets, 0.1),
            "R-Drop, 4,096 targets, 10,000 words, width 128": lambda: linear_r_drop(both, words, wanted, 0.1, 1.0)}


def seconds(work: Callable[[], object]) -> float:
    """Of one call."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def products(repeat: int) -> list[float]:
    """Seconds of a product of 4,096 × 128 by 128 × 128 in fp32, and in bf16, the least of each."""
    least = []
    for dtype in (torch.float32, torch.bfloat16):
        a, b = torch.randn(4096, 128).to(dtype), torch.randn(128, 128).to(dtype)
        least.append(min(seconds(lambda a=a, b=b: a @ b) for _ in range(20 * repeat)))  # type: ignore[misc]
    return least


def main() -> None:
    """Prints a row for each pass."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=positive, default=30)
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(1)
    print("| one thread, ms | plain | here | × |\n|---|---|---|---|")
    rows = {"product, 4,096 × 128 × 128: fp32, bf16": products(args.repeat)} if multiplies_bf16() else {}
    for name, work in passes().items():
        least = [float("inf"), float("inf")]
        for turn in range(2 * (args.repeat + 1)):  # the first turn of each warms up
            if (said := use_kernels(CPU, wanted=bool(turn % 2))) != "compiled" and turn % 2:
                raise SystemExit(f"there are no kernels: {said}")
            with torch.autocast("cpu", torch.bfloat16, enabled=multiplies_bf16()):
                taken = seconds(lambda work=work: work().backward(retain_graph=True))  # type: ignore[misc]
            if turn > 1:
                least[turn % 2] = min(least[turn % 2], taken)
        rows[name] = least
    for name, (plain, here) in rows.items():
        print(f"| {name} | {1e3 * plain:.2f} | {1e3 * here:.2f} | {plain / here:.1f} |")


if __name__ == "__main__":
    main()
