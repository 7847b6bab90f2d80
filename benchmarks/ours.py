"""A learner of pellucid on given ids, with nothing written to disk."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch

from pellucid.config import ModelConfig, RunConfig, TrainConfig
from pellucid.data.batching import Batches, collate
from pellucid.data.corpus import Corpus, Sequences
from pellucid.data.encoding import Report
from pellucid.kernels.compiled import use_kernels
from pellucid.model.build import build, build_classifier
from pellucid.precision import keep_primitives, resolve
from pellucid.train.optimizer import make_optimizer
from pellucid.train.parallel import Objective
from pellucid.train.update import Learner
from pellucid.train.workers import choose_workers


class GivenBatches(Batches):
    """Batches as they are given, in place of those of an epoch."""

    def __init__(self, rows: list[tuple[np.ndarray, np.ndarray]]) -> None:
        corpora = [Corpus(_sequences(source), _sequences(target), Report(0, 0, 0, 0, 0, 0)) for source, target in rows]
        self._given = [collate(corpus, np.arange(len(corpus))) for corpus in corpora]

    @property
    def per_epoch(self) -> int:
        """All that there are."""
        return len(self._given)

    def __getitem__(self, number: int) -> Any:
        return self._given[number % len(self._given)]


def _sequences(rows: np.ndarray) -> Sequences:
    lengths = np.maximum((rows != 0).sum(1), 1)  # a label may be 0
    return Sequences(rows[np.arange(rows.shape[1]) < lengths[:, None]].astype(np.int32),
                     np.concatenate([[0], np.cumsum(lengths)]))


def learner_of(m: dict[str, Any], rows: list[Any], device: torch.device, setting: str) -> Learner:
    """The learner, with the defaults of `pellucid train` but for the model's sizes; see `train.update.at_work`."""
    sizes = {key: m[key] for key in ("d_model", "n_heads", "d_ff", "encoder_layers", "dropout")}
    task = "classification" if m["classes"] else "seq2seq"
    if m["decoder_layers"]:
        sizes["decoder_layers"] = m["decoder_layers"]
    model_config = replace(ModelConfig(), **sizes)
    precision = resolve(next((kind for kind in ("fp32", "bf16") if kind in setting), "auto"), device)
    use_kernels(device, "plain" not in setting)
    config = replace(RunConfig(), task=task, model=model_config, train=replace(TrainConfig(), precision=precision))
    keep_primitives()
    if m["classes"]:
        model: Any = build_classifier(model_config, m["vocabulary"], m["classes"])
    else:
        model = build(model_config, m["vocabulary"], m["vocabulary"], shared=True)
    model.to(device).train()
    batches = GivenBatches(rows)
    return Learner(config=config, model=model, objective=Objective(model, config.train),
                   optimizer=make_optimizer(model, config.train), average=None, batches=batches,
                   schedule=lambda step: 1e-3, precision=precision, device=device,
                   workers=choose_workers(None, batches[0].source_tokens + batches[0].target_tokens))
