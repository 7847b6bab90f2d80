"""Ids of any integer type are what they are, and one without an embedding is an error, not a read of other memory."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from pellucid.config import ModelConfig
from pellucid.engine.engine import Engine
from pellucid.model.build import build
from pellucid.model.stepper import TransformerStep
from pellucid.model.transformer import Transformer
from pellucid.search.options import SearchOptions, Specials
from pellucid.search.search import search

pytestmark = pytest.mark.usefixtures("compiled_kernels")

V = 40
SPECIALS = Specials(bos=2, eos=3, pad=0)


@pytest.fixture
def model() -> Transformer:
    config = ModelConfig(d_model=32, n_heads=2, d_ff=48, encoder_layers=1, decoder_layers=1, max_length=24)
    return build(config, V, V, shared=True).eval()


def found(steps: Any, ids: torch.Tensor, real: torch.Tensor | None) -> list[float]:
    options = SearchOptions(beam_size=2, max_length=6)
    return [h.score for one in search(steps, (ids, real), len(ids), options, SPECIALS) for h in one]


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("kind", [torch.int32, torch.int64])
def test_ids_of_any_width(kind: torch.dtype, padded: bool, model: Transformer) -> None:
    ids = torch.randint(4, V, (3, 6))
    real = torch.arange(6) < torch.tensor([[6], [2], [4]]) if padded else None
    expected = found(TransformerStep(model), ids, real)
    assert found(Engine(model, "fp32"), ids.to(kind), real) == pytest.approx(expected, abs=1e-4)
    plain, fast, tokens = TransformerStep(model), Engine(model, "fp32"), torch.tensor([2, 9, 4], dtype=kind)
    with torch.inference_mode():
        torch.testing.assert_close(fast.step(fast.start((ids, real)), tokens)[0],
                                   plain.step(plain.start((ids, real)), tokens)[0], atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("token", [-1, V, 10**9])
def test_an_id_without_an_embedding(token: int, model: Transformer) -> None:
    ids = torch.randint(4, V, (2, 6))
    for steps in (TransformerStep(model), Engine(model, "fp32")):
        with torch.inference_mode():
            state = steps.start((ids, None))
            with pytest.raises(IndexError, match="index out of range"):
                steps.step(state, torch.tensor([2, token]))
        stray = ids.clone()
        stray[1, 2] = token
        with pytest.raises(IndexError, match="index out of range"):
            found(steps, stray, None)


def test_a_mask_of_other_sentences(model: Transformer) -> None:
    ids = torch.randint(4, V, (2, 6))
    for steps in (TransformerStep(model), Engine(model, "fp32")):
        with pytest.raises((IndexError, RuntimeError)):
            found(steps, ids, torch.ones(3, 6, dtype=torch.bool))
