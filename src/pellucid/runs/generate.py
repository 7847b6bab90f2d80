"""Texts in, texts out, by a model; and the log-probability of given targets."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from pellucid.config import DecodeConfig
from pellucid.data.batching import pad
from pellucid.data.tokenizers.build import Tokenizers
from pellucid.data.tokenizers.interface import BOS
from pellucid.engine.engine import Engine, step_for
from pellucid.engine.kept import KeptWeights
from pellucid.search.options import Hypothesis, SearchOptions
from pellucid.search.search import search
from pellucid.runs.texts import SPECIALS, Generated, answers, batch_tokens, length_groups, search_options
from pellucid.model.transformer import Transformer
from pellucid.kernels import calls as kernels


class ModelSearcher:
    """Searches with a model (see `texts.Searcher`), over the engine if that knows it.

    The engine's kernels let other threads of Python run meanwhile, so it decodes as many batches at once as torch has
    threads. The plain step's do not, and a single batch is better shared by all threads.

    Args:
        model: in evaluation mode.
        config: its precision and its batches.
    """

    def __init__(self, model: Transformer, config: DecodeConfig) -> None:
        self.step = step_for(model, config.precision)
        is_engine = isinstance(self.step, Engine)
        self.threads = torch.get_num_threads() if is_engine else 1
        self.batch_tokens = batch_tokens(is_engine, config)
        self._device = model.output.weight.device

    def search(self, sources: Sequence[NDArray[np.int32]], options: SearchOptions, prefixes: Sequence[Sequence[int]],
               numbers: Sequence[int]) -> list[list[Hypothesis]]:
        ids, real = pad(sources)
        source = (ids.to(self._device), None if real is None else real.to(self._device))
        return search(self.step, source, len(sources), options, SPECIALS, prefixes, numbers)

    def use_threads(self, count: int) -> None:
        kernels.use_threads(count)

    def keep(self, place: KeptWeights) -> None:
        """Puts the engine's weights where a later process finds them."""
        if isinstance(self.step, Engine):
            place.keep(self.step.largest)


def generate(model: Transformer, tokenizers: Tokenizers, texts: Sequence[str], config: DecodeConfig, max_source: int,
             prefixes: Sequence[str] | None = None,
             progress: Callable[[int], None] = lambda done: None, first: int = 0) -> list[Generated]:
    """For each text, what the model makes of it; an empty line for an empty line.

    Args:
        model: put into evaluation mode, and back.
        max_source, prefixes, progress, first: as `texts.answers` takes them.

    Raises:
        ValueError: an option out of range, or not as many prefixes as texts.
    """
    options = search_options(config)
    with evaluating(model):
        return answers(ModelSearcher(model, config), tokenizers, texts, options, max_source, prefixes, progress, first)


@contextlib.contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """The model in evaluation mode, for as long as this lasts."""
    training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(training)


def score_targets(model: Transformer, pairs: Sequence[tuple[NDArray[np.int32], NDArray[np.int32]]],
                  budget: int) -> list[list[float]]:
    """The log-probability of every token (eos included) of given targets, in nats.

    Args:
        pairs: (source ids, target ids), each ending with eos.
        budget: padded tokens a batch.
    """
    results: list[list[float]] = [[] for _ in pairs]
    device = model.output.weight.device
    with evaluating(model), torch.inference_mode():
        for group in length_groups([max(len(a), len(b)) for a, b in pairs], budget):
            source, real = pad([pairs[i][0] for i in group])
            target, _ = pad([pairs[i][1] for i in group])
            shifted = torch.cat([torch.full((len(group), 1), BOS), target[:, :-1]], dim=1)
            logits = model(source.to(device), shifted.to(device), None if real is None else real.to(device))
            chosen = logits.float().log_softmax(-1).gather(-1, target.to(device)[..., None])[..., 0]
            for i, row in zip(group, chosen.tolist(), strict=True):
                results[i] = row[: len(pairs[i][1])]
    return results
