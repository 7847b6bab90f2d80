"""The search in one call finds what is known by hand: in a model that says the same after every token, the best output
is that of the best length."""

from __future__ import annotations

import math

import pytest
import torch

from pellucid.config import ModelConfig
from pellucid.engine.engine import Engine
from pellucid.model.build import build
from pellucid.search.options import Hypothesis, SearchOptions, Specials, length_penalty

pytestmark = pytest.mark.usefixtures("compiled_kernels")

SPECIALS = Specials(bos=2, eos=3, pad=0)
WORD, LONGEST = 7, 12  # the token that is likelier than all others but the end


def engine(end: float) -> Engine:
    """A model in which the end has this probability at every step, WORD nearly all the rest."""
    config = ModelConfig(d_model=32, n_heads=2, d_ff=48, encoder_layers=1, decoder_layers=1, max_length=LONGEST)
    model = build(config, 40, 40, shared=True).eval()
    with torch.no_grad():
        norm = model.decoder.closing_norm
        norm.gain.zero_()
        norm.bias.copy_(torch.eye(32)[0])
        model.output.weight.zero_()
        model.output.weight[:, 0] = -20.0
        model.output.weight[SPECIALS.eos, 0] = math.log(end)
        model.output.weight[WORD, 0] = math.log(1 - end)
    return Engine(model, "fp32")


def found(end: float, options: SearchOptions) -> Hypothesis:
    ((best,), again) = engine(end).frozen(4, LONGEST).search(torch.full((7,), 9).numpy(), torch.tensor([4, 3]).numpy(),
                                                             options, SPECIALS)
    assert again == [best]  # whatever the source
    return best


@pytest.mark.parametrize("alpha", [-1.0, 0.0, 0.6, 1.0, 2.0, 5.0])
@pytest.mark.parametrize("shortest", [0, 1, 5])
@pytest.mark.parametrize("end", [0.9, 0.6, 0.1])
def test_a_beam_finds_the_best_length(end: float, shortest: int, alpha: float) -> None:
    """WORD n - 1 times and the end have (n - 1) log P(WORD) + log P(end), over lp(n); n is more than `min_length`. What
    goes on and on is cut at the longest length."""
    word, last = math.log(1 - end), math.log(end)
    scores = {n - 1: ((n - 1) * word + last) / length_penalty(n, alpha) for n in range(shortest + 1, LONGEST + 1)}
    scores[LONGEST] = LONGEST * word / length_penalty(LONGEST, alpha)
    best = found(end, SearchOptions(beam_size=3, min_length=shortest, max_length=LONGEST, length_penalty=alpha))
    length = max(scores, key=scores.__getitem__)
    assert best.tokens == (WORD,) * length
    assert best.score == pytest.approx(scores[length], abs=1e-5)


@pytest.mark.parametrize("shortest", [0, 1, 5])
def test_greedy_search_ends_as_soon_as_it_may(shortest: int) -> None:
    best = found(0.9, SearchOptions(beam_size=1, min_length=shortest, max_length=LONGEST))
    assert best.tokens == (WORD,) * shortest
    assert best.finished
