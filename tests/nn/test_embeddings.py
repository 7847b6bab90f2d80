"""Embeddings: √D·E[x] in, and one matrix that can also go out."""

from __future__ import annotations

import torch

from pellucid.nn.embeddings import SILENT, Embedding, OutputBias, OutputProjection


def test_rows_times_the_root_of_the_width(dtype: torch.dtype) -> None:
    embedding = Embedding(3, 4).to(dtype)
    embedding.weight.data = torch.arange(12, dtype=dtype).view(3, 4)
    out = embedding(torch.tensor([[2, 0], [1, 1]]))
    expected = [[[16, 18, 20, 22], [0, 2, 4, 6]], [[8, 10, 12, 14], [8, 10, 12, 14]]]
    assert torch.equal(out, torch.tensor(expected, dtype=dtype))


def test_the_output_projection_has_the_shape_of_an_embedding() -> None:
    projection = OutputProjection(3, 4)
    assert projection.weight.shape == Embedding(3, 4).weight.shape == (3, 4)
    projection.weight.data.normal_()
    assert torch.equal(projection(torch.eye(4)), projection.weight.T)


def test_what_is_silent_is_left_out_and_targets_are_numbered_as_what_remains(dtype: torch.dtype) -> None:
    bias = OutputBias(5).to(dtype)
    bias.bias.data = torch.tensor([SILENT, 1, SILENT, 2, SILENT], dtype=dtype)
    hidden, weight = torch.ones(2, 3, dtype=dtype), torch.arange(15, dtype=dtype).view(5, 3)
    targets = torch.tensor([3, 4])
    joined, rows, places = bias.join(hidden, weight, targets)
    torch.testing.assert_close(joined @ rows.T, bias(hidden @ weight.T)[:, [1, 3, 4]])  # a target stays, silent or not
    assert places.tolist() == [1, 2]
    assert torch.equal(rows[:, :3], weight[[1, 3, 4]])


def test_where_nothing_is_silent_nothing_is_left_out(dtype: torch.dtype) -> None:
    bias, weight, targets = OutputBias(4).to(dtype), torch.randn(4, 3, dtype=dtype), torch.tensor([3, 0])
    bias.bias.data.normal_()
    hidden = torch.randn(2, 3, dtype=dtype)
    joined, rows, places = bias.join(hidden, weight, targets)
    assert torch.equal(rows, torch.cat([weight, bias.bias[:, None]], 1))
    assert torch.equal(joined, torch.cat([hidden, torch.ones(2, 1, dtype=dtype)], 1))
    assert places is targets
