"""Positions, windows and widths of heads in the engine are those of the plain step: far beyond the first tables,
whatever has been decoded before, and as worked out by hand."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from tests.engine.test_engine import PARTS, SPECIALS, V, in_one_call, made, sources

from pellucid.engine.engine import Engine
from pellucid.engine.obstacle import obstacle
from pellucid.engine.program import LEAST
from pellucid.engine.snapshot import Snapshot
from pellucid.engine.tables import biases, keys_by_distance, turns
from pellucid.engine.widths import fill_inner, fill_outer, heads_of
from pellucid.model.stepper import TransformerStep
from pellucid.model.transformer import Transformer
from pellucid.nn.multi_head_attention import MultiHeadAttention
from pellucid.nn.positional_encoding import (
    AlibiPosition,
    NoPosition,
    RotaryPosition,
    T5Position,
    TransformerXlPosition,
)
from pellucid.search.options import SearchOptions
from pellucid.search.search import search

pytestmark = pytest.mark.usefixtures("compiled_kernels")

LONG = 150  # tokens: more than LEAST, and than T5 has buckets for
RELATIVE = ("rotary", "alibi", "t5", "quadratic", "transformer_xl")
PLACED: list[dict[str, Any]] = [
    *(parts for parts in PARTS if parts.get("position") in RELATIVE), {"position": "rotary"},
    {"position": "alibi", "n_heads": 3, "d_key": 8, "d_model": 48}, {"attention": "window", "window": 140},
    {"position": "t5", "attention": "window", "window": 0}]


def name_of(parts: dict[str, Any]) -> str:
    return "-".join(map(str, parts.values()))


@pytest.mark.parametrize("parts", PLACED, ids=name_of)
def test_distances_beyond_every_table_are_those_of_the_plain_step(parts: dict[str, Any]) -> None:
    model = made(**parts)
    draw = torch.Generator().manual_seed(5)
    ids = torch.randint(4, V, (3, LONG), generator=draw)
    real = torch.arange(LONG) < torch.tensor([LONG, 7, LEAST + 1])[:, None]
    plain, fast = TransformerStep(model), Engine(model, "fp32")
    with torch.inference_mode():
        expected, state = plain.start((ids, real)), fast.start((ids, real))
        for latest in torch.randint(4, V, (LONG, 3), generator=draw):
            wanted, expected = plain.step(expected, latest)
            got, state = fast.step(state, latest)
            torch.testing.assert_close(got.softmax(-1), wanted.softmax(-1), atol=1e-4, rtol=0.0)


@pytest.mark.parametrize("precision", ["fp32", "int8"])
@pytest.mark.parametrize("parts", PLACED, ids=name_of)
def test_what_was_decoded_before_changes_no_bit(parts: dict[str, Any], precision: str) -> None:
    """Longer tables are other tables; what holds the shorter ones goes on with them."""
    short = SearchOptions(beam_size=2, max_length=9, n_best=2)
    long = SearchOptions(beam_size=2, max_length=LEAST + 9, min_length=LEAST + 5)
    model = made(**parts)
    engine, source = Engine(model, precision), sources(4)
    frozen = engine.frozen(8, 9)
    before = in_one_call(engine, source, short)
    there = in_one_call(engine, source, long)
    assert there == in_one_call(Engine(model, precision), source, long)
    assert there == search(engine, source, 4, long, SPECIALS)
    assert in_one_call(engine, source, short) == before
    ids, real = source
    assert frozen.search(ids[real].numpy(), real.sum(1).numpy(), short, SPECIALS) == before


@pytest.mark.parametrize("parts", PLACED[:-2], ids=name_of)
def test_a_sentence_beside_a_longer_one_has_the_same_bits(parts: dict[str, Any]) -> None:
    """The longer one has larger tables made: no table ends otherwise than it goes on."""
    model, options = made(**parts), SearchOptions(beam_size=1, max_length=LEAST, min_length=LEAST - 1)
    ids = torch.randint(4, V, (1, LEAST), generator=torch.Generator().manual_seed(4))
    alone, longer = Engine(model, "fp32"), Engine(model, "fp32")
    longer.frozen(LEAST + 1, LEAST + 1)
    of_it = ids, torch.ones(1, LEAST, dtype=torch.bool)
    assert in_one_call(longer, of_it, options) == in_one_call(alone, of_it, options)


@pytest.mark.parametrize(("source", "target"), [(2 * LEAST, 5), (5, 2 * LEAST)])
@pytest.mark.parametrize("position", RELATIVE)
def test_tables_are_as_long_as_what_each_stack_reads(position: str, source: int, target: int) -> None:
    model, options = made(position=position), SearchOptions(beam_size=1, max_length=target, min_length=target - 1)
    ids = torch.randint(4, V, (1, source), generator=torch.Generator().manual_seed(4))
    of_it = ids, torch.ones(1, source, dtype=torch.bool)
    assert in_one_call(Engine(model, "fp32"), of_it, options) == search(Engine(model, "fp32"), of_it, 1, options,
                                                                        SPECIALS)


@pytest.mark.parametrize("window", [0, 1, 3])
def test_nobody_sees_beyond_a_window(window: int) -> None:
    """Logits after the last of ten tokens depend on a token as far as the two layers' windows reach, and no further."""
    engine = Engine(made(attention="window", window=window), "fp32")
    tokens = torch.randint(4, V, (10,), generator=torch.Generator().manual_seed(2))

    def logits(changed: int) -> torch.Tensor:
        state = engine.start((torch.tensor([[5, 6, 7]]), None))
        for place, token in enumerate(tokens.tolist()):
            out, state = engine.step(state, torch.tensor([token + 1 if place == changed else token]))
        return out.clone()

    as_it_is = logits(-1)
    for place in range(10):
        assert torch.equal(logits(place), as_it_is) == (9 - place > 2 * window)


def test_tables_by_hand() -> None:
    line = biases(AlibiPosition(2), 2, 9, looks_ahead=True)
    assert line is not None
    slopes = torch.tensor([[1 / 16], [1 / 256]])
    torch.testing.assert_close(line(3), -slopes * torch.tensor([2.0, 1.0, 0.0, 1.0, 2.0]) * 3)  # √9 over the scale
    t5 = T5Position(1, bidirectional=False)
    with torch.no_grad():
        t5.table.copy_(torch.arange(32.0)[:, None])
    steps = biases(t5, 1, 1, looks_ahead=False)
    assert steps is not None
    assert steps(20)[0].tolist() == [17, 16, 16, 16, *range(15, -1, -1)]  # sixteen buckets are exact
    assert biases(NoPosition(), 2, 9, looks_ahead=True) is None
    assert keys_by_distance(t5, torch.float32, looks_ahead=True) is None
    one, other = turns(RotaryPosition(2))(2)[1, :, :2].tolist()
    assert one == pytest.approx([math.cos(1), math.cos(1)])
    assert other == pytest.approx([-math.sin(1), math.sin(1)])


def test_keys_by_distance_and_the_bias_are_transformer_xl_s_two_terms() -> None:
    position = TransformerXlPosition(6, 2)
    with torch.no_grad():
        position.position_bias.normal_()
    q = torch.randn(1, 2, 1, 3)
    by_distance = keys_by_distance(position, torch.float32, looks_ahead=True)
    bias = biases(position, 2, 3, looks_ahead=True)
    assert by_distance is not None
    assert bias is not None
    keys = by_distance(4).view(7, 2, 16)
    assert not keys[..., 3:].any()
    told = (torch.einsum("hd,chd->hc", q[0, :, 0], keys[..., :3]) + bias(4)) / math.sqrt(3)
    expected = position.bias(q, torch.tensor([3]), torch.arange(7))[0, :, 0]
    torch.testing.assert_close(told, expected)


def test_zeros_behind_each_head_change_no_attention() -> None:
    attention = MultiHeadAttention(12, 3, NoPosition(), None, d_key=5)  # type: ignore[arg-type]
    heads = heads_of(attention)
    assert (heads.keys, heads.values, heads.row, heads.key_width) == (48, 48, 96, 5)
    x = torch.randn(7, 12)
    q, k = (x @ each.weight.T + each.bias for each in (heads.query, heads.key))
    plain = [layer(x).view(7, 3, 5) for layer in (attention.query, attention.key)]
    torch.testing.assert_close((q * k).view(7, 3, 16).sum(-1), (plain[0] * plain[1]).sum(-1))
    filled = fill_outer(attention.value, 3)
    out = fill_inner(attention.output, 3)
    values = x @ filled.weight.T + filled.bias
    torch.testing.assert_close(values @ out.weight.T + out.bias, attention.output(attention.value(x)))


SELF = "decoder.layers.0.self_attention"


def put(place: str, name: str, value: Any) -> Callable[[Transformer], Any]:
    return lambda model: setattr(model.get_submodule(place), name, value)


@pytest.mark.parametrize(("parts", "change", "reason"), [
    ({"position": "rotary"}, put(SELF, "n_heads", 4), "not made for these heads"),
    ({"position": "alibi"}, put(SELF, "n_heads", 4), "not made for these heads"),
    ({"position": "t5"}, put(SELF, "n_heads", 4), "not made for these heads"),
    ({"position": "quadratic"}, put(SELF, "n_heads", 4), "not made for these heads"),
    ({"position": "transformer_xl"}, put(SELF, "n_heads", 4), "not made for these heads"),
    ({"position": "alibi"}, put(SELF + ".position", "slopes", (0.5,)), "not made for these heads"),
    ({"position": "t5"}, put(SELF + ".position", "buckets", 16), "not made for these heads"),
    ({"position": "rotary"}, put(SELF, "n_heads", 5), "do not share"),
    ({}, put("decoder.layers.1.cross_attention", "position", RotaryPosition(32)), "cross-attention has positions"),
    ({}, put("", "window_size", -1), "window of attention is closed")])
def test_positions_that_do_not_fit_are_named(parts: dict[str, Any], change: Callable[[Transformer], Any],
                                             reason: str) -> None:
    model = made(**parts)
    assert obstacle(model) is None
    change(model)
    assert reason in str(obstacle(model))


@pytest.mark.parametrize(("parts", "change"), [
    ({"position": "alibi"}, put(SELF + ".position", "slopes", (0.5, 0.1))),
    ({"position": "t5"}, put(SELF + ".position", "max_distance", 20)),
    ({"position": "rotary"}, put(SELF, "position", NoPosition())),
    ({"attention": "window"}, put("", "window_size", 1))])
def test_a_change_of_positions_is_noticed_and_decoded(parts: dict[str, Any],
                                                      change: Callable[[Transformer], Any]) -> None:
    model = made(**parts)
    before = Snapshot(model)
    assert before.shows(model)
    change(model)
    assert not before.shows(model)
    assert obstacle(model) is None
    options = SearchOptions(beam_size=2, max_length=30, min_length=25)
    plain, fast = (search(steps, sources(5), 5, options, SPECIALS)
                   for steps in (TransformerStep(model), Engine(model, "fp32")))
    assert [one[0].score for one in fast] == pytest.approx([one[0].score for one in plain], abs=1e-4)
