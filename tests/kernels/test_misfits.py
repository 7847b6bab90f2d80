"""Shapes, types and layouts that do not go together, each as somebody has met it: what the equation says, or an error.

test_doors.py draws very many more.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from tests.kernels.test_doors import equations
from torch import Tensor

from pellucid.nn.attention_pattern import AttentionPattern
from pellucid.nn.cross_entropy import linear_cross_entropy
from pellucid.nn.layer_norm import LayerNorm
from pellucid.nn.r_drop import linear_r_drop
from pellucid.nn.scaled_dot_product_attention import ScaledDotProductAttention

pytestmark = pytest.mark.usefixtures("compiled_kernels")

WORDS, ROWS = 90, 300
Loss = Callable[[Tensor, Tensor], Tensor]  # of the matrix and the targets


def of_one_pass(weight: Tensor, targets: Tensor) -> Tensor:
    torch.manual_seed(3)
    return linear_cross_entropy(torch.randn(ROWS, 16), weight, targets, 0.1)


def of_two_passes(weight: Tensor, targets: Tensor) -> Tensor:
    torch.manual_seed(3)
    return linear_r_drop(torch.randn(2, ROWS, 16), weight, targets, 0.1, 1.0)


def assert_alike(door: Callable[[], Tensor], tolerance: float = 1e-4) -> None:
    ours = door()
    with equations():
        torch.testing.assert_close(ours, door(), atol=tolerance, rtol=tolerance)


def attend(shapes: list[tuple[int, ...]], real: Tensor | None = None, kind: torch.dtype = torch.float32) -> Tensor:
    torch.manual_seed(3)
    q, k, v = (torch.randn(shape).to(kind) for shape in shapes)
    here, there = torch.arange(q.shape[2]), torch.arange(k.shape[2])
    return ScaledDotProductAttention()(q, k, v, AttentionPattern(here, there, real), None)


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("keys", [5, 80])
def test_keys_of_one_sentence_under_queries_of_four(keys: int, kind: torch.dtype) -> None:
    assert_alike(lambda: attend([(4, 2, 5, 16), (1, 2, keys, 16), (1, 2, keys, 16)], kind=kind), 3e-2)


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16])
def test_one_mask_over_a_batch(kind: torch.dtype) -> None:
    real = torch.arange(5)[None] < 4
    assert_alike(lambda: attend([(5000, 2, 5, 16)] * 3, real, kind), 3e-2)


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("queries", "keys"), [(0, 5), (0, 80), (5, 0), (0, 0)])
@pytest.mark.parametrize("width", [5, 16])
def test_nobody_asks_or_there_is_nothing_to_see(width: int, queries: int, keys: int, kind: torch.dtype) -> None:
    assert_alike(lambda: attend([(2, 2, queries, width), (2, 2, keys, width), (2, 2, keys, width)], kind=kind), 3e-2)


@pytest.mark.parametrize("loss", [of_one_pass, of_two_passes])
@pytest.mark.parametrize("targets", [
    torch.arange(2 * ROWS).view(ROWS, 2)[:, 0] % WORDS, (torch.arange(2 * ROWS) % WORDS)[::2],
    torch.tensor(7).expand(ROWS), (torch.arange(ROWS) % WORDS).int()],
    ids=["a column", "every second", "expanded", "int32"])
def test_targets_with_steps_or_of_other_widths(loss: Loss, targets: Tensor) -> None:
    weight = torch.randn(WORDS, 16)
    torch.testing.assert_close(loss(weight, targets), loss(weight, targets.long().contiguous()))


@pytest.mark.parametrize("loss", [of_one_pass, of_two_passes])
@pytest.mark.parametrize("target", [-1, -WORDS, WORDS, 10**9])
def test_a_target_that_is_no_word(loss: Loss, target: int) -> None:
    targets = torch.arange(ROWS) % WORDS
    targets[5] = target
    with pytest.raises((IndexError, RuntimeError), match="out of bounds"):
        loss(torch.randn(WORDS, 16), targets)


@pytest.mark.parametrize("loss", [of_one_pass, of_two_passes])
def test_a_matrix_in_bf16_under_states_in_fp32(loss: Loss) -> None:
    with pytest.raises(RuntimeError, match="dtype"):
        loss(torch.randn(WORDS, 16).bfloat16(), torch.arange(ROWS) % WORDS)


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("width", [1, 63, 65])
def test_a_gain_of_another_width(width: int, kind: torch.dtype) -> None:
    norm = LayerNorm(width).to(kind)
    with pytest.raises(RuntimeError, match="normalized_shape"):
        norm(torch.randn(500, 64).to(kind))


def test_a_gain_in_bf16_over_rows_in_fp32() -> None:
    """An error, as of torch's own norm."""
    norm = LayerNorm(64).bfloat16()
    with pytest.raises(RuntimeError, match="dtype"):
        norm(torch.randn(500, 64))
