"""The Transformer behind the step that search sees."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from pellucid.model.transformer import DecodingState, Transformer


@dataclass(frozen=True)
class TransformerStep:
    """Key/value caches for the target, the source projected once; the caller sets precision and evaluation mode."""

    model: Transformer

    def start(self, source: tuple[Tensor, Tensor | None]) -> DecodingState:
        """Encodes (ids [B, S], real [B, S] or None)."""
        return self.model.start(*source)

    def step(self, state: DecodingState, tokens: Tensor) -> tuple[Tensor, DecodingState]:
        """tokens [R] → logits [R, V] and the state after them."""
        logits, state = self.model.step(state, tokens.to(self.model.output.weight.device))
        return logits.float(), state

    def select(self, state: DecodingState, rows: Tensor) -> DecodingState:
        """The rows [R'] of the state."""
        return state.select(rows)


Prefix = tuple[Tensor, Tensor | None, Tensor | None]


@dataclass(frozen=True)
class UncachedStep:
    """The same by the plain equation: the whole prefix again at every step. For tests and for reading."""

    model: Transformer

    def start(self, source: tuple[Tensor, Tensor | None]) -> Prefix:
        """(source ids, which are real, no target yet)"""
        return (*source, None)

    def step(self, state: Prefix, tokens: Tensor) -> tuple[Tensor, Prefix]:
        """tokens [R] → logits [R, V] after the prefix and them."""
        source, real, prefix = state
        tokens = tokens.to(source.device)
        prefix = tokens[:, None] if prefix is None else torch.cat([prefix, tokens[:, None]], dim=1)
        return self.model(source, prefix, real)[:, -1].float(), (source, real, prefix)

    def select(self, state: Prefix, rows: Tensor) -> Prefix:
        """The rows [R'] of everything."""
        source, real, prefix = (None if part is None else part[rows] for part in state)
        assert source is not None
        return source, real, prefix
