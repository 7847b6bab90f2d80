"""What is fp32 is fp32, whatever torch makes without being told a type."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from pellucid.config import ModelConfig
from pellucid.engine.engine import Engine
from pellucid.kernels.adam import clip
from pellucid.model.build import build
from pellucid.nn.cross_entropy import linear_cross_entropy
from pellucid.nn.r_drop import linear_r_drop
from pellucid.nn.sampled_softmax import sampled_words
from pellucid.precision import made_in_fp32
from pellucid.search.options import SearchOptions, Specials
from pellucid.search.search import search

pytestmark = pytest.mark.usefixtures("compiled_kernels", "default_type")

ROWS, V, D = 50, 40, 32


def drawn(*shape: int) -> Tensor:
    return torch.randn(shape, dtype=torch.float32)


@pytest.mark.parametrize("passes", [1, 2])
def test_losses(passes: int) -> None:
    weight, targets = drawn(V, D), torch.randint(V, (ROWS,))
    hidden = drawn(passes, ROWS, D)

    def loss() -> Tensor:
        if passes == 2:
            return linear_r_drop(hidden, weight, targets, 0.1, 5.0)
        return linear_cross_entropy(hidden[0], weight, targets, 0.1)

    with made_in_fp32():
        expected = loss()
    torch.testing.assert_close(loss(), expected, rtol=0, atol=0)


def test_the_norm_of_gradients() -> None:
    gradients = [torch.full((10,), 3.0, dtype=torch.float32)]
    assert clip(gradients, 1.0).item() == pytest.approx(90**0.5)
    assert gradients[0].tolist() == pytest.approx([10**-0.5] * 10)


def test_sampled_words_are_distinct_and_in_the_order_of_targets() -> None:
    """The targets' words come first: in half precision some thousands of them would be equal."""
    targets = torch.arange(0, 9000, 3)
    _, matrix, places = sampled_words(drawn(1, 2), torch.arange(9000, dtype=torch.float32)[:, None], targets, 4096)
    assert matrix[places, 0].tolist() == targets.tolist()
    assert len(matrix[:, 0].unique()) == 4096


@pytest.mark.parametrize("position", ["sinusoidal", "learned", "alibi", "transformer_xl"])
def test_a_search_over_the_engine(position: str) -> None:
    config = ModelConfig(d_model=D, n_heads=2, d_ff=D, encoder_layers=1, decoder_layers=1, position=position,
                         max_length=16)
    ids = torch.randint(4, V, (3, 6))

    def found() -> list[list[float]]:
        engine = Engine(model, "fp32")
        options, specials = SearchOptions(beam_size=3, max_length=9), Specials(bos=2, eos=3, pad=0)
        return [[each.score for each in one] for one in search(engine, (ids, None), 3, options, specials)]

    with made_in_fp32():
        model = build(config, V, V).eval()
        expected = found()
    assert found() == expected
