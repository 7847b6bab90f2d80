"""Attention patterns: who looks at whom, and from which positions; patterns over the same positions are joined with
``&``.

Section 3.2.3: a decoder position attends to positions up to and including itself; nobody attends to padding.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor


@dataclass(frozen=True)
class AttentionPattern:
    """Where queries and keys stand, and which key each query may attend to: a function of their positions.

    Args:
        query_positions: [T], of every sentence, or [B, T]; [1] is that of the newest token, behind all keys.
        key_positions: [S] or [B, S].
        real_keys: [B, S], false where a key is padding; None if no key is. With [S] positions, padding comes last.
        causal: a query sees keys at its own position and before.
        window: a query sees keys at most `window` positions away.
    """

    query_positions: Tensor
    key_positions: Tensor
    real_keys: Tensor | None = None
    causal: bool = False
    window: int | None = None

    def __and__(self, other: AttentionPattern) -> AttentionPattern:
        """What both allow; both must speak of the same positions."""
        assert self.query_positions is other.query_positions
        assert self.key_positions is other.key_positions
        real = other.real_keys if self.real_keys is None else self.real_keys
        if self.real_keys is not None and other.real_keys is not None:
            real = self.real_keys & other.real_keys
        windows = [w for w in (self.window, other.window) if w is not None]
        return replace(self, real_keys=real, causal=self.causal or other.causal, window=min(windows, default=None))

    @cached_property
    def mask(self) -> Tensor | None:
        """[B or 1, 1, T, S], true where a query may look; None when everything is allowed."""
        allowed = None if self.real_keys is None else self.real_keys[:, None, None, :]
        distance = self.query_positions[..., :, None] - self.key_positions[..., None, :]  # [T, S] or [B, T, S]
        distance = distance[None, None] if distance.dim() == 2 else distance[:, None]
        if self.hides_future:
            near = distance >= 0
            allowed = near if allowed is None else allowed & near
        if self.window is not None:
            near = distance.abs() <= self.window
            allowed = near if allowed is None else allowed & near
        return allowed

    @cached_property
    def answerable(self) -> Tensor:
        """[B or 1, 1, T, 1], true where a query has at least one key to look at; only where something is hidden."""
        assert self.mask is not None
        return self.mask.any(-1, keepdim=True)

    @cached_property
    def lengths(self) -> Tensor | None:
        """[B], how many keys are real, where these come first in every sentence; None where they do not."""
        assert self.real_keys is not None
        lengths = self.real_keys.sum(1)
        first = torch.arange(self.real_keys.shape[1], device=lengths.device) < lengths[:, None]
        return lengths if bool((first == self.real_keys).all()) else None

    @cached_property
    def grows(self) -> bool:
        """Whether the positions of the keys, [S], grow from key to key; taken for granted where looking would have to
        wait for another device."""
        return not self.key_positions.is_cpu or bool((self.key_positions.diff() > 0).all())

    @property
    def is_last_query(self) -> bool:
        """One query after all the keys, as in step-by-step decoding: causality then hides nothing."""
        return self.query_positions.shape[-1] == 1 and self.query_positions.dim() == 1

    @property
    def hides_future(self) -> bool:
        """Whether causality hides anything."""
        return self.causal and not self.is_last_query


def full(query_positions: Tensor, key_positions: Tensor) -> AttentionPattern:
    """Everyone sees everyone."""
    return AttentionPattern(query_positions, key_positions)


def causal(query_positions: Tensor, key_positions: Tensor) -> AttentionPattern:
    """A query at position t sees keys at positions ≤ t."""
    return AttentionPattern(query_positions, key_positions, causal=True)


def window(query_positions: Tensor, key_positions: Tensor, size: int | None) -> AttentionPattern:
    """A query at position t sees keys at positions t - size … t + size; everyone, when the size is None."""
    return AttentionPattern(query_positions, key_positions, window=size)


def padding(query_positions: Tensor, key_positions: Tensor, real_keys: Tensor | None) -> AttentionPattern:
    """Nobody sees padding: `real_keys` [B, S] is false there, or None where there is none."""
    return AttentionPattern(query_positions, key_positions, real_keys=real_keys)


def positions_of(real: Tensor | None, tokens: Tensor) -> Tensor:
    """The positions of `tokens` [B, T]: 0, 1, 2 … over the real ones, wherever the padding lies.

    Returns:
        [T] without padding (or with padding only at the end, where it changes nothing), else [B, T].
    """
    length = tokens.shape[1]
    if real is None or bool((real.long().diff(dim=1) <= 0).all()):
        return torch.arange(length, device=tokens.device)
    return (real.long().cumsum(dim=1) - 1).clamp(min=0)
