"""Embeddings: √D·E[x] in, and one matrix that can also go out."""

from __future__ import annotations

import torch

from pellucid.nn.embeddings import Embedding, OutputProjection


def test_rows_times_the_root_of_the_width(dtype: torch.dtype) -> None:
    embedding = Embedding(3, 4).to(dtype)
    embedding.weight.data = torch.arange(12, dtype=dtype).view(3, 4)
    out = embedding(torch.tensor([[2, 0], [1, 1]]))
    expected = [[[16, 18, 20, 22], [0, 2, 4, 6]], [[8, 10, 12, 14], [8, 10, 12, 14]]]
    assert torch.equal(out, torch.tensor(expected, dtype=dtype))


def test_the_output_projection_has_the_shape_of_an_embedding() -> None:
    assert OutputProjection(3, 4).weight.shape == Embedding(3, 4).weight.shape == (3, 4)
