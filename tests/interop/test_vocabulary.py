"""Their rows in our order: special ones first, what stands twice said once, and back again."""

from __future__ import annotations

import pytest
import torch

from pellucid.interop.vocabulary import in_our_order, rows_of
from pellucid.nn.embeddings import SILENT

CASES = {  # pad, unknown, start and end of five rows; our order; which of ours are never said
    "BART's, whose start is its end": ((1, 3, 2, 2), (1, 3, 2, 2, 0, 4), [2]),
    "T5's, whose start is its padding": ((0, 2, 0, 1), (None, 2, 0, 1, 3, 4), [0]),
    "without an unknown": ((1, None, 0, 2), (1, None, 0, 2, 3, 4), [1])}


@pytest.mark.parametrize("case", CASES)
def test_every_row_has_its_place(case: str) -> None:
    specials, order, silent = CASES[case]
    rows = rows_of(5, *specials)
    assert rows.order == order
    matrix, bias = torch.rand(5, 3) + 1, torch.rand(5)
    ours = rows.of(matrix)
    assert torch.equal(ours, torch.stack([torch.zeros(3) if row is None else matrix[row] for row in order]))
    told = rows.bias(bias)
    for place, row in enumerate(order):
        assert told[place] == (SILENT if place in silent else bias[row or 0])
    assert torch.equal(rows.back(ours), matrix)
    assert torch.equal(rows.back(told), bias)


def test_pieces_have_our_names_for_the_special_ones() -> None:
    rows = rows_of(7, 1, 3, 2, 2)
    assert in_our_order(["<s>", "p", "</s>", "?", "a"], rows)[4:] == ["<s>", "a", "<unused 5>", "<unused 6>"]
