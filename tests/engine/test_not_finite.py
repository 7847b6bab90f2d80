"""NaN and infinities come out of the engine as they come out of the plain step, in every precision: nobody reads a text
with a score where the model has none."""

from __future__ import annotations

import math

import pytest
import torch

from pellucid.config import ModelConfig
from pellucid.engine.engine import Engine
from pellucid.errors import NumericalError
from pellucid.model.build import build
from pellucid.model.stepper import TransformerStep
from pellucid.model.transformer import Transformer
from pellucid.search.options import SearchOptions, Specials
from pellucid.search.search import search

pytestmark = pytest.mark.usefixtures("compiled_kernels")

V = 40
SPECIALS = Specials(bos=2, eos=3, pad=0)
BLOCK = "encoder.layers.0."


def made(feed_forward: str = "relu") -> Transformer:
    torch.manual_seed(1)
    config = ModelConfig(d_model=32, n_heads=2, d_ff=48, encoder_layers=1, decoder_layers=1, max_length=24,
                         feed_forward=feed_forward)
    return build(config, V, V, shared=True).eval()


def source() -> tuple[torch.Tensor, torch.Tensor]:
    ids = torch.randint(4, V, (2, 6))
    return ids, torch.ones_like(ids, dtype=torch.bool)


@pytest.mark.parametrize("precision", ["fp32", "bf16", "int8"])
@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("place", ["feed_forward.inner.bias", "feed_forward.outer.bias", "residual_1.norm.gain",
                                   "self_attention.query.weight"])
def test_what_is_no_number_becomes_no_text(place: str, bad: float, precision: str) -> None:
    """Bytes have no NaN, and a ReLU that asks whether x is above 0 hides one."""
    model = made()
    with torch.no_grad():
        model.get_parameter(BLOCK + place)[3] = bad
    for steps in (TransformerStep(model), Engine(model, precision)):
        with pytest.raises(NumericalError):
            search(steps, source(), 2, SearchOptions(beam_size=2, max_length=6), SPECIALS)


@pytest.mark.parametrize("precision", ["fp32", "bf16", "int8"])
def test_below_its_threshold_a_relu_of_infinity_is_0(precision: str) -> None:
    model, given = made(), source()
    with torch.no_grad():
        model.get_parameter(BLOCK + "feed_forward.inner.bias")[3] = -math.inf
    assert logits(Engine(model, precision), given).isfinite().all()


@pytest.mark.parametrize("gate", [-80.0, -89.5, -100.0, -200.0, -1e4, 1e4])
@pytest.mark.parametrize("variant", ["swiglu", "geglu"])
def test_activations_far_from_0_are_their_limits(variant: str, gate: float) -> None:
    """e⁸⁹ is more than fp32 holds: x / (1 + e⁻ˣ) is 0 there, and not x."""
    model, given = made(variant), source()
    with torch.no_grad():
        model.get_parameter(BLOCK + "feed_forward.gate.bias").fill_(gate)
    torch.testing.assert_close(logits(Engine(model, "fp32"), given), logits(TransformerStep(model), given), atol=1e-4,
                               rtol=1e-4)


def logits(steps: Engine | TransformerStep, given: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    """Of the first step."""
    with torch.inference_mode():
        return steps.step(steps.start(given), torch.tensor([2, 2]))[0]
