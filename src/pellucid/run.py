"""A finished run, ready for use: `pellucid.load("runs/demo").generate(["…"])`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch

from pellucid.compiled import use_kernels
from pellucid.config import DecodeConfig, RunConfig, Task
from pellucid.data.batching import pad
from pellucid.data.corpus import shorten, source_ids
from pellucid.data.tokenizers.build import Tokenizers, load_tokenizers
from pellucid.data.tokenizers.interface import EOS
from pellucid.decode.generate import Generated, generate, length_groups, score_targets
from pellucid.errors import CheckpointError, ConfigError
from pellucid.files import read_json
from pellucid.model.build import build, build_classifier
from pellucid.model.classifier import Classifier
from pellucid.model.transformer import Transformer
from pellucid.precision import keep_kernels
from pellucid.run_folder import read_config
from pellucid.train.checkpoint import load_weights

Model = TypeVar("Model", Transformer, Classifier)


@dataclass(frozen=True)
class Classified:
    """What a classifier says of one text: the label, and the probability of every label."""

    label: str
    probabilities: dict[str, float]


@dataclass(frozen=True)
class Scored:
    """The log-probability of one given target, in nats: of each of its tokens, eos included, and of the whole."""

    tokens: tuple[str, ...]
    token_log_probabilities: tuple[float, ...]

    @property
    def log_probability(self) -> float:
        """The sum over tokens."""
        return sum(self.token_log_probabilities)


class Run:
    """A model with its tokenizer and configuration.

    Attributes:
        model: a torch.nn.Module, in evaluation mode.
        tokenizers: text to ids and back, for both sides.
        config: the run's configuration.
    """

    def __init__(self, folder: Path, config: RunConfig, tokenizers: Tokenizers,
                 model: Transformer | Classifier) -> None:
        self.folder, self.config, self.tokenizers, self.model = folder, config, tokenizers, model

    def __repr__(self) -> str:
        parameters = sum(p.numel() for p in self.model.parameters())
        return f"<pellucid run {self.folder}: {self.config.task}, {parameters:,} parameters>"

    def generate(self, texts: Sequence[str], beam_size: int | None = None, n_best: int | None = None,
                 prefixes: Sequence[str] | None = None, options: DecodeConfig | None = None,
                 progress: Callable[[int], None] = lambda done: None, first: int = 0) -> list[Generated]:
        """What the model makes of each text; an empty text for an empty one.

        Args:
            beam_size, n_best: in place of those in `options`.
            prefixes: for each text, how its output must begin.
            options: how to search; the run's own `decode` section if left out.
            progress: called with the number of texts done.
            first: the number of the first text, for samples that go on where an earlier call ended.

        Raises:
            ConfigError: the run is a classifier.
            ValueError: an option out of range.
        """
        model = self._as(Transformer, "generate", "seq2seq")
        options = options or self.config.decode
        options = replace(options, beam_size=options.beam_size if beam_size is None else beam_size,
                          n_best=options.n_best if n_best is None else n_best)
        return generate(model, self.tokenizers, texts, options, self.config.model.max_length, prefixes, progress,
                        first)

    @torch.inference_mode()
    def classify(self, texts: Sequence[str]) -> list[Classified]:
        """The label of each text.

        Raises:
            ConfigError: the run is no classifier.
        """
        model = self._as(Classifier, "classify", "classification")
        limit = self.config.model.max_length
        rows = [np.asarray(ids[:limit], dtype=np.int32) for ids in source_ids(list(texts), self.tokenizers, True)]
        results: list[Classified | None] = [None] * len(rows)
        device = model.head_2.weight.device
        for group in length_groups([len(row) for row in rows], self.config.decode.batch_tokens):
            ids, real = pad([rows[i] for i in group])
            logits = model(ids.to(device), None if real is None else real.to(device))
            for i, row in zip(group, logits.softmax(-1).tolist(), strict=True):
                probabilities = dict(zip(self.tokenizers.labels, row, strict=True))
                results[i] = Classified(max(probabilities, key=probabilities.__getitem__), probabilities)
        return [result for result in results if result is not None]

    def score(self, sources: Sequence[str], targets: Sequence[str], cut: bool = False) -> list[Scored]:
        """How probable each target is, given its source.

        Args:
            cut: a target is cut where learned positions end, eos at its end.

        Raises:
            ConfigError: the run is a classifier.
            ValueError: not as many targets as sources; a target goes on where learned positions end.
        """
        model = self._as(Transformer, "score", "seq2seq")
        if len(sources) != len(targets):
            raise ValueError(f"{len(sources)} sources and {len(targets)} targets")
        limit = self.config.model.max_length
        encoded = source_ids(list(sources), self.tokenizers, classify=False)
        wanted = [[*ids, EOS] for ids in self.tokenizers.target.encode_batch(list(targets))]
        if cut and self.config.model.position == "learned":
            wanted = [shorten(ids, limit) for ids in wanted]
        pairs = [(np.asarray(shorten(a, limit), dtype=np.int32), np.asarray(b, dtype=np.int32))
                 for a, b in zip(encoded, wanted, strict=True)]
        found = score_targets(model, pairs, self.config.decode.batch_tokens)
        return [Scored(tuple(self.tokenizers.target.pieces(ids)), tuple(row))
                for ids, row in zip(wanted, found, strict=True)]

    def _as(self, kind: type[Model], verb: str, task: Task) -> Model:
        if not isinstance(self.model, kind):
            raise ConfigError(f"this run cannot {verb}", where=str(self.folder),
                              why=f"it was trained for {self.config.task}, not {task}")
        return self.model


def build_model(config: RunConfig, tokenizers: Tokenizers, seed: int) -> Transformer | Classifier:
    """The model of a configuration, with its initial weights."""
    if config.task == "classification":
        return build_classifier(config.model, tokenizers.source.size, len(tokenizers.labels), seed=seed)
    return build(config.model, tokenizers.source.size, tokenizers.target.size, shared=tokenizers.shared, seed=seed)


def load(folder: str | Path) -> Run:
    """Opens a run folder with its best weights, on the GPU where there is one.

    Raises:
        CheckpointError: no run folder, nothing trained in it yet, or something in it is damaged.
    """
    folder = Path(folder)
    config = read_config(folder)
    if not (folder / "best.json").exists():
        raise CheckpointError("this run has no checkpoint yet", where=str(folder),
                              fix="train it further: the same `pellucid train` command resumes it")
    best = read_json(folder / "best.json")
    if not isinstance(best, dict) or Path(str(best.get("checkpoint"))).name != best.get("checkpoint"):
        raise CheckpointError("best.json is damaged", where=str(folder / "best.json"))
    tokenizers = load_tokenizers(folder / "tokenizer")
    model = build_model(config, tokenizers, seed=0)
    load_weights(model, folder / "checkpoints" / best["checkpoint"])
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    keep_kernels()
    use_kernels(device, config.train.kernels == "auto")
    return Run(folder, config, tokenizers, model.to(device).eval())
