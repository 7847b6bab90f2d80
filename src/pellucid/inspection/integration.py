r"""Integrated gradients (Sundararajan et al. 2017): x_i · ∫ ∂f(a x) / ∂x_i da over a from 0 to 1.

What is integrated over any piece of the way must add up to what f gains there, so that each piece tells its own error.
Gauss–Legendre quadrature in each; the worst ones of a token are halved until its whole is right. A stack of norms makes
much of very little, so that f may leap close to 0: the way goes slowly there, a = s⁸ with s from 0 to 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from pellucid.inspection.explained import Explained, Pair

TOLERANCE = 0.01  # of what f gains, …
LEAST = 0.1  # … or of so many nats where it gains less
MOST_ROUNDS = 60  # of halving
_SLOWLY = 8
_NODES = list(zip(*np.polynomial.legendre.leggauss(4), strict=True))  # from -1 to 1, and their weights


class Piece(NamedTuple):
    """What is integrated for the token at `place`, over the way from `start` to `end` in s."""

    place: int
    start: float
    end: float

    @property
    def halves(self) -> tuple[Piece, Piece]:
        """Both of them."""
        middle = (self.start + self.end) / 2
        return Piece(self.place, self.start, middle), Piece(self.place, middle, self.end)


def integrated_gradients(what: Explained) -> Pair:
    """Contributions of source [T, S] and prefix [T, T], which add up to `difference` within `TOLERANCE` where
    `MOST_ROUNDS` of halving suffice."""
    allowed = TOLERANCE * difference(what).abs().clamp(min=LEAST)  # [T]
    pieces = [half for place in range(what.count) for half in Piece(place, 0.0, 1.0).halves]
    found, error = _integrated(what, pieces)
    for _ in range(MOST_ROUNDS):
        places = torch.tensor([piece.place for piece in pieces], device=error.device)
        is_bad = torch.zeros_like(allowed).index_add(0, places, error).abs() > allowed  # [T]
        worst = torch.zeros_like(allowed).scatter_reduce(0, places, error.abs(), "amax")  # [T]
        is_halved = is_bad[places] & (error.abs() >= worst[places] / 2)
        if not bool(is_halved.any()):
            break
        new = [half for piece, halve in zip(pieces, is_halved.tolist(), strict=True) if halve for half in piece.halves]
        more, more_error = _integrated(what, new)
        pieces = [piece for piece, halve in zip(pieces, is_halved.tolist(), strict=True) if not halve] + new
        error = torch.cat([error[~is_halved], more_error])
        found = Pair(*(torch.cat([old[~is_halved], new]) for old, new in zip(found, more, strict=True)))
    places = torch.tensor([piece.place for piece in pieces], device=error.device)
    return Pair(*(side.new_zeros(what.count, side.shape[1]).index_add(0, places, side) for side in found))


def difference(what: Explained) -> Tensor:
    """f(x) - f(0): [T]."""
    values = what.values_of([what.embeddings().scaled(scale) for scale in (0.0, 1.0)])
    return values[1] - values[0]


def _integrated(what: Explained, pieces: Sequence[Piece]) -> tuple[Pair, Tensor]:
    """The contributions over each piece, [pieces, S] and [pieces, T], and how far they are from adding up to what f
    gains there, [pieces]."""
    device = what.source.device
    rows = []
    for place, start, end in pieces:
        for node, weight in _NODES:
            s, ds = start + (end - start) * (1 + node) / 2, weight * (end - start) / 2
            rows.append((place, s**_SLOWLY, _SLOWLY * s ** (_SLOWLY - 1) * ds))
    places, scales, weights = (torch.tensor(column, device=device) for column in zip(*rows, strict=True))
    points = what.gradients_x_input(places, scales.float())
    found = Pair(*((weights.float()[:, None] * side).view(len(pieces), len(_NODES), -1).sum(1) for side in points))
    ends = sorted({end for piece in pieces for end in piece[1:]})
    values = dict(zip(ends, what.values_of([what.embeddings().scaled(s**_SLOWLY) for s in ends]), strict=True))
    gains = torch.stack([values[piece.end][piece.place] - values[piece.start][piece.place] for piece in pieces])
    return found, found.sums - gains
