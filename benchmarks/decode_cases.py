"""What the decoding benchmark decodes: models, sources and lengths.

Without a trained run the weights are random, and a random model never says when to stop: every output then has the
length that its reference would have (drawn as for training, to the nearest of a few, since a call asks for one length),
which is the same work for every system. With a run, outputs end where the model ends them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sacrebleu.metrics.bleu import BLEU

from benchmarks.decode_job import BOS, EOS, PAD, UNK, Call, Ids, Job, Search, Weights
from benchmarks.reference import SIZES, new_model
from benchmarks.workloads import FIRST, MODELS, lengths_of
from pellucid.data.source_ids import shorten, source_ids
from pellucid.evaluate.evaluate import pairs_of
from pellucid.evaluate.translation import bleu_tokenizer
from pellucid.model.transformer import Transformer
from pellucid.runs.run import Run, load

LENGTHS = {"captions": 1000, "passages": 64}  # sentences: as long as Multi30k's, and of 256 tokens
PASSAGE = 256
PLACED = ("sinusoidal", "rotary", "alibi", "t5", "quadratic", "transformer_xl")  # positions that can be compared
STEP = 4  # given lengths are this far apart, so that many sentences share one
LONGEST = 100  # tokens, where a run's own outputs end


@dataclass(frozen=True)
class Case:
    """A model, what it reads, and how its outputs are scored.

    Args:
        lengths: of each output, where they are given.
        bleu: of outputs, where there are references.
    """

    name: str
    sizes: dict[str, Any]
    model: Transformer
    sources: list[Ids]
    lengths: list[int] | None
    bleu: Callable[[list[Ids]], float] | None

    def weights(self) -> Weights:
        """By their names, in fp32."""
        return {name: value.detach().numpy() for name, value in self.model.state_dict().items()}

    def calls(self, one_by_one: bool) -> list[Call]:
        """The sources in calls: all in one where outputs end by themselves, else those of each length together, the
        most tokens first, as a program would that knew: what takes long should not begin last."""
        ends: dict[Any, list[int]] = {}
        for i in range(len(self.sources)):
            length = self.lengths[i] if self.lengths else None
            ends.setdefault((length, i) if one_by_one else length, []).append(i)
        found = []
        for sentences in ends.values():
            high = self.lengths[sentences[0]] if self.lengths else LONGEST
            found.append(Call(sentences, high - 1 if self.lengths else 0, high))
        return found if one_by_one else sorted(found, key=lambda call: -call.high * len(call.sentences))

    def first(self, count: int) -> Case:
        """Its first sentences, without a score."""
        return replace(self, sources=self.sources[:count], bleu=None)

    def job(self, search: Search, one_by_one: bool) -> Job:
        """All of it as the systems read it."""
        return Job(self.sizes, search, self.sources, self.calls(one_by_one), one_by_one)


def random_case(name: str, kind: str, sentences: int | None = None, position: str = "sinusoidal",
                attention: str = "full") -> Case:
    """A random post-norm model of MODELS, and sources of random ids: "captions" or "passages".

    Padding and bos have zeros for embeddings, so that no system, whether it forbids them or not, ever emits one; what
    positions learn begins with zeros, and is drawn.
    """
    sizes = {**asdict(MODELS[name]), "residual": "post", "position": position, "attention": attention}
    model = new_model(sizes)
    with torch.no_grad():
        model.target_embedding.weight[[PAD, UNK, BOS]] = 0
        for each, parameter in model.named_parameters():
            if ".position." in each and not parameter.any():
                parameter.normal_()
    random = np.random.default_rng(1)
    count = sentences or LENGTHS[kind]
    if kind == "captions":
        source, target = lengths_of("short", count, random)
        target = np.maximum(target // STEP, 1) * STEP + STEP // 2
    else:
        source = target = np.full(count, PASSAGE)
    sources = [[*random.integers(FIRST, sizes["vocabulary"], n - 1).tolist(), EOS] for n in source]
    parts = [part for part in (position, attention) if part not in ("sinusoidal", "full")]
    return Case(", ".join([f"{name} {kind}", *parts]), sizes, model.eval(), sources, target.tolist(), None)


def run_case(folder: Path, files: tuple[str, str] | None, sentences: int | None = None) -> Case:
    """A trained run on its test set, or on two files of sources and references.

    Raises:
        ValueError: the peers have no such model.
    """
    run = load(folder)
    if not isinstance(run.model, Transformer):
        raise ValueError(f"{folder} is a run for {run.config.task}")
    pairs = pairs_of(run, "test", files)[:sentences]
    sources = [shorten(ids, run.config.model.max_length)
               for ids in source_ids([a for a, _ in pairs], run.tokenizers, classify=False)]
    return Case(folder.name, sizes_of(run), run.model.float().cpu().eval(), sources, None, bleu_against(run, pairs))


def sizes_of(run: Run) -> dict[str, Any]:
    """The sizes of a run's model.

    Raises:
        ValueError: what it has that the peers' models cannot have.
    """
    config = run.config.model
    for name, known in (("position", PLACED), ("norm", ("layernorm",)), ("feed_forward", ("relu",)),
                        ("attention", ("full",)), ("tie_embeddings", (True,)), ("d_key", (None,))):
        if getattr(config, name) not in known:
            raise ValueError(f"model.{name} is {getattr(config, name)}: what can be compared is {known}")
    if config.residual not in ("post", "pre") or not run.tokenizers.shared:
        raise ValueError("the peers need a post- or pre-norm model with one vocabulary for both sides")
    return {**{name: getattr(config, name) for name in SIZES}, "vocabulary": run.tokenizers.source.size}


def bleu_against(run: Run, pairs: list[tuple[str, str]]) -> Callable[[list[Ids]], float]:
    """Outputs → BLEU against the pairs' targets, lower-cased where the run's tokenizer is."""
    references = [b for _, b in pairs]
    metric = BLEU(lowercase=run.config.tokenizer.lowercase, tokenize=bleu_tokenizer(references))

    def bleu(outputs: list[Ids]) -> float:
        return float(metric.corpus_score([run.tokenizers.target.decode(ids) for ids in outputs], [references]).score)

    return bleu
