"""Positions against hand-worked and published values: sinusoidal, learned, rotary, ALiBi, T5."""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from pellucid.nn.positional_encoding import (
    AlibiPosition,
    LearnedPosition,
    NoPosition,
    Position,
    QuadraticPosition,
    RotaryPosition,
    SinusoidalPosition,
    T5Position,
    TransformerXlPosition,
    alibi_slopes,
)

Close = Callable[..., None]
ALL: dict[str, Callable[[], Position]] = {
    "none": NoPosition,
    "embed sinusoidal": lambda: SinusoidalPosition(8), "embed learned": lambda: LearnedPosition(8, 9),
    "rotate rotary": lambda: RotaryPosition(4), "bias alibi": lambda: AlibiPosition(2),
    "bias t5": lambda: T5Position(2, True), "bias quadratic": lambda: QuadraticPosition(2, True),
    "bias transformer_xl": lambda: TransformerXlPosition(8, 2)}


@pytest.mark.parametrize("name", ALL)
def test_only_the_declared_door_is_open(name: str) -> None:
    position = ALL[name]()
    for parameter in position.parameters():
        nn.init.normal_(parameter)
    assert position.door == name.split()[0]
    x, heads, at = torch.randn(1, 3, 8), torch.randn(1, 2, 3, 4), torch.tensor([1, 2, 3])
    assert torch.equal(position.embed(x, at), x) == (position.door != "embed")
    assert torch.equal(position.rotate(heads, at), heads) == (position.door != "rotate")
    assert (position.bias(heads, at, at) is None) == (position.door != "bias")


@pytest.mark.parametrize("width", [1, 2, 3, 8, 9])
def test_sinusoids_are_section_3_5(width: int) -> None:
    table = SinusoidalPosition(width).table(torch.tensor([0, 1, 7, 300]))
    assert table.shape == (4, width)
    for row, position in zip(table.tolist(), (0, 1, 7, 300), strict=True):
        for j, value in enumerate(row):
            angle = position / 10_000 ** ((j - j % 2) / width)
            assert value == pytest.approx(math.cos(angle) if j % 2 else math.sin(angle), abs=5e-5)


def test_sinusoids_by_hand() -> None:
    table = SinusoidalPosition(4).table(torch.tensor([0, 1]))
    expected = [[0, 1, 0, 1], [0.841471, 0.540302, 0.0099998, 0.9999500]]  # sin 1, cos 1, sin 0.01, cos 0.01
    torch.testing.assert_close(table, torch.tensor(expected), rtol=0, atol=1e-6)


@pytest.mark.parametrize("shift", [1, 5, 40])
def test_a_shift_is_a_rotation_of_the_sinusoids(shift: int) -> None:
    """PE(pos + k) is PE(pos) turned by an angle that depends on k alone, as section 3.5 wants it."""
    encoding, positions = SinusoidalPosition(8), torch.arange(50)
    a, b = (encoding.table(positions + k).unflatten(-1, (4, 2)) for k in (0, shift))
    for i in range(4):
        angle = shift / 10_000 ** (2 * i / 8)
        turn = torch.tensor([[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]])
        torch.testing.assert_close(b[:, i], a[:, i] @ turn.T, rtol=0, atol=2e-5)


@pytest.mark.parametrize("encoding", [SinusoidalPosition(6), LearnedPosition(6, 20)], ids=["sinusoidal", "learned"])
def test_embedding_adds_the_row_of_each_position(encoding: SinusoidalPosition | LearnedPosition, dtype: torch.dtype,
                                                 close: Close) -> None:
    if isinstance(encoding, LearnedPosition):
        nn.init.normal_(encoding.to(dtype).table)
    x = torch.randn(2, 3, 6, dtype=dtype)
    rows = torch.tensor([[0, 1, 2], [4, 7, 5]])
    out = encoding.embed(x, rows)
    assert out.dtype == dtype
    for b in range(2):
        for t in range(3):
            at = rows[b, t]
            row = encoding.table[at] if isinstance(encoding, LearnedPosition) else encoding.table(at).to(dtype)
            close(out[b, t], x[b, t] + row)
    close(encoding.embed(x, rows[1]), x + (out - x)[1])


def test_learned_positions_end() -> None:
    position = LearnedPosition(4, 5)
    nn.init.zeros_(position.table)
    position.embed(torch.zeros(1, 5, 4), torch.arange(5))
    assert position.embed(torch.zeros(1, 0, 4), torch.arange(0)).shape == (1, 0, 4)
    with pytest.raises(ValueError, match=r"max_length 5.*position 5"):
        position.embed(torch.zeros(1, 6, 4), torch.arange(6))


@pytest.mark.parametrize("width", [2, 8])
def test_rotary_is_a_product_of_complex_numbers(width: int, dtype: torch.dtype) -> None:
    heads, positions = torch.randn(2, 3, 5, width, dtype=dtype), torch.tensor([0, 1, 2, 9, 31])
    out = RotaryPosition(width).rotate(heads, positions)
    assert out.dtype == dtype
    for t, position in enumerate(positions.tolist()):
        for i in range(width // 2):
            a, b = heads[1, 2, t, 2 * i : 2 * i + 2].tolist()
            turned = complex(a, b) * cmath.exp(1j * position / 10_000 ** (2 * i / width))
            assert out[1, 2, t, 2 * i : 2 * i + 2].tolist() == pytest.approx([turned.real, turned.imag], abs=2e-5)


def test_rotary_turns_each_row_by_its_own_positions(dtype: torch.dtype, close: Close) -> None:
    heads, rows = torch.randn(2, 3, 4, 6, dtype=dtype), torch.tensor([[0, 1, 2, 3], [0, 0, 1, 2]])
    out = RotaryPosition(6).rotate(heads, rows)
    for b in range(2):
        close(out[b : b + 1], RotaryPosition(6).rotate(heads[b : b + 1], rows[b]))
    close(out.norm(dim=-1), heads.norm(dim=-1), 1e-6)  # a rotation keeps lengths


def test_rotary_refuses_odd_heads() -> None:
    with pytest.raises(ValueError, match="even, not 3"):
        RotaryPosition(3)


def test_alibi_slopes_as_published() -> None:
    assert alibi_slopes(1) == [2**-8]
    assert alibi_slopes(8) == [1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 32, 1 / 64, 1 / 128, 1 / 256]
    sixteen = [0.70710678, 0.5, 0.35355339, 0.25, 0.17677670, 0.125, 0.08838835, 0.0625, 0.04419417, 0.03125,
               0.02209709, 0.015625, 0.01104854, 0.0078125, 0.00552427, 0.00390625]
    assert alibi_slopes(16) == pytest.approx(sixteen, abs=1e-8)
    # Twelve heads: those of eight, then every second one of sixteen.
    twelve = [*alibi_slopes(8), 0.70710678, 0.35355339, 0.17677670, 0.08838835]
    assert alibi_slopes(12) == pytest.approx(twelve, abs=1e-8)
    assert all(len(alibi_slopes(n)) == n for n in range(1, 40))


def test_alibi_by_hand(dtype: torch.dtype, close: Close) -> None:
    bias = AlibiPosition(2).bias(torch.zeros(1, 2, 2, 4, dtype=dtype), torch.tensor([1, 2]), torch.arange(4))
    distance = torch.tensor([[1, 0, 1, 2], [2, 1, 0, 1]], dtype=dtype)
    close(bias, torch.stack([-distance / 16, -distance / 256])[None])


def test_t5_buckets_by_hand() -> None:
    """32 buckets up to 128. Both ways: 16 a side (keys after the query from 16 on), 8 of them exact, then
    8 + ⌊8·ln(d/8)/ln 16⌋. Looking back only: 16 exact, then 16 + ⌊16·ln(d/16)/ln 8⌋."""
    both, back = T5Position(2, True), T5Position(2, False)
    by_hand = {0: 0, -1: 1, -7: 7, -8: 8, -11: 8, -12: 9, -16: 10, -32: 12, -64: 14, -127: 15, -128: 15, -9999: 15,
               1: 17, 7: 23, 8: 24, 12: 25, 16: 26, 128: 31, 9999: 31}
    assert both.bucket(torch.tensor(list(by_hand))).tolist() == list(by_hand.values())
    by_hand = {0: 0, 1: 0, 500: 0, -1: 1, -15: 15, -16: 16, -20: 17, -32: 21, -127: 31, -128: 31, -9999: 31}
    assert back.bucket(torch.tensor(list(by_hand))).tolist() == list(by_hand.values())


@pytest.mark.parametrize("bidirectional", [True, False])
def test_t5_buckets_are_those_of_transformers(bidirectional: bool) -> None:
    modeling = pytest.importorskip("transformers.models.t5.modeling_t5")
    distances = torch.arange(-400, 401)
    theirs = modeling.T5Attention._relative_position_bucket(distances, bidirectional, 32, 128)
    assert torch.equal(T5Position(2, bidirectional).bucket(distances), theirs)


def test_t5_bias_is_the_table_at_the_bucket(dtype: torch.dtype) -> None:
    position = T5Position(2, True).to(dtype)
    nn.init.normal_(position.table)
    queries, keys = torch.tensor([3, 40]), torch.tensor([[0, 3, 5], [10, 11, 39]])
    bias = position.bias(torch.zeros(2, 2, 2, 4, dtype=dtype), queries, keys)
    assert bias.shape == (2, 2, 2, 3)
    for b, h, t, s in torch.cartesian_prod(*(torch.arange(n) for n in bias.shape)).tolist():
        assert bias[b, h, t, s] == position.table[position.bucket(keys[b, s] - queries[t]), h]


def test_quadratic_by_hand(dtype: torch.dtype, close: Close) -> None:
    position = QuadraticPosition(2, True).to(dtype)
    position.centre.data, position.sharpness.data = torch.tensor([[0.5, -1], [2, 0.1]], dtype=dtype)
    bias = position.bias(torch.zeros(1, 2, 2, 4, dtype=dtype), torch.tensor([1, 2]), torch.arange(4))
    close(bias[0, 0], -2 * torch.tensor([[2.25, 0.25, 0.25, 2.25], [6.25, 2.25, 0.25, 0.25]], dtype=dtype))
    close(bias[0, 1], -0.1 * torch.tensor([[0, 1, 4, 9], [1, 0, 1, 4]], dtype=dtype))


def test_quadratic_heads_begin_side_by_side() -> None:
    assert QuadraticPosition(3, True).centre.tolist() == [0, -1, 1]
    assert QuadraticPosition(7, True).centre.tolist() == [0, -1, 1, -2, 2, 0, -1]
    assert QuadraticPosition(6, False).centre.tolist() == [0, -1, -2, -3, -4, 0]
    bias = QuadraticPosition(1, True).bias(torch.zeros(1, 1, 1, 4), torch.tensor([9]), torch.arange(19))
    assert bias.softmax(-1)[0, 0, 0, 8:11].tolist() == pytest.approx([0.21, 0.56, 0.21], abs=0.005)


@pytest.mark.parametrize("name", [n for n in ALL if n.startswith(("rotate", "bias"))])
@pytest.mark.parametrize("shift", [1, 13, 200])
def test_scores_depend_on_the_distance_only(name: str, shift: int, dtype: torch.dtype) -> None:
    position = ALL[name]().to(dtype)
    for parameter in position.parameters():
        nn.init.normal_(parameter)
    q, k = torch.randn(2, 2, 4, 4, dtype=dtype), torch.randn(2, 2, 6, 4, dtype=dtype)
    queries, keys = torch.tensor([[2, 3, 4, 5], [0, 0, 1, 2]]), torch.arange(6)

    def scores(at: int) -> Tensor:
        bias = position.bias(q, queries + at, keys + at)
        turned = position.rotate(q, queries + at) @ position.rotate(k, keys + at).mT
        return turned if bias is None else turned + bias

    torch.testing.assert_close(scores(shift), scores(0), rtol=0, atol=3e-4)  # angles are kept in fp32
    order = scores(0)
    assert not torch.allclose(order, scores(0).flip(-1))
