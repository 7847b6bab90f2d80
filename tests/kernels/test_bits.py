"""Products in fp32 and in bytes have the same bits on every processor: those of a sum that is made here in the order of
the inner numbers, each product and sum rounded once. So have rotary turns by given sines and cosines."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from tests.engine.test_program import drawn, product

from pellucid.engine.widths import Projection
from pellucid.kernels import rotary

pytestmark = pytest.mark.usefixtures("compiled_kernels")

F32 = NDArray[np.float32]


def fused(a: F32, b: F32, c: F32) -> F32:
    """a · b + c, rounded once. In float64 the product is exact; a sum that is not is rounded to an odd number there, so
    that rounding it again does no harm (Boldo and Melquiond, 2008)."""
    x, y = a.astype(np.float64) * b, c.astype(np.float64)
    total = x + y
    part = total - x
    lost = (x - (total - part)) + (y - part)  # exactly (Knuth's two-sum)
    is_even = total.view(np.int64) & 1 == 0
    odd = np.nextafter(total, np.where(lost > 0, np.inf, -np.inf))
    return np.where((lost != 0) & is_even, odd, total).astype(np.float32)


def in_order(x: F32, weight: F32) -> F32:
    """x [R, D] times weight [V, D]."""
    total = np.zeros((len(x), len(weight)), dtype=np.float32)
    for k in range(x.shape[1]):
        total = fused(x[:, k, None], weight[None, :, k], total)
    return total


def in_bytes(x: F32, weight: F32) -> F32:
    """The same with the rows of both in bytes, 127 the largest number of each; x in bf16 as it comes."""
    highest = np.abs(x).max(1, keepdims=True)
    gain = np.maximum(np.abs(weight).max(1), np.float32(1e-30)) / np.float32(127)
    scale = np.broadcast_to(np.float32(127) / highest, x.shape)
    bytes_of_x = np.trunc(fused(scale, x, np.full_like(x, 128.5))).astype(np.int64) - 128
    bytes_of_weight = np.rint(weight / gain[:, None]).astype(np.int64)
    whole = (bytes_of_x @ bytes_of_weight.T).astype(np.float32)
    return whole * (highest / np.float32(127) * gain)


def bits(numbers: torch.Tensor) -> torch.Tensor:
    return numbers.view(torch.int32)


@pytest.mark.parametrize(("rows", "inner", "outer"), [(1, 16, 1), (7, 64, 33), (50, 96, 70), (101, 32, 130)])
def test_products(rows: int, inner: int, outer: int) -> None:
    x, layer = drawn(rows, inner, outer, seed=rows)
    x, weight = x.bfloat16().float(), layer.weight
    for precision, plain in (("fp32", in_order), ("int8", in_bytes)):
        expected = torch.from_numpy(plain(x.numpy(), weight.numpy()))
        assert torch.equal(bits(product(x, Projection(weight, None), precision)), bits(expected))


def test_the_reference_rounds_once() -> None:
    """2⁻²⁴ · (1 + 2⁻²³) is just above half of the last place of 1: added to it, and rounded once, it is the next one;
    a product rounded to bf16's or fp32's half before would go to even."""
    a, b, c = (np.array([n], dtype=np.float32) for n in (2.0**-24, 1 + 2.0**-23, 1))
    assert fused(a, b, c)[0] == np.float32(1 + 2.0**-23)
    tiny = np.array([2.0**-40], dtype=np.float32)  # lost in float64, where 1 + 2⁻²⁴ looks like a tie
    assert fused(tiny, tiny, np.array([1 + 2.0**-23], dtype=np.float32))[0] == np.float32(1 + 2.0**-23)


@pytest.mark.parametrize("width", [2, 16, 30, 48])
def test_turns(width: int) -> None:
    """x ⊙ one + (x with the two of each pair exchanged) ⊙ other, the sum rounded once with its first product."""
    heads, angles = torch.randn(2, 3, 5, width), torch.randn(5, width // 2)
    x, one = heads.numpy(), angles.cos().repeat_interleave(2, -1).expand_as(heads).numpy()
    other = torch.stack([-angles.sin(), angles.sin()], -1).flatten(-2).expand_as(heads).numpy()
    exchanged = x.reshape(-1, 2)[:, ::-1].reshape(x.shape)
    assert rotary.serves(heads, angles)
    assert torch.equal(bits(rotary.turn(heads, angles)), bits(torch.from_numpy(fused(x, one, exchanged * other))))
