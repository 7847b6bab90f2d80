"""The norms against torch's, and against their equations."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from pellucid.nn.layer_norm import LayerNorm, NoNorm, RmsNorm, StdNorm

Close = Callable[..., None]
Randomize = Callable[[nn.Module], nn.Module]


def rows(dtype: torch.dtype) -> Tensor:
    return 3 * torch.randn(4, 5, 7, dtype=dtype) + 2


def test_layer_norm_is_torchs(dtype: torch.dtype, close: Close, randomize: Randomize) -> None:
    ours, theirs, x = LayerNorm(7).to(dtype), nn.LayerNorm(7).to(dtype), rows(dtype)
    close(ours(x), theirs(x))
    randomize(theirs)
    ours.gain.data, ours.bias.data = theirs.weight.data, theirs.bias.data
    close(ours(x), theirs(x))


def test_layer_norm_is_its_equation(dtype: torch.dtype, close: Close, randomize: Randomize) -> None:
    norm, x = randomize(LayerNorm(7).to(dtype)), rows(dtype)
    mean = x.mean(-1, keepdim=True)
    variance = ((x - mean) ** 2).mean(-1, keepdim=True)
    close(norm(x), norm.gain * (x - mean) / (variance + 1e-5).sqrt() + norm.bias)


def test_rms_norm_is_torchs(dtype: torch.dtype, close: Close, randomize: Randomize) -> None:
    ours, theirs, x = RmsNorm(7).to(dtype), nn.RMSNorm(7, eps=1e-6).to(dtype), rows(dtype)
    randomize(theirs)
    ours.gain.data = theirs.weight.data
    close(ours(x), theirs(x))


def test_rms_norm_is_its_equation(dtype: torch.dtype, close: Close, randomize: Randomize) -> None:
    norm, x = randomize(RmsNorm(7).to(dtype)), rows(dtype)
    close(norm(x), norm.gain * x / ((x**2).mean(-1, keepdim=True) + 1e-6).sqrt())


@pytest.mark.parametrize("norm_class", [LayerNorm, RmsNorm, StdNorm])
def test_what_is_rounded_is_raised_first_and_torch_has_nothing_to_say(norm_class: Callable[[int], nn.Module],
                                                                      recwarn: pytest.WarningsRecorder) -> None:
    """As a sub-layer's output is in bf16, where there is no residual connection to add it to."""
    x = rows(torch.float32).bfloat16()
    norm = norm_class(7)
    assert torch.equal(norm(x), norm(x.float()))
    assert not recwarn.list


def test_std_norm_is_its_equation(dtype: torch.dtype, close: Close, randomize: Randomize) -> None:
    norm, x = randomize(StdNorm(7).to(dtype)), rows(dtype)
    close(norm(x), norm.gain * (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + 1e-6) + norm.bias)


def test_std_norm_by_hand(dtype: torch.dtype, close: Close) -> None:
    # Mean 2, sample deviation 1 (the population's would be √⅔).
    x = torch.tensor([1.0, 2.0, 3.0], dtype=dtype)
    close(StdNorm(3).to(dtype)(x), torch.tensor([-1.0, 0.0, 1.0], dtype=dtype) / (1 + 1e-6))


@pytest.mark.parametrize("norm_class", [LayerNorm, RmsNorm, StdNorm])
@pytest.mark.parametrize("half", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("size", [0.01, 1.0, 300.0])
def test_a_norm_in_half_precision_is_rounded_at_its_end_alone(norm_class: Callable[[int], nn.Module], size: float,
                                                              half: torch.dtype, randomize: Randomize) -> None:
    """The squares of 300 are beyond the largest number of fp16, those of 0.01 below what it has with all its bits."""
    norm, x = randomize(norm_class(64)).to(half), (size * rows(torch.float32)).to(half).repeat(1, 1, 10)[..., :64]
    assert norm(x).dtype == half
    torch.testing.assert_close(norm(x), norm.float()(x.float()).to(half))


@pytest.mark.parametrize("norm_class", [LayerNorm, RmsNorm, StdNorm])
@pytest.mark.parametrize("value", [0.0, 1.0, -300.0])
def test_a_constant_row_gives_a_finite_gradient(norm_class: Callable[[int], nn.Module], value: float,
                                                dtype: torch.dtype, randomize: Randomize) -> None:
    norm = randomize(norm_class(7).to(dtype))
    x = torch.full((2, 7), value, dtype=dtype, requires_grad=True)
    out = norm(x)
    if norm_class is not RmsNorm:
        torch.testing.assert_close(out, norm.bias.expand_as(out), rtol=0, atol=1e-3)
    out.square().sum().backward()
    assert x.grad is not None
    assert x.grad.isfinite().all()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in norm.parameters())


@pytest.mark.parametrize("norm_class", [LayerNorm, RmsNorm, StdNorm])
def test_gradients_are_those_of_finite_differences(norm_class: Callable[[int], nn.Module],
                                                   randomize: Randomize) -> None:
    norm = randomize(norm_class(5).double())
    assert torch.autograd.gradcheck(norm, rows(torch.float64)[0, :, :5].requires_grad_())


@pytest.mark.parametrize("norm_class", [LayerNorm, RmsNorm, StdNorm])
def test_each_position_is_normalised_alone(norm_class: Callable[[int], nn.Module], dtype: torch.dtype,
                                           close: Close) -> None:
    norm, x = norm_class(7).to(dtype), rows(dtype)
    close(norm(x)[1, 2], norm(x[1, 2]))


@pytest.mark.parametrize("row", [[5.0], [1.0, 3.0]])
def test_std_norm_of_one_feature_is_the_bias_and_of_two_has_the_sample_deviation(row: list[float], dtype: torch.dtype,
                                                                                close: Close) -> None:
    norm, x = StdNorm(len(row)).to(dtype), torch.tensor(row, dtype=dtype)
    root = 2**0.5 + 1e-6  # of 1 and 3 the sum of squares is 2, over D - 1
    expected = torch.zeros(1, dtype=dtype) if len(row) == 1 else torch.tensor([-1 / root, 1 / root], dtype=dtype)
    close(norm(x), expected)


def test_no_norm_is_the_identity_and_has_no_parameters(dtype: torch.dtype) -> None:
    x = rows(dtype)
    assert NoNorm(7)(x) is x
    assert not list(NoNorm(7).parameters())
