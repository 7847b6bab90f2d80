"""Every door of kernels/ computes what the plain equation computes, or raises what it raises, whatever it is given:
shapes, types, layouts, devices, patterns, what asks for gradients, and numbers that are none.

PELLUCID_DOOR_CASES is the number of cases a door; tests/promises/07_doors.py runs very many.
"""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import HealthCheck, Phase, given, note, settings
from hypothesis import strategies as st
from tests.seeds import reseed
from torch import Tensor

from pellucid.kernels import attention, calls, cross_entropy, dropout, layer_norm, r_drop, rotary
from pellucid.nn.attention_pattern import AttentionPattern
from pellucid.nn.cross_entropy import linear_cross_entropy
from pellucid.nn.dropout import Dropout
from pellucid.nn.layer_norm import LayerNorm, RmsNorm
from pellucid.nn.positional_encoding import RotaryPosition
from pellucid.nn.r_drop import linear_r_drop
from pellucid.nn.scaled_dot_product_attention import ScaledDotProductAttention

pytestmark = pytest.mark.usefixtures("compiled_kernels")

COUNT = int(os.environ.get("PELLUCID_DOOR_CASES", "200"))
CASES: Counter[str] = Counter()  # that were found alike, by door
cases = settings(max_examples=COUNT, deadline=None, database=None, suppress_health_check=list(HealthCheck),
                 phases=[Phase.generate, Phase.shrink])

LAYOUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "dense": lambda t: t,
    "steps": lambda t: torch.stack([t, torch.zeros_like(t)], -1).flatten(-2)[..., ::2] if t.dim() else t,
    "turned": lambda t: t.transpose(0, -1).contiguous().transpose(0, -1) if t.dim() else t,
    "by rows": lambda t: t.transpose(1, -2).contiguous().transpose(1, -2) if t.dim() > 2 else t,
    "behind": lambda t: torch.cat([t.new_zeros(1), t.flatten()])[1:].view(t.shape),
    "all the first": lambda t: t[:1].expand_as(t) if t.dim() else t,
    "all the last": lambda t: t[..., -1:].expand_as(t) if t.dim() else t,
}
TOLERANCES = {torch.float64: 1e-4, torch.float32: 1e-4, torch.float16: 2e-2, torch.bfloat16: 8e-2}
Outcome = list[Tensor] | type[Exception]


class Draw:
    """What a case consists of, drawn by hypothesis: the usual, or now and then something else."""

    def __init__(self, data: st.DataObject) -> None:
        self._data = data
        self.random = torch.Generator().manual_seed(self.number(0, 9999))

    def number(self, low: int, high: int) -> int:
        return self._data.draw(st.integers(low, high))

    def one(self, *choices: Any) -> Any:
        return choices[self.number(0, len(choices) - 1)]

    def mostly(self, usual: Any, *rare: Any) -> Any:
        which = self.number(0, 12 * len(rare) - 1)
        return rare[which] if which < len(rare) else usual

    def numbers(self, *shape: int, scale: float = 1.0) -> Tensor:
        return torch.randn(shape, generator=self.random) * scale

    def type(self) -> torch.dtype:
        return self.mostly(self.one(torch.float32, torch.bfloat16), torch.float16, torch.float64)

    def given(self, t: Tensor, usual: torch.dtype, device: str, needs: bool) -> Given:
        kind = self.mostly(usual, torch.float32, torch.bfloat16, torch.float64, torch.int64)
        where = self.mostly(device, "meta")
        return Given(t, kind, where, self.one(*LAYOUTS), needs and kind.is_floating_point)


class Given:
    """A tensor as a door gets it: its values, type, device and layout, and whether it asks for its gradient."""

    def __init__(self, values: Tensor, kind: torch.dtype, device: str, layout: str, needs: bool) -> None:
        self.values = values.to(kind).to(device)
        self.layout, self.needs = layout, needs

    def made(self, exact: bool) -> tuple[Tensor, Tensor]:
        """The leaf, and what is made of it; in float64 if it is to be `exact`."""
        leaf = self.values.double() if exact and self.values.is_floating_point() else self.values.clone()
        leaf.requires_grad_(self.needs)
        return leaf, LAYOUTS[self.layout](leaf)

    def __repr__(self) -> str:
        shape = tuple(self.values.shape)
        return f"<{shape} {self.values.dtype} {self.values.device} {self.layout} {'needs' if self.needs else ''}>"


class Context:
    """In what a door is entered."""

    def __init__(self, draw: Draw) -> None:
        self.mode = draw.one("grad", "grad", "no grad", "inference")
        self.autocast = draw.mostly(False, True, True, True)
        self.upstream = (draw.one(*LAYOUTS), draw.mostly(None, torch.float64, torch.bfloat16), draw.number(0, 99))

    @contextlib.contextmanager
    def entered(self, exact: bool) -> Iterator[None]:
        with (torch.set_grad_enabled(self.mode == "grad"), torch.inference_mode(self.mode == "inference"),
              torch.autocast("cpu", torch.bfloat16, enabled=self.autocast and not exact)):
            yield

    def upstream_of(self, out: Tensor) -> Tensor:
        layout, kind, seed = self.upstream
        drawn = torch.randn(out.shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        drawn = drawn.to(kind or torch.float64)
        return LAYOUTS[layout](drawn.to(out) if kind is None or out.dtype == torch.float64 else drawn.to(out.device))


def outcome(door: Callable[..., Tensor], inputs: Sequence[Given | None], context: Context,
            exact: bool = False) -> Outcome:
    """What comes out, and the gradients of whatever asks for one; or the error. Without the data, if some of the inputs
    have none: torch itself gives gradients that it never wrote to, then."""
    try:
        with context.entered(exact):
            made = [each if each is None else each.made(exact) for each in inputs]
            reseed(5)
            out = door(*[each and each[1] for each in made])
        leaves = [each[0] for each in made if each and each[0].requires_grad]
        if context.mode != "grad" or not out.requires_grad:
            gradients: tuple[Tensor, ...] = ()
        else:
            gradients = torch.autograd.grad(out, leaves, context.upstream_of(out), materialize_grads=True)
        on_meta = any(each is not None and each.values.is_meta for each in inputs)
        return [each.to("meta") if on_meta else each for each in (out.detach(), *gradients)]
    except (RuntimeError, IndexError, ValueError, TypeError, NotImplementedError) as error:
        return type(error)


@contextlib.contextmanager
def equations() -> Iterator[None]:
    """Every door is shut: what stands in nn/ computes."""
    with pytest.MonkeyPatch.context() as patch:
        for room in (attention, cross_entropy, dropout, layer_norm, r_drop, rotary):
            patch.setattr(room, "serves", lambda *given: False)
        patch.setattr(dropout, "adds", lambda *given: False)
        yield


def alike(name: str, ours: Outcome, plain: Outcome, exact: Outcome, tolerance: float) -> None:
    """The same error; or results of the same shapes and types, near the exact ones, or hardly farther from them than
    the plain ones."""
    if isinstance(plain, type):
        assert isinstance(ours, type), f"{plain.__name__} was not raised"
        assert issubclass(ours, plain) or issubclass(plain, ours)
    else:
        assert not isinstance(ours, type), f"{ours.__name__} was raised"
        assert not isinstance(exact, type)
        assert len(ours) == len(plain) == len(exact)
        for a, b, e in zip(ours, plain, exact, strict=True):
            note(f"ours {a}\nplain {b}\nexact {e}")
            assert (a.shape, a.device, a.dtype) == (b.shape, b.device, b.dtype)
            if e.device.type == "cpu" and e.numel():
                near = max(tolerance, TOLERANCES.get(a.dtype, 0)) * e.abs().max().clamp(min=1)
                assert (a.double() - e).abs().max() < near + 4 * (b.double() - e).abs().max()
    CASES[name] += 1


def compare(name: str, door: Callable[..., Tensor], inputs: Sequence[Given | None], context: Context,
            plain: Callable[..., Tensor] | None = None, terms: int = 1) -> None:
    """The door, open, beside the equation; `plain` where something else says which errors there are. So many rounded
    terms are in a sum."""
    note(f"{inputs} {vars(context)}")
    ours = outcome(door, inputs, context)
    with equations() if plain is None else calls.rehearse(()):
        expected = outcome(plain or door, inputs, context)
    with equations():
        has_data = not any(each is not None and each.values.is_meta for each in inputs)
        exact = outcome(door, inputs, context, exact=True) if has_data else expected
    exact = expected if isinstance(exact, type) else exact  # types that go together only as they are
    types = {each.values.dtype for each in inputs if each and each.values.is_floating_point()}
    alike(name, ours, expected, exact, terms**0.5 * max(TOLERANCES[kind] for kind in (*types, torch.bfloat16)
                                           if kind in types or context.autocast) if types else 1.0)


# ---- attention ------------------------------------------------------------------------------------------------------


def pattern_of(draw: Draw, usual: str, batch: int, queries: int, keys: int) -> Callable[[], AttentionPattern]:
    """A pattern over these sizes on the usual device, or nearly; made anew for each call."""
    causal, window = draw.one(False, True), draw.mostly(None, 0, 2, 40)
    order = draw.mostly("grows", "falls", "stands", "short")
    same, rows = draw.one(True, False), draw.mostly(False, True)
    shape = draw.one(None, None, (batch, keys), draw.mostly((batch, keys), (1, keys), (batch + 1, keys), (batch, 1)))
    padding, kind = draw.mostly("last", "anywhere", "first"), draw.mostly(torch.bool, torch.int64)
    device, place, real = draw.mostly(usual, "cpu", "meta"), draw.mostly(usual, "cpu", "meta"), None
    if shape:
        real = torch.randint(2, shape, generator=draw.random).bool()
        if padding != "anywhere":
            real = real.sort(1, descending=padding == "last").values

    def positions(count: int) -> Tensor:
        if order == "short":
            count = max(count - 1, 0)
        here = torch.arange(count).flip(0) if order == "falls" else torch.arange(count)
        here = here // 2 if order == "stands" else here
        return (here.expand(batch, -1) if rows else here).to(place)

    note(f"{causal=} {window=} {same=} {order=} {rows=} {real=} {kind=} {device=} {place=}")

    def make() -> AttentionPattern:
        there = positions(keys)
        here = there if same and queries == keys else positions(queries)
        return AttentionPattern(here, there, None if real is None else real.to(kind).to(device), causal, window)

    return make


@cases
@given(data=st.data())
def test_attention(data: st.DataObject) -> None:
    draw = Draw(data)
    kind, device = draw.type(), draw.mostly("cpu", "meta")
    batch, heads = draw.mostly(draw.number(1, 4), 0), draw.number(1, 3)
    queries = draw.mostly(draw.one(draw.number(1, 9), draw.number(1, 80)), 0)
    keys = draw.mostly(draw.one(queries, draw.number(1, 9), draw.number(1, 80)), 0)
    width = draw.one(16, 32, 64, draw.number(1, 9), 24)
    k_shape = (draw.mostly(batch, 1, batch + 1), draw.mostly(heads, 1), keys, draw.mostly(width, width + 1))
    v_shape = (draw.mostly(batch, 1), draw.mostly(heads, 1), draw.mostly(keys, keys + 1), draw.mostly(width, 16, 5))
    needs = [draw.one(True, False) for _ in range(4)]
    inputs = [draw.given(draw.numbers(*shape), kind, device, need) for shape, need in
              zip([(batch, heads, queries, width), k_shape, v_shape], needs, strict=False)]
    bias_shape = draw.one(None, None, (batch, heads, queries, keys), (1, heads, queries, keys), (batch, 1, queries, 1),
                          (queries, keys), (2, heads, 1, keys))
    bias = bias_shape and draw.given(draw.numbers(*bias_shape), kind, device, needs[3])
    pattern, module = pattern_of(draw, device, batch, queries, keys), ScaledDotProductAttention()
    compare("attention", lambda q, k, v, b: module(q, k, v, pattern(), b), [*inputs, bias], Context(draw))


def test_padding_between_the_keys_is_hidden_where_it_is() -> None:
    """Whatever the pattern's positions say: keys that are real are not counted from the first on."""
    x, p = torch.randn(3, 1, 2, 5, 16), torch.arange(5)
    real = torch.tensor([[True, False, True, True, False]])
    out = ScaledDotProductAttention()(*x, AttentionPattern(p, p, real), None)
    here = real[0].nonzero()[:, 0]
    q, k, v = x[0], x[1][:, :, here], x[2][:, :, here]
    torch.testing.assert_close(out, ScaledDotProductAttention()(q, k, v, AttentionPattern(p, here), None))


# ---- rotary positions -----------------------------------------------------------------------------------------------


@cases
@given(data=st.data())
def test_rotary_positions(data: st.DataObject) -> None:
    draw = Draw(data)
    kind, device = draw.type(), draw.mostly("cpu", "meta")
    batch, rows = draw.mostly(draw.number(1, 4), 0), draw.mostly(draw.number(1, 60), 0)
    width = draw.one(16, 32, 48, 64, 2 * draw.number(1, 40))
    shape = draw.mostly((batch, draw.number(1, 3), rows, width), (batch, rows, width), (2, batch, 1, rows, width))
    heads = draw.given(draw.numbers(*shape), kind, device, draw.one(True, False))
    of_batch = draw.one((rows,), (rows,), (batch, rows), (1, rows))
    placed = torch.randint(0, 500, draw.mostly(of_batch, (1,), (rows + 1,), (batch + 1, rows)), generator=draw.random)
    positions = Given(placed, draw.mostly(torch.int64, torch.int32), draw.mostly(device, "cpu", "meta"),
                      draw.one(*LAYOUTS), needs=False)
    module = RotaryPosition(draw.mostly(width, width + 2, 2))
    compare("rotary positions", module.rotate, [heads, positions], Context(draw))


# ---- norms ----------------------------------------------------------------------------------------------------------


@cases
@given(data=st.data())
def test_norms(data: st.DataObject) -> None:
    """The errors are those of torch's own norms, which do not stretch a gain that is too short. Of types that differ,
    the equation's is the wider one, where torch's norms give that of x."""
    draw = Draw(data)
    kind, device, width = draw.type(), draw.mostly("cpu", "meta"), draw.mostly(draw.number(1, 70), 0)
    shape = draw.one((width,), (draw.number(0, 3), width), (draw.number(1, 3), draw.number(1, 150), width))
    x = draw.given(draw.numbers(*draw.mostly(shape, ()), scale=draw.one(1, 100)), kind, device, draw.one(True, False))
    gain, bias = (draw.given(draw.numbers(*draw.mostly((width,), (1,), (width + 1,), (1, width), ())), x.values.dtype,
                             device, draw.one(True, False)) for _ in range(2))
    context, kind = Context(draw), draw.one(LayerNorm, RmsNorm)
    if x.layout == "all the last" or (x.layout == "all the first" and x.values.dim() == 1):
        x.layout = "dense"  # rows without any variance only enlarge what rounding leaves

    def norm(x: Tensor, gain: Tensor, bias: Tensor) -> Tensor:
        module = kind(1)
        del module.gain
        module.gain = gain
        if kind is LayerNorm:
            del module.bias
            module.bias = bias
        return module(x)

    def torchs(x: Tensor, gain: Tensor, bias: Tensor) -> Tensor:
        x = x.to(torch.promote_types(x.dtype, gain.dtype))
        if kind is LayerNorm:
            return F.layer_norm(x, gain.shape, gain, bias, LayerNorm.epsilon)
        return F.rms_norm(x, gain.shape, gain, RmsNorm.epsilon)

    compare("norms", norm, [x, gain, bias], context, None if x.values.dtype not in calls.FLOATS else torchs)


# ---- dropout --------------------------------------------------------------------------------------------------------


@cases
@given(data=st.data())
def test_dropout(data: st.DataObject) -> None:
    """What is dropped is a draw's to say, and is asked of ones of the same shape."""
    draw = Draw(data)
    kind, device, p = draw.type(), draw.mostly("cpu", "meta"), draw.one(0.1, 0.5, 0.9, 0.0)
    shape = [draw.number(0 if draw.mostly(False, True) else 1, 20) for _ in range(draw.number(0, 3))]
    other = draw.mostly(shape, [1] * len(shape), shape[1:], [*shape, 2])
    x = draw.given(draw.numbers(*shape), kind, device, draw.one(True, False))
    y = draw.given(draw.numbers(*other), kind, device, draw.one(True, False))
    module, context, adds = Dropout(p), Context(draw), draw.one(True, False)
    note(f"{x} {y} {p} {adds} {vars(context)}")
    door = module.add if adds else lambda x, y: module(y)
    ours = outcome(door, [x, y], context)
    with equations():
        plain = outcome(door, [x, y], context)
    exact: Outcome = plain
    if not isinstance(plain, type):
        on_meta = plain[0].device.type == "meta"
        ones, zeros = torch.ones_like(y.made(False)[1]), torch.zeros_like(x.made(False)[1])
        reseed(5)
        with torch.no_grad():
            mask = door(zeros, ones.contiguous()).double() if adds and not on_meta else module(ones).double()
        rounded = mask.gt(0).double() / (1 - p)
        torch.testing.assert_close(mask, rounded, atol=0.0, rtol=0.01) if not on_meta else None
        exact = outcome(lambda x, y: (x if adds else 0) + y * rounded, [x, y], context, not on_meta)
    alike("dropout", ours, plain, exact, max(TOLERANCES.get(each.values.dtype, 1.0) for each in (x, y)))


# ---- losses ---------------------------------------------------------------------------------------------------------


def loss_inputs(draw: Draw, passes: tuple[int, ...]) -> list[Given]:
    """Hidden states, matrix and targets that belong together, or nearly."""
    kind, device = draw.type(), draw.mostly("cpu", "meta")
    rows, width, words = draw.mostly(draw.number(1, 90), 0), draw.number(1, 40), draw.number(1, 50)
    hidden = draw.given(draw.numbers(*draw.mostly((*passes, rows, width), (rows, width), (*passes, 1, rows, width),
                                                  (1, rows, width))), kind, device, draw.one(True, False))
    weight = draw.given(draw.numbers(words, draw.mostly(width, width + 1)), hidden.values.dtype, device,
                        draw.one(True, False))
    low, high = draw.mostly((0, words), (-1, words), (0, words + 5), (-words, words))
    ids = torch.randint(low, max(high, 1), (draw.mostly(rows, rows + 1, max(rows - 1, 0), 1),), generator=draw.random)
    ids = ids if draw.mostly(False, True) is False else ids[:, None]
    types = (torch.int32, torch.int16, torch.uint8, torch.bool, torch.float32)
    kind, device = draw.mostly(torch.int64, *types), draw.mostly(device, "cpu", "meta")
    return [hidden, weight, Given(ids, kind, device, draw.one(*LAYOUTS), needs=False)]


def in_wide(loss: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """The loss, in the type that its docstring promises where the equation stays in that of its inputs."""
    return lambda *given: loss(*given) if given[0].dtype == torch.float64 else loss(*given).float()


@cases
@given(data=st.data())
def test_linear_cross_entropy(data: st.DataObject) -> None:
    draw = Draw(data)
    smoothing = draw.one(0.0, 0.1, 0.6)
    compare("linear_cross_entropy", in_wide(lambda h, w, t: linear_cross_entropy(h, w, t, smoothing)),
            loss_inputs(draw, ()), Context(draw), terms=90)


@cases
@given(data=st.data())
def test_linear_r_drop(data: st.DataObject) -> None:
    draw = Draw(data)
    smoothing, alpha = draw.one(0.0, 0.1, 0.6), draw.one(0.0, 1.0, 5.0)
    compare("linear_r_drop", in_wide(lambda h, w, t: linear_r_drop(h, w, t, smoothing, alpha)),
            loss_inputs(draw, (2,)), Context(draw), terms=90)
