"""The classifier: its poolings by hand over real tokens, its head, and its loss."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pellucid.config import ModelConfig
from pellucid.model.build import POOLINGS, build_classifier
from pellucid.nn.attention_pattern import full

Close = Callable[..., None]
V, CLASSES = 9, 4
MEMORY = [[[1.0, -2.0], [5.0, -8.0], [3.0, -4.0]], [[7.0, 1.0], [-2.0, -3.0], [-4.0, -5.0]]]
REAL = torch.tensor([[True, False, True], [False, True, True]])


@pytest.mark.parametrize(("name", "expected"), [
    ("mean", [[2.0, -3.0], [-3.0, -4.0]]), ("max", [[3.0, -2.0], [-2.0, -3.0]]),
    ("first", [[1.0, -2.0], [-2.0, -3.0]])])
def test_poolings_by_hand(name: str, expected: list[list[float]], dtype: torch.dtype) -> None:
    memory = torch.tensor(MEMORY, dtype=dtype)
    assert torch.equal(POOLINGS[name]()(memory, REAL), torch.tensor(expected, dtype=dtype))


@pytest.mark.parametrize("name", POOLINGS)
def test_pooling_nothing_gives_0(name: str, dtype: torch.dtype) -> None:
    memory = torch.randn(2, 3, 5, dtype=dtype)
    assert not POOLINGS[name]()(memory, torch.zeros(2, 3, dtype=torch.bool)).any()


@pytest.mark.parametrize("name", POOLINGS)
def test_pooling_one_token_gives_it(name: str, dtype: torch.dtype) -> None:
    memory = torch.randn(1, 3, 5, dtype=dtype)
    assert torch.equal(POOLINGS[name]()(memory, torch.tensor([[False, True, False]])), memory[:, 1])


@pytest.mark.parametrize("name", POOLINGS)
def test_padding_gets_no_gradient_from_a_pool(name: str, dtype: torch.dtype) -> None:
    memory = torch.randn(2, 3, 5, dtype=dtype, requires_grad=True)
    POOLINGS[name]()(memory, REAL).square().sum().backward()
    assert memory.grad is not None
    assert not memory.grad[~REAL].any()


@pytest.mark.parametrize("pooling", POOLINGS)
def test_the_head_reads_the_pool_of_the_encoder(pooling: str, small: ModelConfig, dtype: torch.dtype, close: Close,
                                                randomize: Callable[[nn.Module], nn.Module]) -> None:
    model = randomize(build_classifier(replace(small, pooling=pooling), V, CLASSES).to(dtype))
    source, positions = torch.randint(V, (2, 5)), torch.arange(5)
    memory = model.encoder(model.source_embedding(source), full(positions, positions))
    pooled: Tensor = {"mean": memory.mean(1), "max": memory.amax(1), "first": memory[:, 0]}[pooling]
    inner = torch.tanh(pooled @ model.head_1.weight.T + model.head_1.bias)
    close(model(source), inner @ model.head_2.weight.T + model.head_2.bias)


def test_it_learns_which_token_is_most_frequent(small: ModelConfig) -> None:
    model = build_classifier(replace(small, residual="pre"), 3, 3)
    labels = torch.randint(3, (64,))
    source = torch.where(torch.rand(64, 9) < 0.6, labels[:, None], torch.randint(3, (64, 9)))
    labels = F.one_hot(source, 3).sum(1).argmax(-1)
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    for _ in range(40):
        optimizer.zero_grad()
        F.cross_entropy(model(source), labels).backward()
        optimizer.step()
    assert (model(source).argmax(-1) == labels).float().mean() > 0.95


@pytest.mark.parametrize(("attention", "seen"), [("window", [0, 1, 2]), ("full", list(range(7)))])
def test_the_window_bounds_what_the_first_token_sees(attention: str, seen: list[int], small: ModelConfig) -> None:
    """One token a layer and two layers: the token pooled sees two to its right."""
    model = build_classifier(replace(small, pooling="first", attention=attention, window=1), V, CLASSES)
    source = torch.randint(V, (1, 7))
    changes = []
    for i in range(7):
        other = source.clone()
        other[0, i] = (other[0, i] + 1) % V
        if not torch.equal(model(other), model(source)):
            changes.append(i)
    assert changes == seen
