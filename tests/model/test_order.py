"""What each position scheme lets a model know about order, stated exactly."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import nn

from pellucid.config import ModelConfig
from pellucid.model.build import POSITIONS, build
from pellucid.nn.attention_pattern import full

Close = Callable[..., None]
Randomize = Callable[[nn.Module], nn.Module]
SOURCE = torch.tensor([[3, 1, 4, 1, 5, 2, 6]])
TARGET = torch.tensor([[0, 2, 7]])
ORDERS = {"reversed": [6, 5, 4, 3, 2, 1, 0], "shuffled": [2, 0, 6, 3, 1, 5, 4]}


@pytest.mark.parametrize("attention", ["full", "linear"])
@pytest.mark.parametrize("order", ORDERS)
def test_without_positions_a_source_is_a_bag_of_tokens(order: str, attention: str, small: ModelConfig,
                                                       dtype: torch.dtype, close: Close, randomize: Randomize) -> None:
    model = randomize(build(replace(small, position="none", attention=attention), 9, 9).to(dtype))
    close(model(SOURCE[:, ORDERS[order]], TARGET), model(SOURCE, TARGET))


def test_without_positions_causality_still_tells_the_decoder_something(small: ModelConfig) -> None:
    """Two layers see the order of the target through who may look at whom."""
    model = build(replace(small, position="none"), 9, 9)
    assert not torch.allclose(model(SOURCE, TARGET[:, [1, 0, 2]])[:, -1], model(SOURCE, TARGET)[:, -1], atol=1e-3)


@pytest.mark.parametrize("position", [name for name in POSITIONS if name != "none"])
def test_every_scheme_tells_a_source_from_its_shuffling(position: str, small: ModelConfig,
                                                        randomize: Randomize) -> None:
    model = randomize(build(replace(small, position=position), 9, 9))
    assert not torch.allclose(model(SOURCE[:, ORDERS["shuffled"]], TARGET), model(SOURCE, TARGET), atol=1e-3)


@pytest.mark.parametrize("position", [name for name in POSITIONS if name not in ("none", "alibi")])
def test_every_scheme_but_alibi_tells_a_source_from_its_reverse(position: str, small: ModelConfig,
                                                                randomize: Randomize) -> None:
    model = randomize(build(replace(small, position=position), 9, 9))
    assert not torch.allclose(model(SOURCE[:, ORDERS["reversed"]], TARGET), model(SOURCE, TARGET), atol=1e-3)


def test_symmetric_alibi_hears_a_source_and_its_reverse_alike(small: ModelConfig, dtype: torch.dtype,
                                                              close: Close, randomize: Randomize) -> None:
    """Its bias knows |distance| alone and cross-attention has no position, so an encoder–decoder with ALiBi cannot
    learn to copy; docs must say so."""
    model = randomize(build(replace(small, position="alibi"), 9, 9).to(dtype))
    close(model(SOURCE[:, ORDERS["reversed"]], TARGET), model(SOURCE, TARGET))


@pytest.mark.parametrize("position", ["rotary", "alibi", "t5", "quadratic", "transformer_xl"])
def test_relative_schemes_do_not_know_where_a_sequence_stands(position: str, small: ModelConfig,
                                                              dtype: torch.dtype, randomize: Randomize) -> None:
    """The whole encoder, not only its scores: all positions moved by a constant, and nothing changes."""
    model = randomize(build(replace(small, position=position), 9, 9).to(dtype))
    x, positions = torch.randn(2, 7, small.d_model, dtype=dtype), torch.arange(7)
    memory = model.encoder(x, full(positions, positions))
    torch.testing.assert_close(model.encoder(x, full(positions + 100, positions + 100)), memory, rtol=0, atol=1e-3)
