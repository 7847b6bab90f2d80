"""Lengths in tokens, what model.max_length cuts, unknown tokens, padding, and sizes that suit the data.

A vocabulary suits the data when 95 % of its pieces are seen a hundred times in training (Gowda & May 2020): rarer ones
are hardly learned.
"""

import dataclasses
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pellucid.config import RunConfig, TrainConfig
from pellucid.data.batching import Batches
from pellucid.data.corpus import Corpus
from pellucid.data.examples import training_examples
from pellucid.data.source_ids import source_ids
from pellucid.data.tokenizers.build import Tokenizers, train_tokenizers
from pellucid.data.tokenizers.interface import UNK
from pellucid.doctor.finding import Tally
from pellucid.doctor.reading import Window
from pellucid.errors import ConfigError, UserError

_ENOUGH = 100  # times that a piece should be seen
_WELL_SEEN = 0.95  # of the pieces should be
_SMALLEST = 250  # pieces of a vocabulary that is advised
_FEW_PAIRS = 5000  # are enough to compare vocabularies
_MOST_ENCODED = 50_000  # texts that could be too long are encoded to know; beyond, one in so many
_FEWEST_BATCHES, _MOST_BATCHES = 50, 20_000  # an epoch
_USUAL_BATCHES = 500

Lengths = NDArray[np.int64]


def sample_tokenizers(config: RunConfig, pairs: Sequence[tuple[str, str]], labels: Iterable[str]) -> Tokenizers:
    """Tokenizers as training makes them, from a sample; with fewer pieces where the sample allows no more.

    Args:
        labels: of a classifier, those of all training data: a sample may miss some.

    Raises:
        UserError: what training raises.
    """
    options = dataclasses.replace(config.tokenizer, sample_lines=min(config.tokenizer.sample_lines, 20_000),
                                  sample_characters=min(config.tokenizer.sample_characters, 4_000_000))
    if config.task == "classification":
        pairs = [*((text, "") for text, _ in pairs), *(("", label) for label in labels)]
    while True:
        try:
            return train_tokenizers(options, pairs, config.task)
        except ConfigError as error:
            if "at most" not in error.what or len(pairs) < 20_000:
                raise
            options = dataclasses.replace(options, vocab_size=int(options.vocab_size * 0.7))


@dataclass
class LengthCheck:
    """Which texts of a split are longer than model.max_length.

    Attributes:
        source, target: the tallies; counts are estimates once very many texts come near the limit.
    """

    config: RunConfig
    tokenizers: Tokenizers
    source: Tally = field(default_factory=Tally)
    target: Tally = field(default_factory=Tally)
    _encoded: int = 0

    def add(self, window: Window) -> None:
        """Takes in the next window. Few texts have more tokens than bytes, and two more: some of the characters that
        Unicode takes apart, ﷽ for one."""
        limit, classify = self.config.model.max_length, self.config.task == "classification"
        for texts, tally in ((window.sources, self.source), (window.targets, self.target)):
            if tally is self.target and _is_one_text(self.config):
                continue
            near = [i for i, text in enumerate(texts) if len(text.encode(errors="replace")) + 2 > limit]
            step = 1 + self._encoded // _MOST_ENCODED
            near = near[::step]
            self._encoded += len(near)
            tokenizers = self.tokenizers if tally is self.source else _target_side(self.tokenizers)
            long = [i for i, ids in zip(near, source_ids([texts[i] for i in near], tokenizers, classify), strict=True)
                    if len(ids) > limit]
            tally.add(window.numbers[i] for i in long for _ in range(step))


def _is_one_text(config: RunConfig) -> bool:
    """Whether an example is a text with a label, or a text that stands alone."""
    return config.task == "classification" or config.data.objective == "span_corruption"


def _target_side(tokenizers: Tokenizers) -> Tokenizers:
    return dataclasses.replace(tokenizers, source=tokenizers.target)


@dataclass(frozen=True)
class Encoded:
    """The sample in tokens: lengths with eos (or bos), and how often each id is in it."""

    lengths: tuple[Lengths, Lengths]  # target lengths are 1 where there is one text
    counts: tuple[Counter[int], Counter[int]]  # one object where the vocabulary is shared

    @property
    def unknown(self) -> float:
        """The share of unknown tokens."""
        sides = {id(counts): counts for counts in self.counts}.values()
        return sum(counts[UNK] for counts in sides) / max(sum(counts.total() for counts in sides), 1)


def encode(pairs: Sequence[tuple[str, str]], tokenizers: Tokenizers, config: RunConfig) -> Encoded:
    """The pairs in tokens."""
    is_one = _is_one_text(config)
    pairs = [pair for pair in pairs if pair[0].strip() and pair[1].strip()]
    sources = source_ids([a for a, _ in pairs], tokenizers, config.task == "classification")
    targets = [] if is_one else source_ids([b for _, b in pairs], _target_side(tokenizers), False)
    first: Counter[int] = Counter()
    second = first if tokenizers.shared or is_one else Counter()
    for counts, rows in ((first, sources), (second, targets)):
        for row in rows:
            counts.update(row)
    ones = np.ones(len(sources), dtype=np.int64)
    lengths = np.asarray([len(row) for row in sources], dtype=np.int64)
    return Encoded((lengths, ones if is_one else np.asarray([len(row) for row in targets], dtype=np.int64)),
                   (first, second))


def length_facts(encoded: Encoded) -> dict[str, Any]:
    """Quantiles and a histogram of the lengths, by side."""
    facts: dict[str, Any] = {}
    for side, lengths in zip(("source", "target"), encoded.lengths, strict=True):
        if lengths.max(initial=1) == 1:  # of one text
            continue
        edges = [0, *(2**i for i in range(2, 1 + max(3, int(lengths.max() - 1).bit_length())))]
        counts = np.histogram(lengths, [edge + 0.5 for edge in edges])[0]
        facts[side] = {"median": int(np.median(lengths)), "p95": int(np.quantile(lengths, 0.95)),
                       "p99": int(np.quantile(lengths, 0.99)), "longest": int(lengths.max()),
                       "histogram": {f"{low + 1}-{high}": int(count) for low, high, count
                                     in zip(edges, edges[1:], counts, strict=False)}}
    return facts


def well_seen(encoded: Encoded, scale: float) -> float:
    """The share of the source side's vocabulary in use that training sees a hundred times, if its data is `scale` times
    the sample."""
    counts = encoded.counts[0].values()
    return sum(count * scale >= _ENOUGH for count in counts) / max(len(counts), 1)


def suited_vocabulary(config: RunConfig, pairs: Sequence[tuple[str, str]], labels: Iterable[str], seen: float,
                      scale: float) -> int | None:
    """The largest half, quarter … of the configured vocabulary that suits the data, `seen` being how much of the whole
    one does; None where it suits itself, or where that cannot be told."""
    filled = [pair for pair in pairs if pair[0].strip() and pair[1].strip()]
    size, step = config.tokenizer.vocab_size, 1 + len(filled) // _FEW_PAIRS
    pairs, scale = filled[::step], scale * step
    while seen < _WELL_SEEN and size >= 2 * _SMALLEST:
        size //= 2
        options = dataclasses.replace(config.tokenizer, vocab_size=size, path=None)
        try:
            smaller = dataclasses.replace(config, tokenizer=options)
            seen = well_seen(encode(pairs, sample_tokenizers(smaller, pairs, labels), smaller), scale)
        except UserError:  # the characters alone are more
            return None
    return size if seen >= _WELL_SEEN and size < config.tokenizer.vocab_size else None


def batch_facts(corpus: Corpus, tokenizers: Tokenizers, config: RunConfig, scale: float) -> dict[str, Any]:
    """Batches an epoch, epochs in the run, the share of a batch that is not padding, and a batch size that suits.

    Args:
        corpus: a sample of the training data, from each source as much as its weight says.
        scale: how many times the sample the training data is; batches of the sample are padded more, never less.
    """
    train = config.train
    if not len(corpus):
        return {}
    batches = Batches(training_examples(corpus, tokenizers, config), train.batch_tokens, train.batch_sentences,
                      config.seed)
    drawn = batches.corpus.in_epoch(0)
    lengths = drawn.source.lengths, drawn.target.lengths
    padded = sum(len(rows) * int(side[rows].max()) for rows in batches.examples(0) for side in lengths)
    per_epoch = max(1, round(batches.per_epoch * scale))
    epochs = train.epochs if train.epochs is not None else train.steps * train.accumulate / per_epoch
    tokens = int((lengths[0] if config.task == "classification" else lengths[1]).sum() * scale)
    facts = {"batches_per_epoch": per_epoch, "epochs": round(epochs, 1), "target_tokens": tokens,
             "filled": round(sum(int(side.sum()) for side in lengths) / max(padded, 1), 4)}
    suited = _suited_batch(per_epoch, tokens, train)
    return facts | ({"suited_batch_tokens": suited} if suited is not None else {})


def _suited_batch(per_epoch: int, tokens: int, train: TrainConfig) -> int | None:
    """A size that gives an epoch more batches where there are few, or fewer where there are very many; None where there
    is none, or the one there is does."""
    are_many = per_epoch > _MOST_BATCHES
    if not are_many and per_epoch >= _FEWEST_BATCHES:
        return None
    wanted = max(tokens // (_USUAL_BATCHES if are_many else 2 * _FEWEST_BATCHES), 1)
    suited = int(np.clip(2 ** int(np.log2(wanted)), 256, 32_768))
    now = train.batch_tokens if train.batch_sentences is None else tokens / per_epoch
    return suited if (suited > now if are_many else suited < now) else None
