"""R-Drop against the paper's equation in torch's words, value and gradients; and it never holds all the logits."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from pellucid.kernels import cross_entropy
from pellucid.kernels.r_drop import linear_r_drop
from pellucid.nn import r_drop as equations
from pellucid.nn.cross_entropy import linear_cross_entropy
from pellucid.nn.r_drop import r_drop_cross_entropy

Close = Callable[..., None]
N, D, V = 70, 6, 11
SETTINGS = [(0.0, 0.0), (0.0, 5.0), (0.1, 1.0), (0.3, 5.0)]
CHUNK_BYTES = [1, 8 * V * 64, 24 << 20]  # 32 rows a chunk, 64, and all at once


def example(dtype: torch.dtype, rows: int = N) -> tuple[Tensor, Tensor, Tensor]:
    hidden = torch.randn(2, rows, D, dtype=dtype, requires_grad=True)
    weight = torch.randn(V, D, dtype=dtype, requires_grad=True)
    return hidden, weight, torch.randint(V, (rows,))


def paper(logits: Tensor, targets: Tensor, smoothing: float, alpha: float) -> Tensor:
    """Half of equation (4) for each target, in torch's words."""
    p, q = logits.log_softmax(-1)
    negative_log_likelihood = sum(F.cross_entropy(one, targets, reduction="none", label_smoothing=smoothing)
                                  for one in logits)
    divergences = [F.kl_div(b, a, reduction="none", log_target=True).sum(-1) for a, b in ((p, q), (q, p))]
    return 0.5 * (negative_log_likelihood + alpha / 2 * (divergences[0] + divergences[1]))


def test_by_hand(dtype: torch.dtype, close: Close) -> None:
    # p = (1/2, 1/2), q = (1/4, 3/4): KL(p‖q) + KL(q‖p) = Σ (p - q)(ln p - ln q) = ¼ ln 2 - ¼ ln 2/3 = ¼ ln 3.
    logits = torch.tensor([[[0.5, 0.5]], [[0.25, 0.75]]], dtype=dtype).log()
    ln2, ln3 = torch.tensor([2.0, 3.0], dtype=dtype).log()
    close(r_drop_cross_entropy(logits, torch.tensor([0]), 0.0, 4.0), (0.5 * (ln2 + 2 * ln2) + 0.25 * ln3)[None])


@pytest.mark.parametrize(("smoothing", "alpha"), SETTINGS)
def test_the_equation_is_the_papers(smoothing: float, alpha: float, dtype: torch.dtype, close: Close) -> None:
    logits, targets = torch.randn(2, N, V, dtype=dtype), torch.randint(V, (N,))
    close(r_drop_cross_entropy(logits, targets, smoothing, alpha), paper(logits, targets, smoothing, alpha))


@pytest.mark.parametrize("chunk_bytes", CHUNK_BYTES)
@pytest.mark.parametrize(("smoothing", "alpha"), SETTINGS)
def test_linear_is_the_equation_with_its_gradients(smoothing: float, alpha: float, chunk_bytes: int,
                                                   dtype: torch.dtype, close: Close,
                                                   monkeypatch: pytest.MonkeyPatch) -> None:
    for device in cross_entropy.CHUNK_BYTES:
        monkeypatch.setitem(cross_entropy.CHUNK_BYTES, device, chunk_bytes)
    hidden, weight, targets = example(dtype)
    ours = linear_r_drop(hidden, weight, targets, smoothing, alpha)
    plain = paper(hidden @ weight.T, targets, smoothing, alpha).sum()
    close(ours, plain)
    for a, e in zip(torch.autograd.grad(3 * ours, (hidden, weight)), torch.autograd.grad(3 * plain, (hidden, weight)),
                    strict=True):
        close(a, e, 1e-4 if dtype == torch.float32 else 0.0)


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_two_equal_passes_are_one(smoothing: float, dtype: torch.dtype, close: Close) -> None:
    """Without dropout p = q: the divergence is 0, and the loss with its gradients is the plain one."""
    hidden, weight, targets = example(dtype)
    one = hidden[0].detach().requires_grad_()
    ours = linear_r_drop(torch.stack([one, one]), weight, targets, smoothing, 5.0)
    plain = linear_cross_entropy(one, weight, targets, smoothing)
    close(ours, plain)
    for a, e in zip(torch.autograd.grad(ours, (one, weight)), torch.autograd.grad(plain, (one, weight)), strict=True):
        close(a, e)


@pytest.mark.parametrize("by", ["hidden", "weight", "neither"])
def test_only_the_gradients_asked_for(by: str, dtype: torch.dtype) -> None:
    hidden, weight, targets = example(dtype)
    hidden.requires_grad_(by == "hidden")
    weight.requires_grad_(by == "weight")
    loss = linear_r_drop(hidden, weight, targets, 0.1, 1.0)
    assert loss.requires_grad == (by != "neither")
    if by != "neither":
        loss.backward()
    assert (hidden.grad is not None) == (by == "hidden")
    assert (weight.grad is not None) == (by == "weight")
    with torch.no_grad():
        assert not linear_r_drop(hidden, weight, targets, 0.1, 1.0).requires_grad


def test_no_rows_cost_nothing(dtype: torch.dtype) -> None:
    hidden, weight, targets = example(dtype, rows=0)
    loss = linear_r_drop(hidden, weight, targets, 0.1, 5.0)
    loss.backward()
    assert loss.item() == 0
    assert weight.grad is not None
    assert not weight.grad.any()


def test_large_logits_stay_finite(dtype: torch.dtype) -> None:
    hidden, weight, targets = example(dtype)
    loss = linear_r_drop(1e4 * hidden, weight, targets, 0.1, 5.0)
    loss.backward()
    assert loss.isfinite()
    assert hidden.grad is not None
    assert hidden.grad.isfinite().all()


def test_under_autocast_it_is_close_and_answers_in_fp32() -> None:
    hidden, weight, targets = example(torch.float32)
    exact = linear_r_drop(hidden, weight, targets, 0.1, 1.0)
    expected = torch.autograd.grad(exact, (hidden, weight))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = linear_r_drop(hidden, weight, targets, 0.1, 1.0)
    assert loss.dtype == torch.float32
    torch.testing.assert_close(loss, exact, rtol=0.01, atol=0)
    for a, e in zip(torch.autograd.grad(loss, (hidden, weight)), expected, strict=True):
        assert a.dtype == torch.float32
        assert (a - e).norm() < 0.02 * e.norm()


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
        monkeypatch.setitem(cross_entropy.CHUNK_BYTES, device, 8 * vocabulary * 96)
    hidden = torch.randn(2, rows, D, requires_grad=True)
    weight = torch.randn(vocabulary, D, requires_grad=True)
    with LargestTensor() as seen:
        linear_r_drop(hidden, weight, torch.randint(vocabulary, (rows,)), 0.1, 5.0).backward()
    assert seen.elements <= 2 * 96 * vocabulary


def test_in_float64_the_loss_is_its_equation_and_in_any_type_the_same(dtype: torch.dtype, close: Close) -> None:
    hidden, weight, targets = example(dtype)
    found = equations.linear_r_drop(hidden, weight, targets, 0.1, 5.0)
    plain = r_drop_cross_entropy(hidden @ weight.T, targets, 0.1, 5.0).sum()
    close(found, plain)
    assert dtype != torch.float64 or torch.equal(found, plain)
