"""Padding changes nothing: on either side, of source and target, with every position and attention."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from pellucid.config import ModelConfig
from pellucid.model.build import POOLINGS, build, build_classifier

Close = Callable[..., None]
Randomize = Callable[[nn.Module], nn.Module]
V = 9
SIDES = pytest.mark.parametrize("side", ["left", "right", "both"])


def padded(rows: list[Tensor], length: int, side: str) -> tuple[Tensor, Tensor]:
    """Rows [n] in a batch [B, length] and which tokens are real; the padding holds tokens like any other."""
    tokens, real = torch.randint(V, (len(rows), length)), torch.zeros(len(rows), length, dtype=torch.bool)
    for b, row in enumerate(rows):
        spare = length - len(row)
        start = {"left": spare, "right": 0, "both": spare // 2}[side]
        tokens[b, start : start + len(row)] = row
        real[b, start : start + len(row)] = True
    return tokens, real


def rows(*lengths: int) -> list[Tensor]:
    return [torch.randint(V, (n,)) for n in lengths]


@SIDES
def test_source_padding(side: str, combination: dict[str, str], small: ModelConfig, dtype: torch.dtype, close: Close,
                        randomize: Randomize) -> None:
    model = randomize(build(replace(small, **combination), V, V).to(dtype))
    sources, target = rows(5, 3, 1), torch.randint(V, (3, 4))
    tokens, real = padded(sources, 7, side)
    out = model(tokens, target, real)
    for b, source in enumerate(sources):
        close(out[b], model(source[None], target[b : b + 1])[0])


@SIDES
def test_target_padding(side: str, combination: dict[str, str], small: ModelConfig, dtype: torch.dtype, close: Close,
                        randomize: Randomize) -> None:
    model = randomize(build(replace(small, **combination), V, V).to(dtype))
    source, targets = torch.randint(V, (3, 5)), rows(6, 4, 1)
    tokens, real = padded(targets, 7, side)
    out = model(source, tokens, None, real)
    for b, target in enumerate(targets):
        close(out[b][real[b]], model(source[b : b + 1], target[None])[0])


def test_target_padding_at_the_end_needs_no_mask(combination: dict[str, str], small: ModelConfig, dtype: torch.dtype,
                                                 close: Close) -> None:
    model = build(replace(small, **combination), V, V).to(dtype)
    source, targets = torch.randint(V, (2, 5)), rows(6, 3)
    tokens, real = padded(targets, 7, "right")
    close(model(source, tokens)[real], model(source, tokens, None, real)[real])


@SIDES
def test_padding_gets_and_gives_no_gradient(side: str, combination: dict[str, str], small: ModelConfig,
                                            dtype: torch.dtype, close: Close) -> None:
    """The gradient by every parameter is that of the sequence without padding."""
    model = build(replace(small, **combination), V, V).to(dtype)
    (source,), (target,) = rows(4), rows(3)
    (tokens, real), (padded_target, real_target) = padded([source], 6, side), padded([target], 5, side)
    parameters = list(model.parameters())
    expected = torch.autograd.grad(model(source[None], target[None]).square().sum(), parameters)
    out = model(tokens, padded_target, real, real_target)[real_target]
    for a, e in zip(torch.autograd.grad(out.square().sum(), parameters), expected, strict=True):
        close(a, e, 1e-3 if dtype == torch.float32 else 1e-9)


@SIDES
@pytest.mark.parametrize("pooling", POOLINGS)
def test_classifier_padding(pooling: str, side: str, combination: dict[str, str], small: ModelConfig,
                            dtype: torch.dtype, close: Close, randomize: Randomize) -> None:
    model = randomize(build_classifier(replace(small, pooling=pooling, **combination), V, 3).to(dtype))
    sources = rows(5, 3, 1)
    tokens, real = padded(sources, 7, side)
    out = model(tokens, real)
    for b, source in enumerate(sources):
        close(out[b], model(source[None])[0])


@pytest.mark.parametrize("dropout", [0.0, 0.1])
def test_a_source_that_is_all_padding_stays_finite(dropout: float, combination: dict[str, str], small: ModelConfig,
                                                   dtype: torch.dtype) -> None:
    weights = dropout if combination["attention"] != "linear" else 0.0
    config = replace(small, dropout=dropout, attention_dropout=weights, feed_forward_dropout=dropout, **combination)
    model = build(config, V, V).to(dtype)
    source, target = torch.randint(V, (2, 4)), torch.randint(V, (2, 5))
    real = torch.tensor([[False] * 4, [True] * 4])
    real_target = torch.tensor([[True] * 5, [False] * 5])
    out = model(source, target, real, real_target)
    assert out.isfinite().all()
    out.square().sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())


@pytest.mark.parametrize("pooling", POOLINGS)
def test_a_text_that_is_all_padding_is_classified_alike_whatever_the_padding(pooling: str, small: ModelConfig,
                                                                            dtype: torch.dtype) -> None:
    model = build_classifier(replace(small, pooling=pooling), V, 3).to(dtype)
    nothing = torch.zeros(2, 4, dtype=torch.bool)
    out = model(torch.tensor([[1, 2, 3, 4], [5, 6, 7, 8]]), nothing)
    assert out.isfinite().all()
    assert torch.equal(out[0], out[1])
    out.square().sum().backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())
