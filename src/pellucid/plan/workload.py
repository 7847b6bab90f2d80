"""What a run learns from, in numbers: how many examples of which lengths, and the sizes of the vocabularies; from the
data where it is there, else from assumptions that are told."""

import tempfile
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from random import Random
from typing import NamedTuple

import numpy as np

from pellucid.config import RunConfig
from pellucid.data import hub
from pellucid.data.batching import Batches
from pellucid.data.corpus import Corpus, Examples, Sequences
from pellucid.data.examples import training_examples
from pellucid.data.sample import corpus_of, sample_corpus
from pellucid.data.shards import shard_and_line, shards_of
from pellucid.data.splits import Pairs as SplitPairs
from pellucid.data.splits import open_splits
from pellucid.data.tokenizers.build import train_tokenizers
from pellucid.data.tokenizers.interface import EOS
from pellucid.errors import ConfigError, DataError
from pellucid.plan.rehearsal import Holdings
from pellucid.plan.tokenizer import memory_of, not_reckoned
from pellucid.runs.folder import tokenizer_options
from pellucid.train.dry_run import vocabularies_of
from pellucid.train.workers import Workers, choose_workers

_SAMPLE = 20_000  # pairs that are tokenized
_DRAWN = 1_000_000  # examples whose lengths are drawn, at most
_MADE_UP = 2_000  # examples, where there is no data
TYPICAL_LENGTH = {"sentencepiece": 28, "word": 23, "spacy": 25, "character": 110,
                  "imported": 28}  # tokens of a sentence, eos included
_SPREAD = 0.5  # of the logarithm of their lengths
_CLASSES = 2

Pairs = list[tuple[str, str]]


class Shape(NamedTuple):
    """The size of a batch: sentences, and the tokens of the longest source and target (1 for a label)."""

    sentences: int
    source: int
    target: int


@dataclass(frozen=True)
class Workload:
    """What is learned from.

    Attributes:
        examples: of the training data, or a sample of it.
        count: how many examples an epoch has; None where nobody knows.
        source_vocab, target_vocab: sizes; shared: whether they are one vocabulary.
        classes: labels of a classifier, else 0.
        assumptions: what had to be assumed, a sentence each.
        tokenizer: what holds memory while it is trained, see plan/tokenizer.py.
    """

    examples: Examples
    count: int | None
    source_vocab: int
    target_vocab: int
    shared: bool
    classes: int
    assumptions: tuple[str, ...]
    tokenizer: Holdings = field(default_factory=dict)

    def batches(self, config: RunConfig) -> Batches:
        """The batches of an epoch of the examples that are known."""
        return Batches(self.examples, config.train.batch_tokens, config.train.batch_sentences, config.seed)

    def epoch(self, config: RunConfig) -> Batches:
        """The batches of a whole epoch, by their lengths alone. Where not all examples are known, as many as there are,
        up to _DRAWN, are drawn from those that are: the more there are to sort, the more alike are those of a batch."""
        return Batches(self._drawn, config.train.batch_tokens, config.train.batch_sentences, config.seed)

    @cached_property
    def _drawn(self) -> Examples:
        known = self.examples.in_epoch(0)
        count = min(self.count or 0, _DRAWN)
        if count <= len(known):
            return self.examples
        rows = np.random.default_rng(0).integers(len(known), size=count)
        source, target = (Sequences(np.zeros(0, np.int32), np.append(0, side.lengths[rows].cumsum()))
                          for side in (known.source, known.target))
        return Corpus(source, target, known.report)

    def scale(self) -> float | None:
        """How many times the examples that are known go into an epoch."""
        return None if self.count is None else self.count / len(self.examples.in_epoch(0))


def shapes_of(batches: Batches) -> list[Shape]:
    """The shape of every batch of the first epoch."""
    corpus = batches.corpus.in_epoch(0)
    return [Shape(len(rows), int(corpus.source.lengths[rows].max()), int(corpus.target.lengths[rows].max()))
            for rows in batches.examples(0)]


def workers_of(config: RunConfig, batches: Batches) -> Workers:
    """The workers that training has, on a processor."""
    first = batches[0]
    return choose_workers(config.train.workers, first.source_tokens + first.target_tokens)


def workload_of(config: RunConfig, say: Callable[[str], None], folder: Path | None = None) -> Workload:
    """Reads what there is of the training data.

    Args:
        folder: where data that is generated comes to lie, or lies already; one that goes again if left out.

    Raises:
        UserError: the data or the tokenizer is there, and cannot be used; passages are to be read, too.
    """
    data = config.data
    if config.retrieval.is_on:
        raise ConfigError("passages are not planned for", where="retrieval",
                          why="how long they are shows when they are looked for",
                          fix="plan the plain model, with --retrieval.from none; a passage is one more row of source")
    if data.train is None and data.generated is None:
        return _assumed(config, "no training data is given")
    for address in filter(hub.is_address, data.train.paths if data.train is not None else ()):
        return _assumed(config, f"{address} was not fetched")
    try:
        with tempfile.TemporaryDirectory() if folder is None else nullcontext(folder) as place:
            once, epoch = _sample(open_splits(config, Path(place))["train"], say)
    except DataError as error:
        return _assumed(config, f"the training data could not be read ({error.what})")
    return _measured(config, once, epoch)


class _Some:
    """_SAMPLE of the pairs that are offered, each as likely as another, and how many were offered."""

    def __init__(self) -> None:
        self.kept: Pairs = []
        self.count = 0
        self._random = Random(0)

    @property
    def is_all(self) -> bool:
        """Whether every pair that was offered is kept."""
        return self.count == len(self.kept)

    def offer(self, pair: tuple[str, str]) -> None:
        """One more."""
        self.count += 1
        if len(self.kept) < _SAMPLE:
            self.kept.append(pair)
        elif (place := self._random.randrange(self.count)) < _SAMPLE:
            self.kept[place] = pair


def _sample(pairs: SplitPairs, say: Callable[[str], None]) -> tuple[_Some, _Some]:
    """Each pair once, as a tokenizer learns from it; and those with two sides, as often as an epoch has them."""
    weights = [shard.weight for shard in shards_of(pairs.split)]
    once, epoch, random = _Some(), _Some(), Random(0)
    owed = dict.fromkeys(weights, 0.0)  # how often pairs of this weight are still to come
    for number, source, target in pairs.records():
        once.offer((source, target))
        if source.strip() and target.strip():
            weight = weights[shard_and_line(number)[0]]
            owed[weight] += weight
            times = int(owed[weight] + random.random())  # who came too often comes less: no luck adds up
            owed[weight] -= times
            for _ in range(times):
                epoch.offer((source, target))
        if once.count % 100_000 == 0:
            say(f"{once.count:,} training pairs read")
    return once, epoch


def _measured(config: RunConfig, once: _Some, epoch: _Some) -> Workload:
    """Args as `_sample` gives them."""
    assumptions = list[str]()
    options = tokenizer_options(config)
    tokenizers = train_tokenizers(options, once.kept, config.task)
    sizes = [tokenizers.source.size, tokenizers.target.size]
    if not epoch.is_all:
        assumptions.append(f"lengths are those of {len(epoch.kept):,} of the {epoch.count:,} training pairs")
    if not once.is_all and options.path is None and options.kind != "sentencepiece":
        sizes = [options.vocab_size] * 2
        assumptions.append(f"the vocabulary is full: {sizes[0]:,} tokens a side, as tokenizer.vocab_size allows")
    assumptions += not_reckoned(options, once.kept, once.count)
    if not epoch.kept:
        raise DataError("an epoch has no training pair", where="data.train",
                        why="no line has two sides, or the weights of the sources are too small")
    corpus = sample_corpus(epoch.kept, tokenizers, config)
    if len(corpus) == 0:
        raise DataError("no training pair is short enough", where="model.max_length", fix="raise model.max_length")
    count = round(epoch.count * len(corpus) / len(epoch.kept))
    return Workload(training_examples(corpus, tokenizers, config), count, sizes[0], sizes[1], tokenizers.shared,
                    len(tokenizers.labels), tuple(assumptions),
                    memory_of(options, once.kept, once.count, 1 if tokenizers.labels else 2))


def _assumed(config: RunConfig, reason: str) -> Workload:
    """Made-up examples, their lengths log-normal around the typical one."""
    limit, random = config.model.max_length, np.random.default_rng(0)
    typical = min(TYPICAL_LENGTH[config.tokenizer.kind], limit)
    spread = np.exp(random.normal(-_SPREAD**2 / 2, _SPREAD, _MADE_UP))  # of mean 1
    lengths = np.clip(np.rint(typical * spread), min(2, limit), limit).astype(np.int64)
    classes = _CLASSES if config.task == "classification" else 0
    if classes:
        targets = np.ones_like(lengths)
    else:
        targets = np.maximum(2, lengths // 4) if config.data.objective == "span_corruption" else lengths
    corpus = corpus_of([np.full(n, EOS) for n in lengths], [np.full(n, 0 if classes else EOS) for n in targets])
    source_vocab, target_vocab, shared = vocabularies_of(config)
    told = [f"{reason}: sentences are taken to have {typical} tokens on average, the longest {lengths.max()}"]
    if tokenizer_options(config).path is None:
        told.append(f"the vocabulary has {source_vocab:,} tokens, as tokenizer.vocab_size says")
    if classes:
        told.append(f"there are {classes} labels")
    return Workload(corpus, None, source_vocab, target_vocab, shared and not classes, classes, tuple(told))


def with_batch(config: RunConfig, size: int) -> RunConfig:
    """The configuration with another size of batch, in the key that it uses."""
    train = config.train
    resized = replace(train, batch_sentences=size) if train.batch_sentences else replace(train, batch_tokens=size)
    return replace(config, train=resized)
