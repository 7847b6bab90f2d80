"""Products over packed weights are those of the plain equation, in every precision and for any number of rows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.seeds import reseed
from torch import Tensor, nn

from pellucid.engine.layout import APART, Activation, Buffer, Execution
from pellucid.engine.program import Program
from pellucid.engine.widths import Projection

pytestmark = pytest.mark.usefixtures("compiled_kernels")

ACTIVATIONS: dict[Activation, Callable[[Tensor], Tensor]] = {
    Activation.LINEAR: lambda x: x, Activation.RELU: F.relu, Activation.GELU: F.gelu, Activation.SWISH: F.silu,
    Activation.GELU_TANH: lambda x: F.gelu(x, approximate="tanh")}


def product(x: Tensor, layer: nn.Linear | Projection, precision: str) -> Tensor:
    """x [R, D] through `layer`; sums as they are."""
    program = Program(precision, x.shape[1])
    program.multiply(Buffer.LOGITS, Projection(layer.weight, layer.bias))
    return run(program, x)


def run(program: Program, x: Tensor) -> Tensor:
    """What a program that reads x writes as logits."""
    buffers = program.buffers(len(x)) | {Buffer.TYPED: nn.functional.pad(x, (0, APART)).to(program.dtype)}
    places = np.zeros(Buffer.REMEMBERED, dtype=np.int64)
    for number, buffer in buffers.items():
        places[number] = buffer.data_ptr()
    program.run(Execution(buffers=places.ctypes.data, rows=len(x), seen=1, longest=1))
    return buffers[Buffer.LOGITS]


def drawn(rows: int, inner: int, outer: int, seed: int) -> tuple[Tensor, nn.Linear]:
    reseed(seed)
    return torch.randn(rows, inner), nn.Linear(inner, outer).requires_grad_(False)


SIZES = {"rows": st.integers(1, 210), "lanes": st.integers(1, 6), "outer": st.integers(1, 150),
         "seed": st.integers(0, 999)}


@settings(deadline=None)
@given(**SIZES)
def test_in_fp32_and_bf16(rows: int, lanes: int, outer: int, seed: int) -> None:
    x, layer = drawn(rows, 16 * lanes, outer, seed)
    torch.testing.assert_close(product(x, layer, "fp32"), layer(x), atol=1e-5, rtol=1e-5)
    rounded = nn.functional.linear(x.bfloat16().float(), layer.weight.bfloat16().float(), layer.bias)
    torch.testing.assert_close(product(x, layer, "bf16"), rounded, atol=1e-5, rtol=1e-5)


@settings(deadline=None)
@given(**SIZES)
def test_in_bytes_products_of_whole_numbers_are_exact(rows: int, lanes: int, outer: int, seed: int) -> None:
    x, layer = drawn(rows, 16 * lanes, outer, seed)
    x = torch.randint(-127, 128, x.shape).float()
    weight = torch.randint(-127, 128, layer.weight.shape).float()
    x[:, -1] = weight[:, 0] = 127  # the largest, so that nothing is scaled
    layer.weight.copy_(weight)
    assert torch.equal(product(x, layer, "int8"), x @ weight.T + layer.bias)


def test_in_bytes_others_are_near() -> None:
    x, layer = drawn(50, 96, 70, 1)
    mistake = (product(x, layer, "int8") - layer(x)).square().mean().sqrt()
    assert mistake < 0.02 * layer(x).square().mean().sqrt()


def test_a_row_has_the_same_bits_beside_any_others() -> None:
    x, layer = drawn(200, 64, 130, 1)
    for precision in ("fp32", "bf16", "int8"):
        together = product(x, layer, precision)
        for rows in ([0], [199, 5], list(range(7, 140))):
            assert torch.equal(product(x[rows], layer, precision), together[rows])


@pytest.mark.parametrize("activation", Activation)
def test_activations_are_torch_s(activation: Activation) -> None:
    program, x = Program("fp32", 16), torch.linspace(-30, 30, 16 * 99).view(99, 16)
    program.multiply(Buffer.LOGITS, Projection(torch.eye(16), None), activation=activation)
    torch.testing.assert_close(run(program, x), ACTIVATIONS[activation](x), atol=1e-5, rtol=1e-5)
