"""The numbers beside a picture are those that it draws, and can be read back."""

from __future__ import annotations

import csv
import io

import torch

from pellucid.inspection.measures import HeadTable
from pellucid.inspection.points import Points, as_csv, grid, joined, of_attention, of_heads


def read(points: Points) -> list[list[str]]:
    return list(csv.reader(io.StringIO(as_csv(points))))


def test_any_token_comes_back() -> None:
    tokens = ['a,"b"', "春", "'", "⏎", "‹end›"]
    weights = torch.rand(2, 5, 5)
    head, *rows = read(of_attention(weights, tokens, tokens))
    assert head == ["head", "query_position", "query", "key_position", "key", "weight"]
    assert len(rows) == weights.numel()
    for number, i, query, j, key, weight in rows:
        assert (query, key) == (tokens[int(i)], tokens[int(j)])
        assert torch.tensor(float(weight)) == weights[int(number) - 1, int(i), int(j)]  # to the last bit of fp32


def test_a_grid_has_a_row_a_place() -> None:
    points = grid(torch.tensor([[1, 2], [3, 4]]), {"true": ["a", "b"], "predicted": ["a", "b"]}, "examples")
    assert read(points) == [["true", "predicted", "examples"], ["a", "a", "1"], ["a", "b", "2"], ["b", "a", "3"],
                            ["b", "b", "4"]]
    assert read(joined("name", {"x": Points(["n"], [[1]]), "y": Points(["n"], [[2]])})) == [
        ["name", "n"], ["x", "1"], ["y", "2"]]


def test_heads_have_their_errors_where_they_are_estimates() -> None:
    values = torch.tensor([[0.5, 0.25]])
    assert read(of_heads(HeadTable(("a",), values))) == [["attention", "head", "value"], ["a", "1", "0.5"],
                                                         ["a", "2", "0.25"]]
    assert read(of_heads(HeadTable(("a",), values, values / 2)))[1:] == [["a", "1", "0.5", "0.25"],
                                                                        ["a", "2", "0.25", "0.125"]]
