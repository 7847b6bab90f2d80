"""Texts in, texts out, by a model; and the log-probability of given targets."""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from pellucid.config import DecodeConfig
from pellucid.data.batching import pad
from pellucid.data.tokenizers.build import Tokenizers
from pellucid.data.tokenizers.interface import BOS
from pellucid.model.stepper import evaluating
from pellucid.model.transformer import Transformer
from pellucid.runs.candidates import Generated
from pellucid.runs.decoder import Decoder, Request
from pellucid.runs.texts import answers, length_groups, search_options

_SCORED = 512  # tokens of a batch: half the time of 4,096 where there are 10,000 words


def generate(model: Transformer, tokenizers: Tokenizers, texts: Sequence[str], config: DecodeConfig, max_source: int,
             prefixes: Sequence[str] | None = None,
             progress: Callable[[int], None] = lambda done: None, first: int = 0) -> list[Generated]:
    """For each text, what the model makes of it; an empty line for an empty line.

    Args:
        max_source, prefixes, progress, first: as `texts.answers` takes them.

    Raises:
        ValueError: an option out of range, or not as many prefixes as texts.
    """
    decoder = Decoder(Request(lambda: model, search_options(config), config, prefixes is not None))
    return answers(decoder, tokenizers, texts, max_source, config, prefixes, progress, first)


def score_targets(model: Transformer, pairs: Sequence[tuple[NDArray[np.int32], NDArray[np.int32]]],
                  budget: int) -> list[list[float]]:
    """The log-probability of every token (eos included) of given targets, in nats.

    Args:
        pairs: (source ids, target ids), each ending with eos.
        budget: padded tokens a batch, at most; on a CPU few enough for their logits to stay in its caches.
    """
    results: list[list[float]] = [[] for _ in pairs]
    device = model.output.weight.device
    budget = min(budget, _SCORED) if device.type == "cpu" else budget
    with evaluating(model), torch.inference_mode():
        for group in length_groups([max(len(a), len(b)) for a, b in pairs], budget):
            source, real = pad([pairs[i][0] for i in group])
            target, _ = pad([pairs[i][1] for i in group])
            shifted = torch.cat([torch.full((len(group), 1), BOS), target[:, :-1]], dim=1)
            logits = model(source.to(device), shifted.to(device), None if real is None else real.to(device)).float()
            chosen = logits.gather(-1, target.to(device)[..., None])[..., 0] - logits.logsumexp(-1)
            for i, row in zip(group, chosen.tolist(), strict=True):
                results[i] = row[: len(pairs[i][1])]
    return results
