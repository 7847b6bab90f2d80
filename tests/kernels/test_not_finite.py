"""NaN and infinities go through every door as through the plain equation.

With one difference, which is meant: what attention hides is never looked at. A NaN there, which the equation multiplies
by 0, leaves no trace; and where every key that may be seen scores -inf, the answer is NaN, and not, as the equation has
it, the mean of what is hidden: infinite queries and keys are compared where nothing is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import pytest
import torch
from hypothesis import HealthCheck, Phase, given, note, settings
from hypothesis import strategies as st
from tests.kernels.test_doors import CASES, COUNT, TOLERANCES, equations
from tests.seeds import reseed
from torch import Tensor

from pellucid.nn.attention_pattern import AttentionPattern
from pellucid.nn.cross_entropy import linear_cross_entropy
from pellucid.nn.dropout import Dropout
from pellucid.nn.layer_norm import LayerNorm, RmsNorm
from pellucid.nn.r_drop import linear_r_drop
from pellucid.nn.scaled_dot_product_attention import ScaledDotProductAttention

pytestmark = pytest.mark.usefixtures("compiled_kernels")
cases = settings(max_examples=COUNT, deadline=None, database=None, suppress_health_check=list(HealthCheck),
                 phases=[Phase.generate, Phase.shrink])
places = st.lists(st.tuples(st.integers(0, 10**6), st.sampled_from([math.nan, math.inf, -math.inf])), max_size=2)
types = st.sampled_from([torch.float32, torch.bfloat16])


def drawn(seed: int, holes: list[tuple[int, float]], *shape: int) -> Tensor:
    """Numbers, of which some are none."""
    numbers = torch.randn(shape, generator=torch.Generator().manual_seed(seed))
    for place, value in holes:
        numbers.view(-1)[place % numbers.numel()] = value
    return numbers


def both(door: Callable[..., Tensor], *inputs: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """What comes out of the door and of the equation, and their gradients."""
    found = []
    for way in (False, True):
        leaves = [t.clone().requires_grad_() for t in inputs]
        reseed(3)
        if way:
            with equations():
                out = door(*leaves)
        else:
            out = door(*leaves)
        gradients = torch.autograd.grad(out, leaves, torch.ones_like(out))
        found.append([out.detach(), *gradients])
    note(f"{inputs}\n{found}")
    return zip(*found, strict=True)


def alike(name: str, ours: Tensor, plain: Tensor, hides: bool = False) -> None:
    """Finite where the other is, and near it there; where something `hides`, near it where both are."""
    ours, plain, tolerance = ours.double(), plain.double(), TOLERANCES[ours.dtype]
    finite = plain.isfinite() & ours.isfinite()
    torch.testing.assert_close(ours[finite], plain[finite], atol=tolerance, rtol=tolerance)
    assert hides or torch.equal(ours.isfinite(), plain.isfinite())
    CASES[name] += 1


@pytest.mark.parametrize("width", [5, 16])
@pytest.mark.parametrize("place", [0, 1])
def test_a_query_without_any_number_is_not_answered(width: int, place: int) -> None:
    """Torch's fused attention gives it 0, and so would a model whose weights are all NaN."""
    x, here = torch.randn(3, 1, 1, 4, width), torch.arange(4)
    x[place] = math.nan
    assert ScaledDotProductAttention()(*x, AttentionPattern(here, here), None).isnan().all()


@cases
@given(seed=st.integers(0, 99), holes=places, rows=st.integers(1, 5), width=st.integers(2, 40),
       kind=st.sampled_from([LayerNorm, RmsNorm]))
def test_norms(seed: int, holes: list[tuple[int, float]], rows: int, width: int, kind: type[LayerNorm]) -> None:
    for ours, plain in both(kind(width), drawn(seed, holes, rows, width)):
        alike("norms", ours, plain)


@cases
@given(seed=st.integers(0, 99), holes=places, of_x=places, kind=types)
def test_dropout(seed: int, holes: list[tuple[int, float]], of_x: list[tuple[int, float]], kind: torch.dtype) -> None:
    """The equation with the mask that is drawn for ones."""
    y = drawn(seed, holes, 4, 9).to(kind)
    reseed(3)
    mask = Dropout(0.5)(torch.ones_like(y))
    reseed(3)
    alike("dropout", Dropout(0.5)(y), y * mask)
    x = drawn(seed + 1, of_x, 4, 9)
    reseed(3)
    mask = Dropout(0.5).add(torch.zeros(4, 9), torch.ones_like(y))
    reseed(3)
    alike("dropout", Dropout(0.5).add(x, y), x + y * mask)


@cases
@given(seed=st.integers(0, 99), holes=places, of_weight=places, rows=st.integers(1, 5), words=st.integers(2, 40),
       smoothing=st.sampled_from([0.0, 0.1]), twice=st.booleans())
def test_losses(seed: int, holes: list[tuple[int, float]], of_weight: list[tuple[int, float]], rows: int, words: int,
                smoothing: float, twice: bool) -> None:
    hidden = drawn(seed, holes, *([2] if twice else []), rows, 8)
    targets = torch.randint(words, (rows,), generator=torch.Generator().manual_seed(seed))

    def loss(hidden: Tensor, weight: Tensor) -> Tensor:
        if twice:
            return linear_r_drop(hidden, weight, targets, smoothing, 1.0)
        return linear_cross_entropy(hidden, weight, targets, smoothing)

    for ours, plain in both(loss, hidden, drawn(seed + 1, of_weight, words, 8)):
        alike("losses", ours, plain)


@cases
@given(seed=st.integers(0, 99), of_q=places, of_k=places, of_v=places, kind=types, width=st.sampled_from([5, 16, 32]),
       keys=st.sampled_from([3, 7, 70]), causal=st.booleans(), padded=st.booleans())
def test_attention(seed: int, of_q: list[tuple[int, float]], of_k: list[tuple[int, float]],
                   of_v: list[tuple[int, float]], kind: torch.dtype, width: int, keys: int, causal: bool,
                   padded: bool) -> None:
    here = torch.arange(keys)
    real = (here < torch.tensor([[keys], [keys - 2]])) if padded else None
    if causal or padded:
        of_q, of_k = ([(place, math.nan) for place, _ in holes] for holes in (of_q, of_k))
    q, k, v = (drawn(seed + n, holes, 2, 1, keys, width).to(kind) for n, holes in enumerate((of_q, of_k, of_v)))
    pattern, module = AttentionPattern(here, here, real, causal), ScaledDotProductAttention()
    for ours, plain in both(lambda q, k, v: module(q, k, v, pattern, None), q, k, v):
        alike("attention", ours, plain, causal or padded)
