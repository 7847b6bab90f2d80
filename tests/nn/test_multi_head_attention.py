"""Multi-head attention against torch's, and a step at a time against all at once."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pellucid.kernels import joint
from pellucid.nn.attention_pattern import AttentionPattern, causal, full, padding, window
from pellucid.nn.key_value_cache import KeyValueCache
from pellucid.nn.linear_attention import LinearAttention
from pellucid.nn.multi_head_attention import AttentionFunction, MultiHeadAttention
from pellucid.nn.positional_encoding import (
    AlibiPosition,
    NoPosition,
    Position,
    QuadraticPosition,
    RotaryPosition,
    T5Position,
    TransformerXlPosition,
)
from pellucid.nn.scaled_dot_product_attention import ScaledDotProductAttention

Close = Callable[..., None]
Randomize = Callable[[nn.Module], nn.Module]
D, H = 12, 3
REAL = torch.tensor([[True, True, True, True, False], [False, True, True, True, True]])
POSITIONS: dict[str, Callable[[], Position]] = {
    "none": NoPosition, "rotary": lambda: RotaryPosition(D // H), "alibi": lambda: AlibiPosition(H),
    "t5": lambda: T5Position(H, False), "quadratic": lambda: QuadraticPosition(H, True),
    "transformer_xl": lambda: TransformerXlPosition(D, H)}


def pair(dtype: torch.dtype, randomize: Randomize) -> tuple[MultiHeadAttention, nn.MultiheadAttention]:
    ours = MultiHeadAttention(D, H, NoPosition(), ScaledDotProductAttention()).to(dtype)
    theirs = nn.MultiheadAttention(D, H, batch_first=True).to(dtype)
    randomize(theirs)
    projections = (ours.query, ours.key, ours.value)
    weights = (*theirs.in_proj_weight.chunk(3), theirs.out_proj.weight)
    biases = (*theirs.in_proj_bias.chunk(3), theirs.out_proj.bias)
    for linear, weight, bias in zip((*projections, ours.output), weights, biases, strict=True):
        linear.weight.data, linear.bias.data = weight.data.clone(), bias.data.clone()
    return ours, theirs


def joint_pattern(kind: str, queries: Tensor, keys: Tensor) -> AttentionPattern:
    pattern = full(queries, keys)
    if "causal" in kind:
        pattern &= causal(queries, keys)
    if "window" in kind:
        pattern &= window(queries, keys, 1)
    if "padding" in kind:
        pattern &= padding(queries, keys, REAL)
    return pattern


def torch_arguments(pattern: AttentionPattern, t: int, s: int) -> dict[str, Tensor | None]:
    """The same pattern in torch's words, where true is forbidden."""
    bare = AttentionPattern(pattern.query_positions, pattern.key_positions, None, pattern.causal, pattern.window).mask
    return {"attn_mask": None if bare is None else ~bare[0, 0].expand(t, s),
            "key_padding_mask": None if pattern.real_keys is None else ~pattern.real_keys}


def check(ours: MultiHeadAttention, theirs: nn.MultiheadAttention, x: Tensor, memory: Tensor, pattern: AttentionPattern,
          close: Close) -> None:
    t, s = x.shape[1], memory.shape[1]
    actual = ours(x, memory, pattern)
    expected, weights = theirs(x, memory, memory, average_attn_weights=False, **torch_arguments(pattern, t, s))
    answerable = torch.ones(2, t, dtype=torch.bool)
    if pattern.mask is not None:  # where there is nothing to see, torch gives NaN
        answerable = pattern.answerable[:, 0, :, 0].expand(2, t)
    close(actual[answerable], expected[answerable])
    (q,) = ours._heads(x, ours.query)
    k, _ = ours._heads(memory, ours.key, ours.value)
    rows = answerable[:, None].expand(2, H, t)
    close(ours.function.weights(q, k, pattern, None)[rows], weights[rows])
    if answerable.all():
        inputs = [x] if memory is x else [x, memory]
        upstream = torch.randn_like(actual)
        for a, e in zip(torch.autograd.grad(actual, inputs, upstream), torch.autograd.grad(expected, inputs, upstream),
                        strict=True):
            close(a, e)


@pytest.mark.parametrize("kind", ["full", "causal", "padding", "causal padding", "window", "causal window padding"])
def test_self_attention_is_torchs(kind: str, dtype: torch.dtype, close: Close, randomize: Randomize) -> None:
    ours, theirs = pair(dtype, randomize)
    x = torch.randn(2, 5, D, dtype=dtype, requires_grad=True)
    positions = torch.arange(5)
    check(ours, theirs, x, x, joint_pattern(kind, positions, positions), close)


@pytest.mark.parametrize("kind", ["full", "padding", "window padding"])
@pytest.mark.parametrize("t", [1, 3, 7])
def test_cross_attention_is_torchs(t: int, kind: str, dtype: torch.dtype, close: Close, randomize: Randomize) -> None:
    ours, theirs = pair(dtype, randomize)
    x = torch.randn(2, t, D, dtype=dtype, requires_grad=True)
    memory = torch.randn(2, 5, D, dtype=dtype, requires_grad=True)
    check(ours, theirs, x, memory, joint_pattern(kind, torch.arange(t), torch.arange(5)), close)


def test_every_parameter_gets_torchs_gradient(dtype: torch.dtype, close: Close, randomize: Randomize) -> None:
    ours, theirs = pair(dtype, randomize)
    x, positions = torch.randn(2, 5, D, dtype=dtype), torch.arange(5)
    ours(x, x, causal(positions, positions)).square().sum().backward()
    forbidden = torch.ones(5, 5, dtype=torch.bool).triu(1)
    theirs(x, x, x, attn_mask=forbidden)[0].square().sum().backward()
    joint = torch.cat([ours.query.weight.grad, ours.key.weight.grad, ours.value.weight.grad])
    close(joint, theirs.in_proj_weight.grad, 1e-4 if dtype == torch.float32 else 0)
    close(ours.output.weight.grad, theirs.out_proj.weight.grad, 1e-4 if dtype == torch.float32 else 0)
    close(ours.output.bias.grad, theirs.out_proj.bias.grad, 1e-4 if dtype == torch.float32 else 0)


def function_named(name: str) -> ScaledDotProductAttention | LinearAttention:
    return LinearAttention() if name == "linear" else ScaledDotProductAttention()


@pytest.mark.parametrize(("position", "kernel", "size"), [*((p, "softmax", None) for p in POSITIONS),
                                                          *((p, "softmax", 2) for p in POSITIONS),
                                                          ("none", "linear", None)])
def test_continuing_step_by_step_is_attending_at_once(position: str, kernel: str, size: int | None,
                                                      dtype: torch.dtype, close: Close, randomize: Randomize) -> None:
    attention = MultiHeadAttention(D, H, POSITIONS[position](), function_named(kernel)).to(dtype)
    randomize(attention)
    x, positions = torch.randn(2, 6, D, dtype=dtype), torch.arange(6)
    whole = attention(x, x, causal(positions, positions) & window(positions, positions, size))
    past = KeyValueCache()
    for t in range(6):
        new, here, so_far = x[:, t : t + 1], positions[t : t + 1], positions[: t + 1]
        out = attention(new, new, causal(here, so_far) & window(here, so_far, size), past)
        close(out[:, 0], whole[:, t])


@pytest.mark.parametrize("position", [name for name in POSITIONS if name != "none"])
def test_what_counts_is_how_far_a_key_is_from_its_query(position: str, dtype: torch.dtype, close: Close,
                                                        randomize: Randomize) -> None:
    """Queries and keys that move together give what they gave; queries that move alone do not."""
    attention = MultiHeadAttention(D, H, POSITIONS[position](), ScaledDotProductAttention()).to(dtype)
    randomize(attention)
    x, memory = torch.randn(2, 3, D, dtype=dtype), torch.randn(2, 5, D, dtype=dtype)

    def at(queries: int, keys: int) -> Tensor:
        return attention(x, memory, full(torch.arange(3) + queries, torch.arange(5) + keys))

    close(at(9, 9), at(0, 0), 3e-4)  # angles are kept in fp32
    assert not torch.allclose(at(2, 0), at(0, 0), atol=1e-2)


def test_heads_of_quadratic_positions_can_be_a_convolution(dtype: torch.dtype, close: Close,
                                                            randomize: Randomize) -> None:
    """Theorem 1 of Cordonnier et al. 2020: a head for each place, its values and outputs the filters there."""
    attention = MultiHeadAttention(D, H, QuadraticPosition(H, True), ScaledDotProductAttention()).to(dtype)
    randomize(attention)
    attention.query.weight.data.zero_()
    attention.query.bias.data.zero_()
    attention.position.centre.data, attention.position.sharpness.data = (
        torch.tensor([0.0, -1.0, 1.0], dtype=dtype), torch.full((H,), 1e3, dtype=dtype))
    values, outputs = attention.value.weight.view(H, D // H, D), attention.output.weight.view(D, H, D // H)
    filters = torch.einsum("dhk,hkc->dch", outputs, values)[:, :, [1, 0, 2]]  # those of -1, 0 and 1
    bias = attention.output(attention.value.bias)
    x, positions = torch.randn(2, 7, D, dtype=dtype), torch.arange(7)
    expected = F.conv1d(x.mT, filters, bias).mT
    close(attention(x, x, full(positions, positions))[:, 1:-1], expected, 1e-4 if dtype == torch.float32 else 0)


@pytest.mark.parametrize("position", POSITIONS)
def test_what_was_remembered_is_attended_to_alike(position: str, dtype: torch.dtype, close: Close,
                                                  randomize: Randomize) -> None:
    attention = MultiHeadAttention(D, H, POSITIONS[position](), ScaledDotProductAttention()).to(dtype)
    randomize(attention)
    x, memory = torch.randn(2, 3, D, dtype=dtype), torch.randn(2, 5, D, dtype=dtype)
    pattern = padding(torch.arange(3), torch.arange(5), REAL)
    cache = attention.remember(memory, pattern.key_positions)
    close(attention(x, cache, pattern), attention(x, memory, pattern))


@pytest.mark.parametrize("kernel", ["softmax", "linear"])
def test_keys_may_have_a_width_of_their_own(kernel: str, dtype: torch.dtype, close: Close,
                                            randomize: Randomize) -> None:
    attention = MultiHeadAttention(D, H, NoPosition(), function_named(kernel), d_key=5).to(dtype)
    randomize(attention)
    x, positions = torch.randn(2, 6, D, dtype=dtype), torch.arange(6)
    pattern = causal(positions, positions)
    whole = attention(x, x, pattern)
    if kernel == "softmax":  # section 3.2.2, head by head
        heads = []
        for head in range(H):
            q, k = (p(x)[..., 5 * head : 5 * head + 5] for p in (attention.query, attention.key))
            v = attention.value(x)[..., 4 * head : 4 * head + 4]
            scores = (q @ k.transpose(1, 2) / 5**0.5).masked_fill(torch.ones(6, 6).triu(1).bool(), -torch.inf)
            heads.append(scores.softmax(-1) @ v)
        close(whole, attention.output(torch.cat(heads, -1)))
    past = KeyValueCache()
    for t in range(6):
        new = x[:, t : t + 1]
        out = attention(new, new, causal(positions[t : t + 1], positions[: t + 1]), past)
        close(out[:, 0], whole[:, t])


@pytest.mark.parametrize("kernel", [ScaledDotProductAttention, LinearAttention])
@pytest.mark.parametrize(("rows", "queries"), [(0, 3), (2, 0)])
def test_no_rows_and_no_queries_give_nothing(rows: int, queries: int, kernel: Callable[[], AttentionFunction],
                                             dtype: torch.dtype) -> None:
    attention, keys = MultiHeadAttention(D, H, NoPosition(), kernel()).to(dtype), torch.arange(5)
    x, memory = torch.randn(rows, queries, D, dtype=dtype), torch.randn(rows, 5, D, dtype=dtype)
    for pattern in (full(keys[:queries], keys), causal(keys[:queries], keys)):
        assert attention(x, memory, pattern).shape == (rows, queries, D)


class Louder(nn.Linear):
    """Three times an nn.Linear."""

    def forward(self, x: Tensor) -> Tensor:
        return 3 * super().forward(x)


def of_louder(attention: MultiHeadAttention, name: str) -> None:
    linear = getattr(attention, name)
    louder = Louder(D, D)
    louder.load_state_dict(linear.state_dict())
    setattr(attention, name, louder)


CHANGES: dict[str, Callable[[MultiHeadAttention, str], object]] = {
    "subclass": of_louder,
    "wrapper": lambda attention, name: setattr(attention, name, nn.Sequential(getattr(attention, name), nn.Tanh())),
    "hook": lambda attention, name: getattr(attention, name).register_forward_hook(lambda linear, x, y: 3 * y),
    "hook before": lambda attention, name: getattr(attention, name).register_forward_pre_hook(
        lambda linear, x: (3 * x[0],)),
    "own forward": lambda attention, name: setattr(getattr(attention, name), "forward", torch.tanh),
    "no bias": lambda attention, name: getattr(attention, name).register_parameter("bias", None)}


@pytest.mark.parametrize("name", ["query", "key", "value"])
@pytest.mark.parametrize("change", CHANGES)
def test_a_projection_that_somebody_changed_does_what_it_does_now(change: str, name: str, close: Close,
                                                                  randomize: Randomize) -> None:
    attention = MultiHeadAttention(D, H, NoPosition(), ScaledDotProductAttention())
    randomize(attention)
    x, places = torch.randn(2, 5, D), torch.arange(5)
    CHANGES[change](attention, name)
    q, k, v = (each(x).unflatten(2, (H, D // H)).transpose(1, 2)
               for each in (attention.query, attention.key, attention.value))
    mixed = attention.function(q, k, v, full(places, places), None)
    close(attention(x, x, full(places, places)), attention.output(mixed.transpose(1, 2).flatten(2)))


def test_projections_are_one_product_unless_somebody_watches_them(close: Close) -> None:
    attention, x = MultiHeadAttention(D, H, NoPosition(), ScaledDotProductAttention()), torch.randn(2, 5, D)
    projections = attention.query, attention.key, attention.value
    assert joint.serves(x, projections)
    for ours, each in zip(joint.project(x, projections), projections, strict=True):
        close(ours, each(x))
    seen: list[nn.Module] = []
    with nn.modules.module.register_module_forward_hook(lambda module, x, y: seen.append(module)):
        attention(x, x, full(torch.arange(5), torch.arange(5)))
    assert {*projections} < {*seen}
    attention.key.register_full_backward_hook(lambda module, into, out: seen.append(module))
    assert not joint.serves(x, projections)


def test_a_width_that_heads_cannot_share_is_refused() -> None:
    with pytest.raises(ValueError, match=r"10 .* 3"):
        MultiHeadAttention(10, 3, NoPosition(), ScaledDotProductAttention())
