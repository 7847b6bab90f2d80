"""What contributions explain: the log-probability of each output token, as a function of the embeddings of the source
and of the prefix before it; for a classifier that of a label, which has no prefix."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

import torch
from torch import Tensor, nn

from pellucid.data.tokenizers.interface import BOS
from pellucid.inspection.examples import Ids
from pellucid.model.classifier import Classifier
from pellucid.model.transformer import Transformer
from pellucid.nn.embeddings import Embedding

_AT_ONCE = 4096  # tokens of a pass, source and prefix


class Pair(NamedTuple):
    """Something of the source's tokens, and the same of the prefix': embeddings [S, D] and [T, D], or contributions to
    each of several log-probabilities, [R, S] and [R, T]."""

    source: Tensor
    prefix: Tensor

    def scaled(self, by: float) -> Pair:
        """Both times a number."""
        return Pair(self.source * by, self.prefix * by)

    @property
    def sums(self) -> Tensor:
        """[R], of all contributions to each."""
        return self.source.sum(1) + self.prefix.sum(1)


@dataclass(frozen=True)
class Explained:
    """A model, the ids [S] that it reads and those [T] that it writes (a label's number for a classifier).

    Attributes:
        source: [S].  prefix: [T], what stands before each token; [0] for a classifier.  target: [T], or [1].
        each_pass: called before each pass through the model.
    """

    model: Transformer | Classifier
    source: Tensor
    prefix: Tensor
    target: Tensor
    each_pass: Callable[[], None] = lambda: None

    @property
    def count(self) -> int:
        """How many log-probabilities there are: T, or 1."""
        return len(self.target)

    @torch.no_grad()
    def embeddings(self) -> Pair:
        """[S, D] and [T, D], √D in them, positions not."""
        source = self.model.source_embedding(self.source)
        return Pair(source, source[:0] if isinstance(self.model, Classifier)
                    else self.model.target_embedding(self.prefix))

    def values(self, x: Tensor, y: Tensor, places: Tensor | None = None) -> Tensor:
        """log P of what is written, for embeddings x [R, S, D] and y [R, T, D]: of all of it [R, T], or in each row of
        the token at its place: places [R] → [R]."""
        source, prefix, target = (ids.expand(len(x), -1) for ids in (self.source, self.prefix, self.target))
        model = self.model
        self.each_pass()
        with _in_place_of_embeddings(model, [(source, x), (prefix, y)]):
            if isinstance(model, Classifier):
                last = model(source)[:, None]  # [R, 1, labels]: logits
            else:
                last = model.decode(prefix, *model.encode(source))  # [R, T, D]: hidden states
        if places is not None:
            rows = torch.arange(len(x), device=x.device)
            last, target = last[rows, places], target[rows, places]
        logits = last if isinstance(model, Classifier) else model.logits(last)
        found: Tensor = logits.float().log_softmax(-1).gather(-1, target[..., None])[..., 0]
        return found

    @torch.no_grad()
    def values_of(self, rows: Iterable[Pair]) -> Tensor:
        """log P of all that is written, for each of these embeddings: [rows, T]. Those of one pass are held at once."""
        left, found = iter(rows), list[Tensor]()
        while part := list(islice(left, self._rows)):
            found.append(self.values(*(torch.stack(side) for side in zip(*part, strict=True))))
        return torch.cat(found)

    def gradients_x_input(self, places: Tensor, scales: Tensor) -> Pair:
        """x · ∂ log P / ∂(a x), for the token at each place and each scale a of the embeddings: places, scales [R] →
        contributions [R, S] and [R, T] in fp32, whatever the model's type."""
        x, y = self.embeddings()
        parts = []
        for place, scale in zip(torch.split(places, self._rows), torch.split(scales, self._rows), strict=True):
            at = [(scale[:, None, None].to(each.dtype) * each).requires_grad_() for each in (x, y)]
            value = self.values(at[0], at[1], place).sum()
            of_x, of_y = torch.autograd.grad(value, at, allow_unused=True, materialize_grads=True)
            parts.append(((of_x.float() * x.float()).sum(-1), (of_y.float() * y.float()).sum(-1)))
        return Pair(*(torch.cat(side) for side in zip(*parts, strict=True)))

    @property
    def _rows(self) -> int:
        return max(1, _AT_ONCE // (len(self.source) + len(self.prefix)))


def explained(model: Transformer | Classifier, source: Ids, target: Ids,
              each_pass: Callable[[], None] = lambda: None) -> Explained:
    """What a model says of a target, or of the label's number in it, having read a source."""
    device = next(model.parameters()).device
    read, wanted = (torch.tensor(ids.tolist(), device=device) for ids in (source, target))
    prefix = torch.tensor([BOS, *target[:-1].tolist()], device=device)
    return Explained(model, read, prefix[:0] if isinstance(model, Classifier) else prefix, wanted, each_pass)


@contextlib.contextmanager
def _in_place_of_embeddings(model: nn.Module, given: Sequence[tuple[Tensor, Tensor]]) -> Iterator[None]:
    """While this lasts, each of these tensors of tokens is embedded as what is given with it."""
    def hook(module: nn.Module, inputs: tuple[Tensor], output: Tensor) -> Tensor:
        return next((x for tokens, x in given if tokens is inputs[0]), output)

    hooks = [module.register_forward_hook(hook) for module in model.modules() if isinstance(module, Embedding)]
    try:
        yield
    finally:
        for each in hooks:
            each.remove()


@contextlib.contextmanager
def differentiable() -> Iterator[None]:
    """Gradients are taken, whatever the caller has switched off."""
    with torch.inference_mode(False), torch.enable_grad():
        yield

