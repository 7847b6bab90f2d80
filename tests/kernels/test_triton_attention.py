"""Attention in Triton is torch's attention: on a GPU; or by Triton's interpreter, TRITON_INTERPRET=1, which needs none
and does in fp32 what the GPU would. Skipped where there is neither."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.util import find_spec

import pytest
import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from pellucid.kernels import gpu
from pellucid.kernels.attention import attend as any_attend
from pellucid.nn.attention_pattern import AttentionPattern, causal, padding
from pellucid.nn.scaled_dot_product_attention import ScaledDotProductAttention

IS_INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
if not torch.cuda.is_available() and not IS_INTERPRETED:
    pytest.skip("there is no GPU, and TRITON_INTERPRET=1 is not set", allow_module_level=True)
if not find_spec("triton"):
    pytest.skip("triton is not installed", allow_module_level=True)
attend = import_module("pellucid.kernels.triton_attention").attend

DEVICE = torch.device("cpu" if IS_INTERPRETED else "cuda")
TYPES = [torch.float32] if IS_INTERPRETED else [torch.float32, torch.bfloat16]
SIDES = [(5, 5), (1, 1), (1, 30), (17, 40), (64, 64), (33, 3)]


@pytest.fixture(autouse=True)
def on_device() -> Iterator[None]:
    """Tensors lie where the kernels compute."""
    with DEVICE:
        yield


def drawn(queries: int, keys: int, width: int, dtype: torch.dtype) -> tuple[list[Tensor], Tensor]:
    """q, k and v of three sentences, and what comes from above; in memory as heads are before they are merged."""
    q, k, v, upstream = (torch.randn(3, length, 2, width, dtype=dtype).transpose(1, 2)
                         for length in (queries, keys, keys, queries))
    return [q.requires_grad_(), k.requires_grad_(), v.requires_grad_()], upstream


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("width", gpu.WIDTHS)
@pytest.mark.parametrize(("queries", "keys"), SIDES)
@pytest.mark.parametrize("is_padded", [False, True])
@pytest.mark.parametrize("is_causal", [False, True])
def test_weights_and_gradients_are_those_of_torch(
        queries: int, keys: int, width: int, dtype: torch.dtype, is_padded: bool, is_causal: bool) -> None:
    inputs, upstream = drawn(queries, keys, width, dtype)
    real = torch.arange(keys) < torch.tensor([[keys], [keys // 2 + 1], [1]]) if is_padded else None
    seen = torch.ones(3, 1, queries, keys, dtype=torch.bool)
    if is_causal:
        seen = seen & (torch.arange(keys) <= torch.arange(queries)[:, None])
    if real is not None:
        seen = seen & real[:, None, None]
    found = [attend(*inputs, real, is_causal), scaled_dot_product_attention(*inputs, attn_mask=seen)]
    gradients = [torch.autograd.grad(out, inputs, upstream) for out in found]
    close = 1e-5 if dtype == torch.float32 else 3e-2
    torch.testing.assert_close(*found, rtol=close, atol=close)
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other, rtol=close, atol=close)


def test_who_sees_nothing_gets_nothing() -> None:
    inputs, upstream = drawn(7, 9, 16, torch.float32)
    real = torch.ones(3, 9, dtype=torch.bool)
    real[1] = False
    out = attend(*inputs, real, False)
    assert not out[1].any()
    assert not any(gradient[1].any() for gradient in torch.autograd.grad(out, inputs, upstream))


def test_what_is_hidden_is_never_read_into_a_sum() -> None:
    inputs, _ = drawn(4, 6, 16, torch.float32)
    real = torch.arange(6) < torch.tensor([[6], [3], [2]])
    with torch.no_grad():
        before = attend(*inputs, real, False)
        for each in inputs[1:]:
            each.masked_fill_(~real[:, None, :, None], 1e4)
        assert torch.equal(attend(*inputs, real, False), before)


@pytest.mark.parametrize("make", [lambda here, _: causal(here, here),
                                  lambda here, real: causal(here, here) & padding(here, here, real)])
def test_it_is_the_equation_of_a_model(make: Callable[[Tensor, Tensor], AttentionPattern],
                                       monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "serves", lambda x: True)
    inputs, _ = drawn(11, 11, 32, torch.float32)
    pattern = make(torch.arange(11), torch.arange(11) < torch.tensor([[11], [4], [7]]))
    q, k, v = inputs
    torch.testing.assert_close(any_attend(q, k, v, pattern, None),
                               ScaledDotProductAttention().weights(q, k, pattern, None) @ v, rtol=1e-5, atol=1e-5)


def test_torch_compile_takes_it_for_one_operation_of_any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    graphs: list[torch.fx.GraphModule] = []

    def note(graph: torch.fx.GraphModule, _: object) -> object:
        graphs.append(graph)
        return graph.forward

    torch.compiler.reset()
    monkeypatch.setattr(gpu, "serves", lambda x: True)
    compiled = torch.compile(lambda q, k, v, pattern: any_attend(q * 2, k, v, pattern, None) + 1, fullgraph=True,
                             dynamic=True, backend=note)
    for length in (5, 8, 30):
        inputs, upstream = drawn(length, length, 16, torch.float32)
        here = torch.arange(length)
        pattern = causal(here, here)
        assert pattern.grows  # looked at before, as in train/fused.py
        out = compiled(*inputs, pattern)
        expected = scaled_dot_product_attention(inputs[0] * 2, *inputs[1:], is_causal=True) + 1
        torch.testing.assert_close(out, expected, rtol=1e-5, atol=1e-5)
        for one, other in zip(torch.autograd.grad(out, inputs, upstream),
                              torch.autograd.grad(expected, inputs, upstream), strict=True):
            torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)
    assert len(graphs) == 1
    assert any("pellucid.attend" in str(node.target) for node in graphs[0].graph.nodes)


def test_it_is_tried_before_it_is_used() -> None:
    gpu.fault_of.cache_clear()
    with torch.inference_mode():  # as who only decodes asks
        fault = gpu.fault_of(DEVICE)
    if IS_INTERPRETED:  # bf16 is not itself there, and that is found
        assert fault == "attention in triton differs from torch's here"
        assert gpu._is_close(torch.float32, DEVICE)
    else:
        assert fault is None
