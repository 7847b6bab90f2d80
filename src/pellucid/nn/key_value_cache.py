"""The keys and values that attention has already seen, so that a decoding step projects only what is new."""

from __future__ import annotations

import torch
from torch import Tensor


class KeyValueCache:
    """Keys and values, [B, H, S, D/H] each. It grows while attention goes on, so whoever wants to go on from here twice
    makes a copy, which shares the tensors.

    Args:
        keys, values: what it begins with; nothing, if left out.
    """

    def __init__(self, keys: Tensor | None = None, values: Tensor | None = None) -> None:
        self.keys, self.values = keys, values

    def append(self, keys: Tensor, values: Tensor) -> None:
        """Takes [B, H, T, D/H] more in, at its end."""
        if self.keys is not None and self.values is not None:
            keys, values = torch.cat([self.keys, keys], dim=2), torch.cat([self.values, values], dim=2)
        self.keys, self.values = keys, values

    def read(self) -> tuple[Tensor, Tensor]:
        """All keys and all values; there must be some."""
        assert self.keys is not None
        assert self.values is not None
        return self.keys, self.values

    def select(self, rows: Tensor) -> KeyValueCache:
        """A cache of the rows [B'] of the batch, in that order."""
        if self.keys is None or self.values is None:
            return KeyValueCache()
        return KeyValueCache(self.keys.index_select(0, rows), self.values.index_select(0, rows))

    def copy(self) -> KeyValueCache:
        """One that grows by itself."""
        return KeyValueCache(self.keys, self.values)
