"""What the training benchmark trains on: token ids, the same batches for every system, and the models' sizes.

No tokenisation happens inside a timer: a workload is lists of ids, written once to a file that every system reads.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pellucid.data.batching import Batches
from pellucid.data.corpus import Corpus, Sequences
from pellucid.data.encoding import Report

EOS, FIRST = 3, 4
IDS = "workload.npz"


@dataclass(frozen=True)
class Model:
    """The sizes of a Transformer; every system builds one with as many parameters."""

    name: str
    d_model: int
    n_heads: int
    d_ff: int
    encoder_layers: int
    decoder_layers: int
    vocabulary: int
    dropout: float = 0.1
    classes: int = 0  # above 0: an encoder with a head, and no decoder


MODELS = {
    "tiny": Model("tiny", 128, 4, 256, 4, 4, 8000),
    "small": Model("small", 256, 4, 1024, 3, 3, 8000),
    "base": Model("base", 512, 8, 2048, 6, 6, 32000),
    "big": Model("big", 1024, 16, 4096, 6, 6, 32000),
    "title": Model("title", 256, 8, 1024, 4, 4, 30000),
    "classifier": Model("classifier", 256, 4, 1024, 4, 0, 8000, classes=6),
}
# Each row of the table: the lengths, the model, the updates in one repetition, target tokens an update.
CASES = {
    "short-tiny": ("short", "tiny", 8, 4096),
    "short-small": ("short", "small", 8, 4096),
    "short-base": ("short", "base", 2, 4096),
    "long-small": ("long", "small", 4, 4096),
    "title": ("title", "title", 3, 4096),
    "classifier": ("short", "classifier", 8, 4096),
    "large-base": ("short", "base", 4, 49_152),
    "large-big": ("short", "big", 4, 49_152),
}
FOR_A_GPU = ("large-base", "large-big")


def lengths_of(kind: str, count: int, random: np.random.Generator) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Source and target lengths, eos included: of image captions in 8,000 pieces ("short": means of 15 and 16), of
    passages ("long": 256 to 512), of a title and the text below it ("title": about 8 and 400)."""
    if kind == "short":
        source = np.clip(np.round(random.lognormal(2.63, 0.30, count)) + 1, 4, 45).astype(np.int64)
        target = np.clip(np.round(source * random.normal(1.05, 0.16, count)), 4, 50).astype(np.int64)
    elif kind == "long":
        source = random.integers(256, 513, count)
        target = np.clip(np.round(source * random.normal(1.0, 0.08, count)), 200, 512).astype(np.int64)
    else:
        source = random.integers(4, 13, count)
        target = np.clip(np.round(random.normal(400, 70, count)), 150, 512).astype(np.int64)
    return source, target


def make_corpus(kind: str, count: int, model: Model, seed: int = 1) -> Corpus:
    """Generated ids with the lengths of `kind`, by a Zipf law; the target repeats the source, shifted, so that there
    is something to learn."""
    random = np.random.default_rng(seed)
    source_lengths, target_lengths = lengths_of(kind, count, random)
    if model.classes:
        target_lengths = np.ones(count, dtype=np.int64)
    ranks = 1.0 / np.arange(1, model.vocabulary - FIRST + 1)
    ids = lambda n: FIRST + random.choice(len(ranks), size=n, p=ranks / ranks.sum())  # noqa: E731
    sources = [np.append(ids(n - 1), EOS) for n in source_lengths]
    if model.classes:
        targets = [np.asarray([int(s[0]) % model.classes]) for s in sources]
    else:
        targets = [np.append(np.resize((s[:-1] + 1 - FIRST) % (model.vocabulary - FIRST) + FIRST, n - 1), EOS)
                   for s, n in zip(sources, target_lengths)]
    return Corpus(_sequences(sources), _sequences(targets), Report(count, count, 0, 0, 0, 0))


def _sequences(rows: list[NDArray[np.int64]]) -> Sequences:
    offsets = np.concatenate([[0], np.cumsum([len(r) for r in rows])])
    return Sequences(np.concatenate(rows).astype(np.int32), offsets)


def batches_of(case: str, updates: int | None = None) -> list[NDArray[np.int64]]:
    """The examples of each update in one repetition: spread evenly over the lengths of one epoch."""
    kind, _, usual, tokens = CASES[case]
    updates = updates or usual
    corpus = corpus_of(case)
    sentences = 16 if kind == "title" else None
    batches = Batches(corpus, tokens, sentences, seed=1).examples(0)
    full = [b for b in batches if len(b) > 1 and (sentences is None or len(b) == sentences)]
    by_length = sorted(full, key=lambda b: int(corpus.target.lengths[b].sum()) / len(b))
    places = (np.arange(updates) + 0.5) / updates * len(by_length)
    return [by_length[int(p)] for p in places]


def corpus_of(case: str) -> Corpus:
    """The corpus that the batches of `case` are taken from."""
    kind, name, *_ = CASES[case]
    return make_corpus(kind, {"short": 12_000, "long": 400, "title": 400}[kind], MODELS[name])


def shuffled_batches_of(case: str) -> list[NDArray[np.int64]]:
    """As many updates of sentences in random order, a batch being full when its longest side times its sentences
    reaches `tokens`: how JoeyNMT's own loop batches."""
    corpus, (*_, updates, tokens) = corpus_of(case), CASES[case]
    batches: list[NDArray[np.int64]] = []
    batch: list[int] = []
    for i in np.random.default_rng(2).permutation(len(corpus)):
        batch.append(int(i))
        if len(batch) * max(corpus.source.lengths[batch].max(), corpus.target.lengths[batch].max()) >= tokens:
            batches.append(np.asarray(batch))
            batch = []
    return batches[:updates]


def write(case: str, folder: Path, textbook_length: int | None = None, shuffled: bool = False,
          updates: int | None = None) -> Path:
    """Writes the padded ids of every update, and the model's sizes, for any system to read.

    Args:
        textbook_length: pads everything to this length, as the simplest of loops do.
        shuffled: takes sentences in random order, whatever their lengths.
        updates: how many batches, in random order, in place of those of one repetition.
    """
    corpus, arrays = corpus_of(case), {}
    batches = shuffled_batches_of(case) if shuffled else batches_of(case, updates=updates)
    if updates:
        batches = [batches[i] for i in np.random.default_rng(3).permutation(len(batches))]
    for number, examples in enumerate(batches):
        arrays[f"source{number}"] = _padded(corpus.source, examples, textbook_length)
        arrays[f"target{number}"] = _padded(corpus.target, examples, textbook_length)
    path = folder / IDS
    np.savez(path, **arrays, **{f"model.{k}": np.asarray(v) for k, v in asdict(MODELS[CASES[case][1]]).items()})
    return path


def _padded(sequences: Sequences, examples: NDArray[np.int64], length: int | None) -> NDArray[np.int64]:
    rows = [sequences[int(i)] for i in examples]
    out = np.zeros((len(rows), length or max(map(len, rows))), dtype=np.int64)
    for line, row in zip(out, rows):
        line[: len(row)] = row
    return out
