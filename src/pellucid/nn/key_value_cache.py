"""The keys and values that attention has already seen, so that a decoding step projects only what is new."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class KeyValueCache(NamedTuple):
    """keys and values, [B, H, S, D/H] each."""

    keys: Tensor
    values: Tensor

    def append(self, keys: Tensor, values: Tensor) -> KeyValueCache:
        """This cache with [B, H, T, D/H] more at its end."""
        return KeyValueCache(torch.cat([self.keys, keys], dim=2), torch.cat([self.values, values], dim=2))

    def select(self, rows: Tensor) -> KeyValueCache:
        """The rows [B'] of the batch, in that order."""
        return KeyValueCache(self.keys.index_select(0, rows), self.values.index_select(0, rows))
