"""What computes on a GPU is tried before it is used, and says why where it is not."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from pellucid.kernels import calls, compiled, gpu

CUDA = torch.device("cuda")


@pytest.fixture(autouse=True)
def as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The process computes afterwards as it did before."""
    monkeypatch.setattr(gpu, "_is_used", False)
    monkeypatch.setattr(compiled, "_chosen", None)
    monkeypatch.setattr(gpu, "find_spec", lambda name: name)
    gpu.fault_of.cache_clear()
    with calls.rehearse(()):
        yield
    gpu.fault_of.cache_clear()


def fails(dtype: torch.dtype, device: torch.device) -> bool:
    raise OSError("no compiler\nis there")


@pytest.mark.parametrize(("is_close", "said"), [
    (lambda dtype, device: True, "compiled"),
    (lambda dtype, device: dtype == torch.float32, "plain: attention in triton differs from torch's here"),
    (fails, "plain: triton fails here (OSError: no compiler)")])
def test_it_is_used_where_it_computes_what_torch_does(is_close: object, said: str,
                                                      monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "_is_close", is_close)
    assert compiled.use_kernels(CUDA) == said == compiled.chosen()
    assert gpu.is_used() == (said == "compiled")
    assert not gpu.serves(torch.ones(1))
    assert compiled.use_kernels(CUDA, wanted=False) == "plain: as configured"
    assert not gpu.is_used()


def test_without_triton_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "find_spec", lambda name: None)
    assert gpu.fault_of(CUDA) == "triton is not installed"


def test_sums_are_in_the_same_order_for_as_long_as_it_lasts() -> None:
    with gpu.repeatable(torch.device("cpu")):
        assert not torch.are_deterministic_algorithms_enabled()
    with gpu.repeatable(CUDA):
        assert torch.are_deterministic_algorithms_enabled()
        assert torch.is_deterministic_algorithms_warn_only_enabled()
    assert not torch.are_deterministic_algorithms_enabled()
