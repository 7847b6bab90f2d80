"""The reference and the gate: what our plain search finds in fp32, and whether a system's outputs may be timed.

A system that searches the same space in fp32 must give the same tokens, but for ties: two hypotheses whose scores by
our model differ by no more than rounding, or an output that our own search gives too once its logits are disturbed by
as much as rounding does. All others are held to quality: BLEU within 0.2 of the reference's where there are references;
else, per token, nearly the log-probability that the reference reaches.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.decode_job import EOS, Call, Ids, Job, Search, Weights, groups
from pellucid.config import ModelConfig
from pellucid.data.batching import pad
from pellucid.model.build import build
from pellucid.model.stepper import TransformerStep
from pellucid.model.transformer import Transformer
from pellucid.runs.decoder import SPECIALS
from pellucid.runs.generate import score_targets
from pellucid.search.options import SearchOptions, length_penalty
from pellucid.search.search import search
from pellucid.search.step import Step

ROUNDING = 1e-4  # nats, of a score and of a logit
TRIALS = 24
BLEU_ALLOWED, NATS_ALLOWED = 0.2, 0.02
BUDGET = 4096
SIZES = ("d_model", "n_heads", "d_ff", "encoder_layers", "decoder_layers", "residual", "position", "attention")


def new_model(sizes: dict[str, Any]) -> Transformer:
    """Our model of these sizes, random."""
    config = ModelConfig(**{name: sizes[name] for name in SIZES if name in sizes})
    return build(config, sizes["vocabulary"], sizes["vocabulary"], shared=True)


def model_of(sizes: dict[str, Any], weights: Weights) -> Transformer:
    """Our model of these sizes with these weights, in evaluation mode."""
    model = new_model(sizes)
    model.load_state_dict({name: torch.from_numpy(value) for name, value in weights.items()})
    return model.eval()


def options_of(asked: Search, call: Call) -> SearchOptions:
    """How we are asked to search; without scores, as the peers."""
    return SearchOptions(beam_size=asked.beam_size, length_penalty=asked.length_penalty, min_length=call.low,
                         max_length=call.high, scores=False)


def reference_of(model: Transformer, job: Job) -> list[Ids]:
    """What the plain search finds in fp32, eos included."""
    return _outputs(TransformerStep(model), job, job.calls)


def _outputs(step: Step[Any, Any], job: Job, calls: list[Call]) -> list[Ids]:
    found = {}
    for call in calls:
        for group in groups([len(job.sources[i]) for i in call.sentences], BUDGET):
            numbers = [call.sentences[place] for place in group]
            sources = pad([np.asarray(job.sources[i], dtype=np.int32) for i in numbers])
            for i, (one, *_) in zip(numbers, search(step, sources, len(numbers), options_of(job.search, call),
                                                    SPECIALS)):
                found[i] = [*one.tokens, EOS] if one.finished else list(one.tokens)
    return [found[i] for i in sorted(found)]


class Disturbed:
    """A step whose logits are off by as much as rounding may make them."""

    def __init__(self, step: Step[Any, Any], seed: int) -> None:
        self.inner = step
        self.random = torch.Generator().manual_seed(seed)
        self.start, self.select = step.start, step.select

    def step(self, state: Any, tokens: Tensor) -> tuple[Tensor, Any]:
        """As the step's own, with noise."""
        logits, state = self.inner.step(state, tokens)
        return logits + ROUNDING * (2 * torch.rand(logits.shape, generator=self.random) - 1), state


@dataclass
class Verdict:
    """What the gate says of one system's outputs."""

    identical: float  # share of sentences
    ties: int
    unexplained: list[int]  # sentences; only counted where the same space is searched in fp32
    nats: float  # what the reference's log-probability is ahead by, per token
    mean_length: float
    bleu: float | None
    bleu_of_reference: float | None
    failures: list[str] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        """Whether the system has a row in the table."""
        return not self.failures


class Gate:
    """Judges the outputs of every system at one job.

    Args:
        bleu: the BLEU of outputs, where there are references.
    """

    def __init__(self, model: Transformer, job: Job, bleu: Callable[[list[Ids]], float] | None) -> None:
        self.model, self.job = model, job
        self.reference = reference_of(model, job)
        self.bleu = bleu
        self.bleu_of_reference = bleu(self.reference) if bleu else None
        self.log_p = self._log_probabilities(range(len(self.reference)), self.reference)

    def judge(self, outputs: list[Ids], exact: bool) -> Verdict:
        """Compares with the reference.

        Args:
            exact: fp32; and the search is one for all, or the lengths are given.
        """
        different = [i for i, (a, b) in enumerate(zip(outputs, self.reference, strict=True)) if a != b]
        log_p = dict(zip(different, self._log_probabilities(different, [outputs[i] for i in different])))
        lost = sum(self.log_p[i] / len(self.reference[i]) - log_p[i] / max(len(outputs[i]), 1) for i in different)
        verdict = Verdict(1 - len(different) / len(outputs), 0, [], lost / len(outputs),
                          sum(map(len, outputs)) / len(outputs), self.bleu(outputs) if self.bleu else None,
                          self.bleu_of_reference)
        if exact:
            verdict.unexplained = [i for i in different if not self._is_tie(i, outputs[i], log_p[i])]
            verdict.ties = len(different) - len(verdict.unexplained)
            if verdict.unexplained:
                verdict.failures.append(f"{len(verdict.unexplained)} outputs differ from the reference, and not by "
                                        f"rounding: sentences {verdict.unexplained[:5]}")
        elif verdict.bleu is not None and self.bleu_of_reference is not None:
            if abs(verdict.bleu - self.bleu_of_reference) > BLEU_ALLOWED:
                verdict.failures.append(f"BLEU {verdict.bleu:.2f}, the reference's is {self.bleu_of_reference:.2f}")
        elif verdict.nats > NATS_ALLOWED:
            verdict.failures.append(f"{verdict.nats:.3f} nats a token worse than the reference")
        return verdict

    def _is_tie(self, i: int, output: Ids, log_p: float) -> bool:
        score, best = (p / length_penalty(len(ids), self.job.search.length_penalty)
                       for p, ids in ((log_p, output), (self.log_p[i], self.reference[i])))
        if self.job.search.beam_size > 1 and abs(score - best) <= ROUNDING:
            return True
        call = next(call for call in self.job.calls if i in call.sentences)
        alone = [Call([i], call.low, call.high)]
        return any(_outputs(Disturbed(TransformerStep(self.model), seed), self.job, alone) == [output]
                   for seed in range(TRIALS))

    def _log_probabilities(self, numbers: Iterable[int], outputs: list[Ids]) -> list[float]:
        """Of whole outputs, by our model in fp32; of an empty one, -∞."""
        pairs = [(np.asarray(self.job.sources[i], dtype=np.int32), np.asarray(ids or [EOS], dtype=np.int32))
                 for i, ids in zip(numbers, outputs, strict=True)]
        return [sum(terms) if ids else -math.inf
                for terms, ids in zip(score_targets(self.model, pairs, BUDGET), outputs, strict=True)]
