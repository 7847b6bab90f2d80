"""The loss against torch's, value and gradients, in chunks of every size; and it never holds all the logits."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from pellucid.kernels import cross_entropy
from pellucid.kernels.cross_entropy import linear_cross_entropy
from pellucid.nn import cross_entropy as equations
from pellucid.nn.cross_entropy import label_smoothed_cross_entropy

Close = Callable[..., None]
N, D, V = 150, 6, 11
SMOOTHINGS = [0.0, 0.1, 0.6]
CHUNK_BYTES = [1, 4 * V * 70, 4 * V * 75, 8 << 20]  # 64 rows a chunk, 70, two even halves, and all at once


def example(dtype: torch.dtype, rows: int = N) -> tuple[Tensor, Tensor, Tensor]:
    hidden = torch.randn(rows, D, dtype=dtype, requires_grad=True)
    weight = torch.randn(V, D, dtype=dtype, requires_grad=True)
    return hidden, weight, torch.randint(V, (rows,))


def test_by_hand(dtype: torch.dtype, close: Close) -> None:
    # Probabilities 1/2, 1/4, 1/4; the truth is the second: q = (0.1, 0.8, 0.1) for ε = 0.3.
    logits = torch.tensor([[2.0, 1.0, 1.0]], dtype=dtype).log()
    ln2 = torch.tensor([2.0], dtype=dtype).log()
    close(label_smoothed_cross_entropy(logits, torch.tensor([1]), 0.0), 2 * ln2)
    close(label_smoothed_cross_entropy(logits, torch.tensor([1]), 0.3), 0.1 * ln2 + 0.8 * 2 * ln2 + 0.1 * 2 * ln2)


@pytest.mark.parametrize("smoothing", SMOOTHINGS)
def test_label_smoothed_is_torchs(smoothing: float, dtype: torch.dtype, close: Close) -> None:
    logits, targets = torch.randn(N, V, dtype=dtype), torch.randint(V, (N,))
    expected = F.cross_entropy(logits, targets, reduction="none", label_smoothing=smoothing)
    close(label_smoothed_cross_entropy(logits, targets, smoothing), expected)


@pytest.mark.parametrize("chunk_bytes", CHUNK_BYTES)
@pytest.mark.parametrize("smoothing", SMOOTHINGS)
def test_linear_is_torchs_with_its_gradients(smoothing: float, chunk_bytes: int, dtype: torch.dtype, close: Close,
                                             monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(cross_entropy.CHUNK_BYTES, "cpu", chunk_bytes)
    hidden, weight, targets = example(dtype)
    ours = linear_cross_entropy(hidden, weight, targets, smoothing)
    theirs = F.cross_entropy(hidden @ weight.T, targets, reduction="sum", label_smoothing=smoothing)
    close(ours, theirs)
    for a, e in zip(torch.autograd.grad(3 * ours, (hidden, weight)), torch.autograd.grad(3 * theirs, (hidden, weight)),
                    strict=True):
        close(a, e)


@pytest.mark.parametrize("smoothing", SMOOTHINGS)
def test_gradients_are_those_of_finite_differences(smoothing: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(cross_entropy.CHUNK_BYTES, "cpu", 1)
    hidden, weight, targets = example(torch.float64, rows=66)
    assert torch.autograd.gradcheck(lambda h, w: linear_cross_entropy(h, w, targets, smoothing), (hidden, weight))


@pytest.mark.parametrize("by", ["hidden", "weight", "neither"])
def test_only_the_gradients_asked_for(by: str, dtype: torch.dtype, close: Close) -> None:
    hidden, weight, targets = example(dtype)
    hidden.requires_grad_(by == "hidden")
    weight.requires_grad_(by == "weight")
    loss = linear_cross_entropy(hidden, weight, targets, 0.1)
    close(loss, F.cross_entropy(hidden @ weight.T, targets, reduction="sum", label_smoothing=0.1))
    assert loss.requires_grad == (by != "neither")
    if by != "neither":
        loss.backward()
    assert (hidden.grad is not None) == (by == "hidden")
    assert (weight.grad is not None) == (by == "weight")
    with torch.no_grad():
        assert not linear_cross_entropy(hidden, weight, targets, 0.1).requires_grad


def test_no_rows_cost_nothing(dtype: torch.dtype) -> None:
    hidden, weight, targets = example(dtype, rows=0)
    loss = linear_cross_entropy(hidden, weight, targets, 0.1)
    loss.backward()
    assert loss.item() == 0
    assert weight.grad is not None
    assert not weight.grad.any()


def test_large_logits_stay_finite(dtype: torch.dtype) -> None:
    hidden, weight, targets = example(dtype)
    loss = linear_cross_entropy(1e4 * hidden, weight, targets, 0.1)
    loss.backward()
    assert loss.isfinite()
    assert hidden.grad is not None
    assert hidden.grad.isfinite().all()


def test_it_leaves_its_inputs_alone(dtype: torch.dtype) -> None:
    hidden, weight, targets = example(dtype)
    copies = hidden.clone(), weight.clone()
    linear_cross_entropy(hidden, weight, targets, 0.1).backward()
    assert torch.equal(hidden, copies[0])
    assert torch.equal(weight, copies[1])


def test_under_autocast_it_is_close_and_answers_in_fp32() -> None:
    hidden, weight, targets = example(torch.float32)
    exact = linear_cross_entropy(hidden, weight, targets, 0.1)
    expected = torch.autograd.grad(exact, (hidden, weight))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = linear_cross_entropy(hidden, weight, targets, 0.1)
    assert loss.dtype == torch.float32
    torch.testing.assert_close(loss, exact, rtol=0.01, atol=0)
    for a, e in zip(torch.autograd.grad(loss, (hidden, weight)), expected, strict=True):
        assert a.dtype == torch.float32
        assert (a - e).norm() < 0.02 * e.norm()


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16])
def test_a_confident_model_is_measured_by_the_logits_it_was_given(kind: torch.dtype, close: Close) -> None:
    """Where the truth has nearly all the probability, the loss is a small difference of large numbers; it is never
    negative, and stays that of the same logits in torch, rounded as they are."""
    weight = torch.randn(V, 64)
    targets = torch.arange(V).repeat(20)
    hidden = 0.6 * (weight - weight.mean(0))[targets] + 0.05 * torch.randn(len(targets), 64)
    logits = (hidden.to(kind) @ weight.to(kind).T).float()
    expected = F.cross_entropy(logits, targets, reduction="none")
    assert expected.mean() < 0.01
    with torch.autocast("cpu", dtype=kind, enabled=kind == torch.bfloat16):
        each = torch.stack([linear_cross_entropy(hidden[i : i + 1], weight, targets[i : i + 1], 0.0)
                            for i in range(len(targets))])
    assert (each > -1e-4).all()
    close(each, expected, 1e-4)


class LargestTensor(TorchDispatchMode):
    """Remembers the number of elements of the largest tensor that any operation gave."""

    elements = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        out = func(*args, **(kwargs or {}))
        for x in out if isinstance(out, tuple | list) else (out,):
            if isinstance(x, Tensor):
                self.elements = max(self.elements, x.numel())
        return out


def test_it_never_holds_all_the_logits(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, vocabulary = 1000, 300
    for device in cross_entropy.CHUNK_BYTES:
        monkeypatch.setitem(cross_entropy.CHUNK_BYTES, device, 4 * vocabulary * 100)
    hidden = torch.randn(rows, D, requires_grad=True)
    weight = torch.randn(vocabulary, D, requires_grad=True)
    with LargestTensor() as seen:
        linear_cross_entropy(hidden, weight, torch.randint(vocabulary, (rows,)), 0.1).backward()
    assert seen.elements <= 100 * vocabulary


def test_in_float64_the_loss_is_its_equation_and_in_any_type_the_same(dtype: torch.dtype, close: Close) -> None:
    hidden, weight, targets = example(dtype)
    found = equations.linear_cross_entropy(hidden, weight, targets, 0.1)
    plain = label_smoothed_cross_entropy(hidden @ weight.T, targets, 0.1).sum()
    close(found, plain)
    assert dtype != torch.float64 or torch.equal(found, plain)
