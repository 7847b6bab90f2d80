"""The Transformer behind the step that search sees."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

from torch import Tensor, nn

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
        return state.select(rows.to(self.model.output.weight.device))


@contextlib.contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """The model in evaluation mode, for as long as this lasts; then each of its modules is as it was."""
    training = {module: module.training for module in model.modules()}
    model.eval()
    try:
        yield
    finally:
        model.train(training[model])
        for module, was in training.items():
            module.training = was
