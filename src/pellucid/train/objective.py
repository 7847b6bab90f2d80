"""What is minimised: the summed loss of a batch over its real targets, for every kind of model."""

import torch
from torch import Tensor

from pellucid.config import TrainConfig
from pellucid.data.batching import Batch
from pellucid.data.reading import span_of
from pellucid.kernels.chosen_rows import chosen_rows
from pellucid.model.classifier import Classifier
from pellucid.model.reader import Reader
from pellucid.model.transformer import Transformer
from pellucid.nn.cross_entropy import label_smoothed_cross_entropy, linear_cross_entropy
from pellucid.nn.r_drop import linear_r_drop, r_drop_cross_entropy
from pellucid.nn.sampled_softmax import above_mean, enough_words, sampled_words
from pellucid.nn.span import span_cross_entropy

Model = Transformer | Classifier | Reader


def training_loss(model: Model, batch: Batch, config: TrainConfig, step: int, words: int | None = None) -> Tensor:
    """What the update `step`, counted from 1, goes down by: `batch_loss`, or `r_drop_loss` where it is asked for; over
    `words_of` the batch."""
    words = words_of(batch, config) if words is None else words
    if config.r_drop and step > config.r_drop_after:
        return r_drop_loss(model, batch, config.label_smoothing, config.r_drop, words)
    return batch_loss(model, batch, config.label_smoothing, words)


def words_of(batch: Batch, config: TrainConfig) -> int:
    """How many words of the vocabulary the loss of a batch is over, see nn/sampled_softmax.py; all of them (0)."""
    real = batch.target if batch.real_target is None else batch.target[batch.real_target]
    return enough_words(real, config.sampled_words) if config.sampled_words else 0


def passes(config: TrainConfig, updates: int) -> int:
    """How often the first `updates` updates have the model read their batch: twice, once R-Drop has begun."""
    return updates + (max(0, updates - config.r_drop_after) if config.r_drop else 0)


def batch_loss(model: Model, batch: Batch, smoothing: float, words: int = 0) -> Tensor:
    """The label-smoothed cross-entropy of `batch` in nats, summed over `batch.target_tokens`; of a Transformer over
    `words` of its vocabulary, see nn/sampled_softmax.py, or over all of it (0).

    A mean over an update's tokens is this over their number, at any split into micro-batches.
    """
    if isinstance(model, Classifier):
        return label_loss(model(batch.source, batch.real_source, batch.source_positions), batch, smoothing)
    if isinstance(model, Reader):
        scores: Tensor = model(batch.source, batch.real_source)
        return span_cross_entropy(scores, *span_of(batch.target[:, 0]), smoothing).sum()
    output = _output(model, *_predictions(model, batch))
    if words:
        return linear_cross_entropy(*sampled_words(*output, words), smoothing=0.0) + smoothing * above_mean(*output)
    return linear_cross_entropy(*output, smoothing)


def label_loss(logits: Tensor, batch: Batch, smoothing: float) -> Tensor:
    """The same of a classifier whose logits [B, C] are there."""
    return label_smoothed_cross_entropy(logits.float(), batch.target[:, 0], smoothing).sum()


def r_drop_loss(model: Model, batch: Batch, smoothing: float, alpha: float, words: int = 0) -> Tensor:
    """The loss of R-Drop (Liang et al. 2021) in nats, summed over `batch.target_tokens`; see nn/r_drop.py. `words`
    as in `batch_loss`.

    Both passes are one, of the batch and the batch once more: each row draws a dropout of its own.
    """
    twice = batch.twice()
    if isinstance(model, Classifier):
        logits = torch.stack(model(twice.source, twice.real_source, twice.source_positions).chunk(2))
        return r_drop_cross_entropy(logits.float(), batch.target[:, 0], smoothing, alpha).sum()
    assert isinstance(model, Transformer)  # the configuration refuses readers
    hidden, targets = _predictions(model, twice)
    output = _output(model, torch.stack(hidden.chunk(2)), targets[: len(targets) // 2])
    if words:
        return (linear_r_drop(*sampled_words(*output, words), smoothing=0.0, alpha=alpha)
                + 0.5 * smoothing * above_mean(*output))
    return linear_r_drop(*output, smoothing, alpha)


def _output(model: Transformer, hidden: Tensor, targets: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Hidden states, the matrix that their logits are made with, and the targets among its rows."""
    weight: Tensor = model.output.weight
    return model.output_bias.join(hidden, weight, targets)


def _predictions(model: Transformer, batch: Batch) -> tuple[Tensor, Tensor]:
    """The last hidden state before each real target token [N, D], and that token [N]."""
    memory, positions = model.encode(batch.source, batch.real_source, batch.source_positions)
    hidden = model.decode(batch.target_input, memory, positions, batch.real_source).flatten(0, 1)  # [B·T, D]
    targets = batch.target.flatten()
    if batch.real_target is None or batch.places is None:
        return hidden, targets
    return chosen_rows(hidden, batch.places, batch.real_target.flatten()), targets[batch.places]
