"""Spans: the loss is two cross-entropies, and the best span is the one that trying all of them finds."""

import math

import torch
from tests.seeds import generator
from torch.nn.functional import cross_entropy

from pellucid.nn.span import best_spans, span_cross_entropy


def some_scores(rows: int = 5) -> torch.Tensor:
    scores = torch.randn(rows, 12, 2, generator=generator(1))
    scores[:, 1:4] = -math.inf
    return scores


def test_the_loss_is_that_of_both_ends() -> None:
    scores, first, last = some_scores(), torch.tensor([0, 4, 5, 6, 11]), torch.tensor([0, 4, 9, 7, 11])
    expected = (cross_entropy(scores[..., 0], first, reduction="none")
                + cross_entropy(scores[..., 1], last, reduction="none"))
    torch.testing.assert_close(span_cross_entropy(scores, first, last, 0.0), expected)


def test_smoothing_is_spread_over_the_places_that_are_allowed() -> None:
    scores, place = some_scores(), torch.tensor([4] * 5)
    log_p = scores[:, [0, *range(4, 12)]].log_softmax(1)
    expected = -(0.9 * log_p[:, 1] + 0.1 * log_p.mean(1)).sum(1)
    torch.testing.assert_close(span_cross_entropy(scores, place, place, 0.1), expected)


def test_the_best_span_is_the_best_of_all() -> None:
    """Of so many rows some have a better one that lies in two windows, and some one that is longer."""
    scores, windows = some_scores(100), torch.tensor([[0] * 3 + [1] * 5 + [2] * 4] * 100)
    value, first, last = best_spans(scores, windows, 3)
    for row in range(100):
        all_of_them = {(i, j): float(scores[row, i, 0] + scores[row, j, 1]) for i in range(1, 12)
                       for j in range(i, min(12, i + 3)) if windows[row, i] == windows[row, j]}
        best = max(all_of_them, key=all_of_them.__getitem__)
        assert (int(first[row]), int(last[row])) == best
        assert math.isclose(float(value[row]), all_of_them[best], rel_tol=1e-6)


def test_among_equal_spans_the_shortest_is_the_best_and_where_there_is_none_it_is_told() -> None:
    scores, windows = torch.zeros(2, 6, 2), torch.ones(2, 6, dtype=torch.long)
    scores[0, 1:3, 1] = -math.inf  # only places 3 to 5 can be the last
    scores[1, 1:] = -math.inf
    value, first, last = best_spans(scores, windows, 4)
    assert value.tolist() == [0.0, -math.inf]
    assert (int(first[0]), int(last[0])) == (3, 3)
