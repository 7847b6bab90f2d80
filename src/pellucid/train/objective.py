"""What is minimised: the summed loss of a batch over its real targets, for either kind of model."""

from __future__ import annotations

from torch import Tensor

from pellucid.data.batching import Batch
from pellucid.model.classifier import Classifier
from pellucid.model.transformer import Transformer


def batch_loss(model: Transformer | Classifier, batch: Batch, smoothing: float) -> Tensor:
    """The label-smoothed cross-entropy of `batch` in nats, summed over `batch.target_tokens`.

    A mean over an update's tokens is this over their number, at any split into micro-batches.
    """
    if isinstance(model, Classifier):
        return model.loss(model(batch.source, batch.real_source), batch.target[:, 0], smoothing)
    memory, positions = model.encode(batch.source, batch.real_source)
    hidden = model.decode(batch.target_input, memory, positions, batch.real_source)  # [B, T, D]
    if batch.real_target is None:
        return model.loss(hidden.flatten(0, 1), batch.target.flatten(), smoothing)
    return model.loss(hidden[batch.real_target], batch.target[batch.real_target], smoothing)
