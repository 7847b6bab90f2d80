"""The compiled kernels against the plain equations, which every other test of this folder holds against the paper."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.seeds import reseed
from torch import Tensor, nn

from pellucid.kernels import calls, cross_entropy
from pellucid.kernels.compiled import use_kernels
from pellucid.nn.attention_pattern import AttentionPattern
from pellucid.nn.cross_entropy import linear_cross_entropy
from pellucid.nn.dropout import Dropout
from pellucid.nn.layer_norm import LayerNorm
from pellucid.nn.positional_encoding import RotaryPosition
from pellucid.nn.r_drop import linear_r_drop
from pellucid.nn.scaled_dot_product_attention import ScaledDotProductAttention

pytestmark = pytest.mark.usefixtures("compiled_kernels")  # unloaded only where a test compares
BITS = 2**32


def outputs(compute: Callable[[], list[Tensor]], loaded: bool) -> list[Tensor]:
    """What `compute` gives with the kernels or with the plain equations."""
    try:
        use_kernels(torch.device("cpu"), loaded)
        reseed(3)
        return [t.detach().clone() for t in compute()]
    finally:
        use_kernels(torch.device("cpu"))


def assert_same(compute: Callable[[], list[Tensor]], tolerance: float) -> None:
    for ours, plain in zip(outputs(compute, True), outputs(compute, False), strict=True):
        scale = plain.float().abs().max().clamp(min=1)
        assert ours.dtype == plain.dtype
        assert torch.isfinite(ours).all()
        assert ((ours.float() - plain.float()).abs().max() / scale) < tolerance


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(batch=st.integers(1, 4), heads=st.integers(1, 3), queries=st.integers(1, 40), keys=st.integers(1, 40),
       width=st.sampled_from([8, 16, 32, 64]), causal=st.booleans(), padded=st.booleans(), seed=st.integers(0, 99),
       kind=st.sampled_from([torch.float32, torch.bfloat16]))
def test_attention(batch: int, heads: int, queries: int, keys: int, width: int, causal: bool, padded: bool, seed: int,
                   kind: torch.dtype) -> None:
    """Forward and backward, with strides as the projections leave them, and sentences without any real key."""
    keys = queries if causal else keys
    random = torch.Generator().manual_seed(seed)
    joint = [torch.randn(batch, n, heads, width, generator=random).to(kind) for n in (queries, keys, keys)]
    upstream = torch.randn(batch, heads, queries, width, generator=random).to(kind)
    here = torch.arange(queries)
    there = here if causal else torch.arange(keys)
    real = torch.arange(keys) < torch.randint(0, keys + 1, (batch, 1), generator=random) if padded else None
    pattern, kernel = AttentionPattern(here, there, real, causal), ScaledDotProductAttention()

    def compute() -> list[Tensor]:
        leaves = [t.clone().requires_grad_() for t in joint]
        out = kernel(*[leaf.transpose(1, 2) for leaf in leaves], pattern, None)
        out.backward(upstream)
        return [out, *[leaf.grad for leaf in leaves if leaf.grad is not None]]

    assert_same(compute, 2e-5 if kind == torch.float32 else 3e-2)


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("length", [2, 63, 64, 65, 130])
def test_no_query_sees_what_follows(length: int, kind: torch.dtype) -> None:
    """Other keys and values behind a query change no bit of what it gets, and get no gradient from it."""
    p = torch.arange(length)
    pattern, kernel = AttentionPattern(p, p, None, True), ScaledDotProductAttention()
    q, k, v, *others = torch.randn(5, 2, 3, length, 16).to(kind)
    out = kernel(q, k, v, pattern, None)
    for last in {0, length // 2, length - 2}:
        changed = [torch.cat([t[:, :, : last + 1], other[:, :, last + 1 :]], 2).requires_grad_()
                   for t, other in zip((k, v), others, strict=True)]
        seen = kernel(q, *changed, pattern, None)[:, :, : last + 1]
        assert torch.equal(seen, out[:, :, : last + 1])
        for gradient in torch.autograd.grad(seen.sum(), changed):
            assert not gradient[:, :, last + 1 :].any()


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("width", [2, 14, 16, 48, 66])
def test_a_turn_is_a_product_of_complex_numbers(width: int, kind: torch.dtype) -> None:
    """With i, r·e^(iα), each rounded once; its gradient is turned back. From the first sentence on, and from one that
    begins elsewhere in each."""
    joint, upstream = torch.randn(3, 7, 5, width).to(kind), torch.randn(3, 5, 7, width).to(kind)
    together = torch.arange(7)
    for positions in (together, together[None], together + torch.tensor([[0], [11], [400]])):
        angles = positions[..., None] / 10_000 ** (torch.arange(0, width, 2) / width)
        turn = torch.polar(torch.ones_like(angles), angles).view(-1, 1, 7, width // 2)
        leaf = joint.clone().requires_grad_()
        out = RotaryPosition(width).rotate(leaf.transpose(1, 2), positions)
        out.backward(upstream)
        assert leaf.grad is not None
        for got, heads, by in ((out, joint.transpose(1, 2), turn), (leaf.grad.transpose(1, 2), upstream, turn.conj())):
            pairs = torch.view_as_complex(heads.float().unflatten(-1, (-1, 2)).contiguous())
            expected = torch.view_as_real(pairs * by).flatten(-2)
            assert got.dtype == kind
            torch.testing.assert_close(got, expected.to(kind), atol=2e-4, rtol=0 if kind == torch.float32 else 8e-3)


@pytest.mark.parametrize(("rows", "width"), [(1, 1), (3, 7), (300, 64), (129, 257)])
def test_layer_norm(rows: int, width: int) -> None:
    norm = LayerNorm(width)
    values, upstream = torch.randn(rows, width) * 3 + 1, torch.randn(rows, width)
    with torch.no_grad():
        norm.gain.normal_()
        norm.bias.normal_()

    def compute() -> list[Tensor]:
        x = values.clone().requires_grad_()
        norm.zero_grad()
        out = norm(x)
        out.backward(upstream)
        assert x.grad is not None
        assert norm.gain.grad is not None
        assert norm.bias.grad is not None
        return [out, x.grad, norm.gain.grad, norm.bias.grad]

    assert_same(compute, 2e-5 if width > 1 else 1e-2)


@pytest.mark.parametrize("deviation", [0.0, 1e-4, 3e-3, 1.0])
def test_epsilon_is_added_to_the_variance(deviation: float) -> None:
    """(x - μ) / √(σ² + ε), also where σ² is no larger than ε = 10⁻⁵, or 0."""
    x = deviation * torch.randn(9, 48)
    expected = F.layer_norm(x.double(), (48,), eps=1e-5).float()
    torch.testing.assert_close(LayerNorm(48)(x), expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("bf16", [False, True])
def test_cross_entropy(smoothing: float, bf16: bool) -> None:
    hidden, weight, targets = torch.randn(300, 32), torch.randn(1000, 32), torch.randint(0, 1000, (300,))

    def compute() -> list[Tensor]:
        h, w = hidden.clone().requires_grad_(), weight.clone().requires_grad_()
        with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
            loss = linear_cross_entropy(h, w, targets, smoothing)
        loss.backward()
        assert h.grad is not None
        assert w.grad is not None
        return [loss, h.grad, w.grad]

    assert_same(compute, 1e-2 if bf16 else 2e-5)


@pytest.mark.parametrize("alpha", [0.0, 5.0])
@pytest.mark.parametrize("bf16", [False, True])
def test_r_drop(alpha: float, bf16: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(cross_entropy.CHUNK_BYTES, "cpu", 2 * 4 * 1000 * 64)  # chunks, the last one not full
    hidden, weight, targets = torch.randn(2, 150, 32), torch.randn(1000, 32), torch.randint(0, 1000, (150,))

    def compute() -> list[Tensor]:
        h, w = hidden.clone().requires_grad_(), weight.clone().requires_grad_()
        with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
            loss = linear_r_drop(h, w, targets, 0.1, alpha)
        loss.backward()
        assert h.grad is not None
        assert w.grad is not None
        return [loss, h.grad, w.grad]

    assert_same(compute, 1e-2 if bf16 else 2e-5)


def drawn(count: int, a: int, b: int) -> list[int]:
    """The hash that decides about each feature, written anew in Python's integers."""
    out = []
    for i in range(count):
        x = (i * 0x9E3779B1 + a) % BITS
        x = (x ^ x >> 16) * 0x7FEB352D % BITS
        x = ((x ^ x >> 15) + b) % BITS
        x = (x ^ x >> 16) * 0x846CA68B % BITS
        out.append(x ^ x >> 16)
    return out


@pytest.mark.parametrize("p", [0.017, 0.1, 0.5, 0.9])
@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16])
def test_dropout_feature_by_feature(p: float, kind: torch.dtype) -> None:
    """Which features live is the hash's word, their scale is exact, and the gradient goes the same way."""
    x = torch.randn(4133).to(kind).requires_grad_()
    out = Dropout(p)(x)
    out.backward(torch.ones_like(out))
    reseed(0)  # as the fixture seeds each test; the values above were drawn first
    torch.randn(4133)
    key = int(torch.empty((), dtype=torch.int64).random_(-(2**63), None)) % 2**64
    kept = torch.tensor([h >= round(p * BITS) for h in drawn(4133, key >> 32, key & 0xFFFFFFFF)])
    expected = torch.where(kept, x.detach().float() / (1 - p), 0.0).to(kind)
    torch.testing.assert_close(out, expected)
    assert x.grad is not None
    torch.testing.assert_close(x.grad, torch.where(kept, 1 / (1 - p), 0.0).to(kind))


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_dropout_is_independent_over_features_and_sites(p: float) -> None:
    count = 1 << 20
    first, second = [(Dropout(p)(torch.ones(count)) == 0).double() for _ in range(2)]
    sigma = math.sqrt(p * (1 - p) / count)
    normal = [(d - p) / math.sqrt(p * (1 - p)) for d in (first, second)]
    assert abs(first.mean() - p) < 5 * sigma
    assert abs((normal[0] * normal[1]).mean()) < 5 / math.sqrt(count)
    for lag in (1, 2, 3, 4, 8, 16, 64, 256, 4096):
        assert abs((normal[0][lag:] * normal[0][:-lag]).mean()) < 5 / math.sqrt(count - lag)
    columns = first.view(-1, 256).mean(0)  # a feature of every row
    assert (columns - p).abs().max() < 6 * math.sqrt(p * (1 - p) / len(first) * 256)


def test_a_sum_with_dropout() -> None:
    x, y = torch.randn(50, 30, requires_grad=True), torch.randn(50, 30).bfloat16().requires_grad_()
    out = Dropout(0.5).add(x, y)
    added = out.detach() - x.detach()
    assert ((added == 0) | ((added - 2 * y.detach().float()).abs() < 1e-5)).all()
    out.backward(torch.ones_like(out))
    assert x.grad is not None
    assert y.grad is not None
    assert x.grad.eq(1).all()
    assert torch.equal(y.grad != 0, added != 0)
    assert torch.equal(Dropout(0.5).eval().add(x, y), x + y)


def test_results_do_not_depend_on_the_number_of_threads() -> None:
    norm, kernel = LayerNorm(64), ScaledDotProductAttention()
    x, qkv, p = torch.randn(1000, 64), torch.randn(3, 8, 4, 30, 32), torch.arange(30)

    def compute() -> list[Tensor]:
        reseed(1)
        leaf, heads = x.clone().requires_grad_(), qkv.clone().requires_grad_()
        norm.zero_grad()
        mixed = kernel(*heads.unbind(), AttentionPattern(p, p, None, True), None)
        total = norm(Dropout(0.3)(leaf)).square().sum() + mixed.sum()
        total.backward()
        assert norm.gain.grad is not None
        assert leaf.grad is not None
        assert heads.grad is not None
        return [leaf.grad, norm.gain.grad.clone(), heads.grad]

    torch.set_num_threads(1)
    one = compute()
    torch.set_num_threads(2)
    try:
        assert all(torch.equal(a, b) for a, b in zip(one, compute(), strict=True))
    finally:
        torch.set_num_threads(1)


def test_what_is_not_a_number_stays_so() -> None:
    x = torch.randn(4, 32)
    x[1, 3] = math.nan
    p = torch.arange(4)
    assert LayerNorm(32)(x)[1].isnan().all()
    assert not LayerNorm(32)(x)[0].isnan().any()
    heads = x.view(1, 1, 4, 32).expand(3, 1, 1, 4, 32)
    assert ScaledDotProductAttention()(*heads, AttentionPattern(p, p), None).isnan().any()
    assert linear_cross_entropy(x, torch.randn(9, 32), torch.zeros(4, dtype=torch.long), 0.1).isnan()


@pytest.mark.parametrize("size", [4, 41])
def test_any_nan_that_is_rounded_to_bf16_stays_one(size: int) -> None:
    """Also that of all ones, 0x7fffffff, to which nothing can be added for rounding."""
    y = nn.Parameter(torch.randn(3, size).bfloat16())
    upstream = torch.full((3, size), 0x7fffffff, dtype=torch.int32).view(torch.float32)
    Dropout(0.5).add(torch.randn(3, size), y).backward(upstream)
    assert y.grad is not None
    assert y.grad.isnan().all()


def test_other_types_keep_the_plain_equations() -> None:
    assert calls.serve(torch.zeros(1))
    assert not calls.serve(torch.zeros(1, dtype=torch.float64))
    assert not calls.serve(torch.zeros(1), torch.zeros(1, dtype=torch.float16))
