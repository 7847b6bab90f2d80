"""The keys and values that attention has already seen, so that a decoding step projects only what is new."""

from __future__ import annotations

import torch
from torch import Tensor


class KeyValueCache:
    """Keys [B, H, S, d_k] and values [B, H, S, d_v]. It grows while attention goes on, so whoever wants to go on from
    here twice makes a copy, which shares the tensors.

    Args:
        both: the keys and the values that it begins with; None for nothing.
    """

    def __init__(self, both: tuple[Tensor, Tensor] | None = None) -> None:
        self._both = both

    def append(self, keys: Tensor, values: Tensor) -> None:
        """Takes more in, at its end in time."""
        if self._both is not None:
            keys, values = torch.cat([self._both[0], keys], dim=2), torch.cat([self._both[1], values], dim=2)
        self._both = keys, values

    def read(self) -> tuple[Tensor, Tensor]:
        """All keys and all values; there must be some."""
        assert self._both is not None
        return self._both

    def select(self, rows: Tensor) -> KeyValueCache:
        """A cache of the rows [B'] of the batch, in that order."""
        return KeyValueCache(self._both and (self._both[0].index_select(0, rows), self._both[1].index_select(0, rows)))

    def copy(self) -> KeyValueCache:
        """One that grows by itself."""
        return KeyValueCache(self._both)
