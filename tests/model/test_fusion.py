"""Fusion in the decoder: one part is the plain model, several are encoded apart, and their order is lost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from pellucid.config import ModelConfig
from pellucid.data.batching import pad
from pellucid.data.tokenizers.interface import EOS
from pellucid.engine.obstacle import obstacle
from pellucid.model.build import build
from pellucid.model.fusion import FusionTransformer
from pellucid.model.transformer import Transformer

TARGET = torch.tensor([[2, 5, 6], [2, 7, 8]])
Row = list[int]


def models(config: ModelConfig) -> tuple[Transformer, FusionTransformer]:
    plain = build(config, 20, 20, shared=True).eval()
    return plain, FusionTransformer(plain, EOS).eval()


def batch(*sources: list[Row]) -> tuple[Tensor, Tensor | None]:
    """Sources, each given as its parts without their ends."""
    ids, real = pad([np.asarray([id for part in parts for id in (*part, EOS)], np.int32) for parts in sources])
    device = torch.get_default_device()
    return ids.to(device), None if real is None else real.to(device)


@torch.no_grad()
def test_one_part_is_the_plain_model_to_the_bit(small: ModelConfig, combination: dict[str, str]) -> None:
    plain, fused = models(replace(small, **combination))
    for sources in ([[[4, 5, 6]], [[7, 8, 9]]], [[[4, 5, 6, 10, 11]], [[7, 8]]]):
        source, real = batch(*sources)
        assert torch.equal(fused(source, TARGET, real), plain(source, TARGET, real))


def test_one_part_learns_as_the_plain_model_to_the_bit(small: ModelConfig) -> None:
    plain, fused = models(small)
    source, real = batch([[4, 5, 6, 10]], [[7, 8]])
    gradients = []
    for model in (plain, fused):
        model.zero_grad()
        model(source, TARGET, real).square().sum().backward()
        gradients.append([p.grad.clone() for p in plain.parameters() if p.grad is not None])
    assert gradients[0]
    assert all(torch.equal(a, b) for a, b in zip(*gradients, strict=True))


@torch.no_grad()
def test_each_part_is_encoded_as_if_it_were_alone(small: ModelConfig, combination: dict[str, str],
                                                  close: Callable[..., None]) -> None:
    plain, fused = models(replace(small, **combination))
    sources: list[list[Row]] = [[[4, 5, 6], [7], [8, 9, 10, 11]], [[12, 13]]]
    memory, _ = fused.encode(*batch(*sources))
    for row, parts in zip(memory, sources, strict=True):
        alone = torch.cat([plain.encode(torch.tensor([[*part, EOS]]))[0][0] for part in parts])
        close(row[: len(alone)], alone)
        assert not row[len(alone) :].any()


@torch.no_grad()
def test_what_stands_behind_the_last_end_is_a_part_too(small: ModelConfig, close: Callable[..., None]) -> None:
    plain, fused = models(small)
    memory, _ = fused.encode(torch.tensor([[4, 5, EOS, 6, 7, 8], [9, EOS, 10, EOS, 11, 12]]))
    close(memory[0, :3], plain.encode(torch.tensor([[4, 5, EOS]]))[0][0])
    close(memory[0, 3:], plain.encode(torch.tensor([[6, 7, 8]]))[0][0])
    close(memory[1, 4:], plain.encode(torch.tensor([[11, 12]]))[0][0])


@torch.no_grad()
@settings(max_examples=20, deadline=None)
@given(parts=st.lists(st.lists(st.integers(4, 19), min_size=1, max_size=5), min_size=1, max_size=4),
       random=st.randoms(use_true_random=False))
def test_the_order_of_the_parts_changes_nothing_beyond_rounding(parts: list[Row], random: object) -> None:
    config = ModelConfig(d_model=12, n_heads=3, d_ff=20, encoder_layers=1, decoder_layers=1, dropout=0.0, max_length=40)
    _, fused = models(config)
    shuffled = list(parts)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    (a, real), (b, _) = batch(parts, parts), batch(shuffled, shuffled)
    torch.testing.assert_close(fused(a, TARGET, real), fused(b, TARGET, real), rtol=1e-4, atol=1e-5)


@torch.no_grad()
def test_several_parts_are_not_one_long_source(small: ModelConfig) -> None:
    plain, fused = models(small)
    source, real = batch([[4, 5], [6, 7]], [[8, 9], [10, 11]])
    assert not torch.allclose(fused(source, TARGET, real), plain(source, TARGET, real), atol=1e-3)


@torch.no_grad()
def test_steps_are_the_whole_target(small: ModelConfig, close: Callable[..., None]) -> None:
    _, fused = models(small)
    source, real = batch([[4, 5], [6, 7, 8]], [[9]])
    whole, state = fused(source, TARGET, real), fused.start(source, real)
    for place in range(TARGET.shape[1]):
        logits, state = fused.step(state, TARGET[:, place])
        close(logits, whole[:, place])


@pytest.mark.parametrize("kind", ["pre", "post"])
def test_it_has_the_weights_of_the_plain_model_and_the_engine_says_why_it_does_not_decode(small: ModelConfig,
                                                                                          kind: str) -> None:
    plain, fused = models(replace(small, residual=kind))
    assert plain.state_dict().keys() == fused.state_dict().keys()
    assert obstacle(fused) == "the model is a FusionTransformer"
