"""Decoding step by step gives the logits of decoding at once, for every option; and its state can be rearranged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from pellucid.config import ModelConfig
from pellucid.model.build import FEED_FORWARDS, NORMS, RESIDUALS, build
from pellucid.model.transformer import DecodingState, Transformer

Close = Callable[..., None]
Randomize = Callable[[nn.Module], nn.Module]
V, T = 9, 6
OPTIONS: list[dict[str, Any]] = [
    *({"norm": name} for name in NORMS), *({"residual": name} for name in RESIDUALS),
    *({"feed_forward": name} for name in FEED_FORWARDS), {"tie_embeddings": False}, {"n_heads": 1},
    {"decoder_layers": 1, "encoder_layers": 3}, {"attention": "window", "window": 1}]
RIGHT = torch.tensor([[True] * 5, [True, True, True, False, False]])
LEFT = RIGHT.flip(1)


def compare(model: Transformer, real: Tensor | None, close: Close) -> None:
    source, target = torch.randint(V, (2, 5)), torch.randint(V, (2, T))
    whole = model(source, target, real)
    state = model.start(source, real)
    for t in range(T):
        logits, state = model.step(state, target[:, t])
        close(logits, whole[:, t])
    assert state.length == T


@pytest.mark.parametrize("real", [None, RIGHT, LEFT], ids=["whole", "right", "left"])
def test_steps_are_forward_for_every_position_and_attention(real: Tensor | None, combination: dict[str, str],
                                                            small: ModelConfig, dtype: torch.dtype, close: Close,
                                                            randomize: Randomize) -> None:
    compare(randomize(build(replace(small, **combination), V, V).to(dtype)), real, close)


@pytest.mark.parametrize("options", OPTIONS, ids=lambda o: "-".join(f"{k}_{v}" for k, v in o.items()))
def test_steps_are_forward_for_every_other_option(options: dict[str, Any], small: ModelConfig, dtype: torch.dtype,
                                                  close: Close, randomize: Randomize) -> None:
    compare(randomize(build(replace(small, **options), V, V).to(dtype)), RIGHT, close)


def test_steps_go_on_beyond_a_chunk_of_linear_attention(small: ModelConfig, dtype: torch.dtype, close: Close) -> None:
    model = build(replace(small, attention="linear", decoder_layers=1), V, V).to(dtype)
    source, target = torch.randint(V, (1, 70)), torch.randint(V, (1, 70))
    whole, state = model(source, target), model.start(source)
    for t in range(70):
        logits, state = model.step(state, target[:, t])
        close(logits, whole[:, t])


def stepped(model: Transformer, state: DecodingState, tokens: Tensor) -> tuple[Tensor, DecodingState]:
    for t in range(tokens.shape[1]):
        logits, state = model.step(state, tokens[:, t])
    return logits, state


@pytest.mark.parametrize("real", [None, RIGHT, LEFT], ids=["whole", "right", "left"])
def test_select_gathers_rows(real: Tensor | None, combination: dict[str, str], small: ModelConfig, dtype: torch.dtype,
                             close: Close) -> None:
    """After rows are reordered, repeated or dropped, each goes on as it would have gone on alone."""
    model = build(replace(small, **combination), V, V).to(dtype)
    source, target = torch.randint(V, (2, 5)), torch.randint(V, (2, 3))
    _, state = stepped(model, model.start(source, real), target)
    for chosen in ([1, 0, 1, 1], [1], [0, 0]):
        picked = torch.tensor(chosen)
        tokens = torch.randint(V, (len(chosen), 2))
        logits, _ = stepped(model, state.select(picked), tokens)
        prefixes = torch.cat([target[picked], tokens], 1)
        for r, b in enumerate(chosen):
            alone = model(source[b : b + 1], prefixes[r : r + 1], None if real is None else real[b : b + 1])
            close(logits[r], alone[0, -1])


def test_select_takes_the_positions_of_the_source_along(small: ModelConfig) -> None:
    state = build(small, V, V).start(torch.randint(V, (2, 5)), LEFT).select(torch.tensor([1, 1, 0]))
    assert state.source_positions[[0, 2]].tolist() == [[0, 0, 0, 1, 2], [0, 1, 2, 3, 4]]
    assert torch.equal(state.source_positions[0], state.source_positions[1])


def test_a_state_can_be_continued_twice(small: ModelConfig, dtype: torch.dtype) -> None:
    """Steps give a new state and leave the old one as it was."""
    model = build(small, V, V).to(dtype)
    _, state = model.step(model.start(torch.randint(V, (2, 5))), torch.tensor([1, 2]))
    first, _ = model.step(state, torch.tensor([3, 4]))
    model.step(state, torch.tensor([5, 6]))
    again, _ = model.step(state, torch.tensor([3, 4]))
    assert torch.equal(first, again)


def test_no_rows_left_is_no_error(combination: dict[str, str], small: ModelConfig) -> None:
    model = build(replace(small, **combination), V, V)
    _, state = model.step(model.start(torch.randint(V, (2, 5)), RIGHT), torch.tensor([1, 2]))
    logits, _ = model.step(state.select(torch.tensor([], dtype=torch.long)), torch.tensor([], dtype=torch.long))
    assert logits.shape == (0, V)
