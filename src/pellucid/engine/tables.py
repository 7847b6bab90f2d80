"""What positions add to scores, or turn queries and keys by, as tables that a kernel looks up.

A table is made for so many positions, by the very doors of the position (nn/positional_encoding.py), and anew where
more are needed. A table by distance has a column for each distance (the key's position - the query's), beginning with
1 - positions; where nobody looks ahead, 0 is the last of them.

A column has the same bits in every table. The last ones of a product may be rounded otherwise than those before them:
so there are always some behind those that are asked for, and they are cut off.
"""

import copy
import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from pellucid.engine.layout import LANES
from pellucid.nn.positional_encoding import Position, RotaryPosition, TransformerXlPosition

Table = Callable[[int], Tensor]  # positions → what is looked up


def turns(position: RotaryPosition) -> Table:
    """[positions, 2, d_k and zeros]: x ⊙ the first row + (x with the two of each pair exchanged) ⊙ the second is x,
    rotated."""
    position, width = copy.deepcopy(position), position.d_key  # as it is now

    def of(positions: int) -> Tensor:
        even = (torch.arange(width) % 2 == 0).float()
        of_even, of_odd = (position.rotate(ones.expand(1, 1, positions, width), torch.arange(positions))[0, 0]
                           for ones in (even, 1 - even))
        rows = [torch.where(even > 0, *both) for both in ((of_even, of_odd), (of_odd, of_even))]
        return F.pad(torch.stack(rows, dim=1), (0, -width % LANES))

    return of


def biases(position: Position, heads: int, width: int, looks_ahead: bool) -> Table | None:
    """[H, columns], what the position adds to scores q · k of heads so wide, whatever the query; None if nothing."""
    position = copy.deepcopy(position).float()
    nothing = torch.zeros(1, heads, 1, width, dtype=torch.float32)

    def of(positions: int) -> Tensor:
        bias = position.bias(nothing, torch.tensor([positions - 1]), torch.arange(2 * positions))
        assert bias is not None
        return bias[0, :, 0, : _columns(positions, looks_ahead)] * math.sqrt(width)

    return of if position.door == "bias" else None


def keys_by_distance(position: Position, dtype: torch.dtype, looks_ahead: bool) -> Table | None:
    """[columns, the keys of all heads, each with zeros]: what a query is multiplied with beside a key so far away; None
    if with nothing."""
    if not isinstance(position, TransformerXlPosition):
        return None
    position = copy.deepcopy(position).float()

    def of(positions: int) -> Tensor:
        behind = positions - 1 - torch.arange(2 * positions)
        keys = position.projection(position.sinusoids.table(behind)).unflatten(1, (position.n_heads, -1))
        return F.pad(keys, (0, -keys.shape[2] % LANES)).flatten(1)[: _columns(positions, looks_ahead)].to(dtype)

    return of


def _columns(positions: int, looks_ahead: bool) -> int:
    return 2 * positions - 1 if looks_ahead else positions
