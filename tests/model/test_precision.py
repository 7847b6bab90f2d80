"""bfloat16 autocast: the same model up to its rounding, with gradients that are finite and point the same way."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from pellucid.config import ModelConfig
from pellucid.model.build import FEED_FORWARDS, NORMS, RESIDUALS, build, build_classifier
from pellucid.model.transformer import Transformer
from pellucid.nn.cross_entropy import linear_cross_entropy

V = 9
OPTIONS: list[dict[str, Any]] = [*({"norm": name} for name in NORMS), *({"residual": name} for name in RESIDUALS),
                                 *({"feed_forward": name} for name in FEED_FORWARDS)]
REAL = torch.tensor([[True] * 6, [True] * 4 + [False] * 2])


def loss_of(model: Transformer, source: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    memory, positions = model.encode(source, REAL)
    hidden = model.decode(target[:, :-1], memory, positions, REAL)
    return hidden, linear_cross_entropy(hidden.flatten(0, 1), model.output.weight, target[:, 1:].flatten(), 0.1)


def compare(model: Transformer) -> None:
    source, target = torch.randint(V, (2, 6)), torch.randint(V, (2, 8))
    parameters = list(model.parameters())
    exact_hidden, exact = loss_of(model, source, target)
    expected = torch.cat([g.flatten() for g in torch.autograd.grad(exact, parameters)])
    with torch.autocast("cpu", dtype=torch.bfloat16):
        hidden, loss = loss_of(model, source, target)
    gradients = torch.autograd.grad(loss, parameters)
    assert all(g.isfinite().all() and g.dtype == torch.float32 for g in gradients)
    assert (hidden - exact_hidden).norm() < 0.05 * exact_hidden.norm()  # a bfloat16 has 8 bits: 0.4 % an operation
    assert loss.dtype == torch.float32
    torch.testing.assert_close(loss, exact, rtol=0.03, atol=0)
    actual = torch.cat([g.flatten() for g in gradients])
    assert torch.cosine_similarity(actual, expected, dim=0) > 0.95


def test_every_position_and_attention(combination: dict[str, str], small: ModelConfig) -> None:
    compare(build(replace(small, **combination), V, V))


@pytest.mark.parametrize("options", OPTIONS, ids=lambda o: "-".join(f"{k}_{v}" for k, v in o.items()))
def test_every_other_option(options: dict[str, Any], small: ModelConfig) -> None:
    compare(build(replace(small, **options), V, V))


def test_a_source_that_is_all_padding_stays_finite(combination: dict[str, str], small: ModelConfig) -> None:
    model = build(replace(small, dropout=0.1, **combination), V, V)
    real = torch.tensor([[False] * 6, [True] * 6])
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = model(torch.randint(V, (2, 6)), torch.randint(V, (2, 5)), real)
    out.float().square().sum().backward()
    assert out.isfinite().all()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())


def test_steps_under_autocast(combination: dict[str, str], small: ModelConfig) -> None:
    model = build(replace(small, **combination), V, V).eval()
    source, target = torch.randint(V, (2, 6)), torch.randint(V, (2, 5))
    with torch.no_grad():
        exact = model(source, target, REAL)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            state = model.start(source, REAL)
            for t in range(5):
                logits, state = model.step(state, target[:, t])
                assert (logits.float() - exact[:, t]).norm() < 0.05 * exact[:, t].norm()


def test_the_classifier(combination: dict[str, str], small: ModelConfig) -> None:
    model = build_classifier(replace(small, **combination), V, 3)
    source, labels = torch.randint(V, (2, 6)), torch.tensor([0, 2])
    exact = F.cross_entropy(model(source, REAL), labels, label_smoothing=0.1)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = F.cross_entropy(model(source, REAL).float(), labels, label_smoothing=0.1)
    torch.testing.assert_close(loss, exact, rtol=0.05, atol=0.02)
    loss.backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())
