"""The optimizer's compiled step and clipping against torch's."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.seeds import reseed
from torch import Tensor, nn

from pellucid.config import TrainConfig
from pellucid.kernels.compiled import use_kernels
from pellucid.train.optimizer import clip_gradients, make_optimizer, optimizer_state, set_learning_rate

pytestmark = pytest.mark.usefixtures("compiled_kernels")
SIZES = st.lists(st.sampled_from([(1,), (7,), (3, 5), (64, 65), (4097,), (2, 4096)]), min_size=1, max_size=4)


def module_of(sizes: list[tuple[int, ...]]) -> nn.ParameterList:
    reseed(0)
    return nn.ParameterList([nn.Parameter(torch.randn(size)) for size in sizes])


def give_gradients(module: nn.Module, number: int, scale: float = 1.0) -> None:
    random = torch.Generator().manual_seed(number)
    for parameter in module.parameters():
        parameter.grad = torch.randn(parameter.shape, generator=random) * scale


def trained(sizes: list[tuple[int, ...]], config: TrainConfig, compiled: bool, steps: int) -> dict[str, Tensor]:
    module = module_of(sizes)
    optimizer = make_optimizer(module, config)
    try:
        use_kernels(torch.device("cpu"), compiled)
        for number in range(1, steps + 1):
            give_gradients(module, number, 10.0 ** -number)
            clip_gradients(list(module.parameters()), 0.5)
            set_learning_rate(optimizer, 0.01 * number)
            optimizer.step()
    finally:
        use_kernels(torch.device("cpu"))
    return {name: p.detach() for name, p in module.named_parameters()} | optimizer_state(module, optimizer)


@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(sizes=SIZES, kind=st.sampled_from(["adam", "adamw"]), decay=st.sampled_from([0.0, 0.3]), steps=st.integers(1, 6))
def test_it_is_torchs(sizes: list[tuple[int, ...]], kind: Any, decay: float, steps: int) -> None:
    """Weights, moments and counts, of matrices and vectors, in blocks and what is left of them."""
    config = TrainConfig(optimizer=kind, weight_decay=decay, betas=(0.8, 0.98), epsilon=1e-6)
    ours, torchs = (trained(sizes, config, compiled, steps) for compiled in (True, False))
    assert ours.keys() == torchs.keys()
    for name, tensor in ours.items():
        step = 0.01 * steps  # of it a few thousandths where decay and gradient almost cancel
        seen = decay * step / 200 if kind == "adam" else 0.0  # by the moments, whose gradients have the decay in them
        torch.testing.assert_close(tensor, torchs[name], rtol=2e-5, msg=name,
                                   atol=1e-6 + seen if "exp_avg" in name else step / 200)


@pytest.mark.parametrize("betas", [(0.9, 0.99999), (0.9, 0.9999999), (0.999999, 0.98)])
def test_betas_may_be_near_1(betas: tuple[float, float]) -> None:
    config = TrainConfig(betas=betas, epsilon=1e-6)
    ours, torchs = (trained([(64, 65)], config, compiled, 5) for compiled in (True, False))
    for name in torchs:
        torch.testing.assert_close(ours[name], torchs[name], rtol=2e-5, msg=name,
                                   atol={"exp_avg": 1e-8, "exp_avg_sq": 0.0}.get(name.split(".")[0], 1e-4))


@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(sizes=SIZES, most=st.sampled_from([0.0, 0.1, 1.0, 1e6, float("inf")]), scale=st.sampled_from([0.0, 1e-3, 1e3]))
def test_clipping_is_torchs(sizes: list[tuple[int, ...]], most: float, scale: float) -> None:
    ours, torchs = module_of(sizes), module_of(sizes)
    for module in (ours, torchs):
        give_gradients(module, 3, scale)
    norm = clip_gradients(list(ours.parameters()), most)
    torch.testing.assert_close(norm, torch.nn.utils.clip_grad_norm_(torchs.parameters(), most), rtol=1e-5, atol=0)
    for one, other in zip(ours.parameters(), torchs.parameters(), strict=True):
        torch.testing.assert_close(one.grad, other.grad, rtol=1e-5, atol=1e-12)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_norm_that_is_not_finite_is_told(value: float) -> None:
    module = module_of([(5,), (4097,)])
    give_gradients(module, 1)
    module[1].grad[4096] = value
    assert not torch.isfinite(clip_gradients(list(module.parameters()), 1.0))


def test_parameters_without_gradients_stay() -> None:
    """And no gradient at all is a norm of 0."""
    module = module_of([(5,), (3, 4)])
    optimizer = make_optimizer(module, TrainConfig())
    set_learning_rate(optimizer, 0.1)
    assert clip_gradients(list(module.parameters()), 1.0) == 0
    module[1].grad = torch.ones(3, 4)
    before = [p.detach().clone() for p in module]
    optimizer.step()
    assert torch.equal(module[0], before[0])
    assert not torch.equal(module[1], before[1])
    assert optimizer.state.keys() == set(module)
    assert not any(tensor.any() for tensor in optimizer.state[module[0]].values())


def test_gradients_that_are_not_dense_in_memory_are_taken_as_they_are() -> None:
    ours, dense = module_of([(4, 6)]), module_of([(4, 6)])
    ours[0].grad = torch.randn(6, 4).t()
    dense[0].grad = ours[0].grad.contiguous()
    for module in (ours, dense):
        optimizer = make_optimizer(module, TrainConfig())
        set_learning_rate(optimizer, 0.1)
        clip_gradients(list(module.parameters()), 1.0)
        optimizer.step()
    torch.testing.assert_close(ours[0], dense[0])
