"""The hypotheses that are being extended, one a row, and what may extend them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from pellucid.search.options import Hypothesis


@dataclass(frozen=True)
class Rows:
    """R unfinished hypotheses of t tokens each.

    Args:
        sentences: [R], the position of each row's sentence in the batch.
        tokens: [R, t], without `bos`.
        log_p: [R, t], the model's log-probability of each token.
    """

    sentences: Tensor
    tokens: Tensor
    log_p: Tensor

    @staticmethod
    def empty(sentences: Tensor) -> Rows:
        """One row for each entry of `sentences`, no tokens yet."""
        rows = sentences.shape[0]
        return Rows(sentences, sentences.new_empty(rows, 0), torch.empty(rows, 0, device=sentences.device))

    def to(self, device: torch.device) -> Rows:
        """These rows on `device`."""
        return Rows(self.sentences.to(device), self.tokens.to(device), self.log_p.to(device))

    def select(self, rows: Tensor) -> Rows:
        """The rows [R'] of these."""
        return Rows(self.sentences[rows], self.tokens[rows], self.log_p[rows])

    def append(self, tokens: Tensor, log_p: Tensor) -> Rows:
        """One token a row: tokens [R], log_p [R]."""
        return Rows(self.sentences, torch.cat([self.tokens, tokens[:, None]], dim=1),
                    torch.cat([self.log_p, log_p[:, None]], dim=1))


class Candidates(NamedTuple):
    """The extensions of each sentence's hypotheses, best first; -inf in `totals` marks one that does not exist."""

    totals: Tensor  # [N, c], float64: log-probability of the extended hypothesis
    parents: Tensor  # [N, c]: the row it extends
    tokens: Tensor  # [N, c]
    log_p: Tensor  # [N, c]: the model's log-probability of the token

    def gather(self, columns: Tensor) -> Candidates:
        """Columns [N, c'] of these."""
        return Candidates(*(each.gather(1, columns) for each in self))

    def sequence(self, rows: Rows, place: int, column: int) -> tuple[list[int], list[float]]:
        """The tokens of one of them, which extends one of `rows`, and their log-probabilities."""
        row = int(self.parents[place, column])
        return ([*rows.tokens[row].tolist(), int(self.tokens[place, column])],
                [*rows.log_p[row].tolist(), float(self.log_p[place, column])])


def ranked(hypotheses: list[Hypothesis]) -> list[Hypothesis]:
    """Best score first, the earlier first among equals, each sequence once."""
    distinct: dict[tuple[int, ...], Hypothesis] = {}
    for each in hypotheses:
        distinct.setdefault(each.tokens, each)  # finished or not follows from the length and the maximum
    return sorted(distinct.values(), key=lambda each: -each.score)
