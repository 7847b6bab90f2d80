"""A vocabulary map for CTranslate2, from a run's own training data: for each source token the target tokens that go
with it most, and for every sentence the most frequent ones. A decoder then scores these alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from benchmarks.convert import words_of
from pellucid.data.corpus import Corpus, Sequences, open_corpus
from pellucid.data.splits import open_splits
from pellucid.runs.run import Run

PARTNERS, FREQUENT = 32, 256


def write(run: Run, path: Path) -> None:
    """As CTranslate2 reads it: source token, tab, target tokens; the line without a source token holds for all."""
    corpus = open_corpus(open_splits(run.config, run.folder)["train"], run.tokenizers, run.config)
    words = words_of(run.tokenizers.target.size)
    lines = [f"{words[token] if token is not None else ''}\t{' '.join(words[i] for i in partners)}"
             for token, partners in rules(corpus, len(words)).items()]
    path.write_text("\n".join(lines) + "\n")


def rules(corpus: Corpus, vocabulary: int) -> dict[int | None, list[int]]:
    """The partners of each source token by Dice's coefficient, 2 n(s, t) / (n(s) + n(t)); the frequent ones at None."""
    pairs = np.concatenate([np.unique(np.asarray(corpus.source[i], dtype=np.int64)[:, None] * vocabulary
                                      + corpus.target[i]) for i in range(len(corpus))])
    together, count = np.unique(pairs, return_counts=True)
    source, target = together // vocabulary, together % vocabulary
    of_source = _sentences_with(corpus.source, vocabulary)
    of_target = _sentences_with(corpus.target, vocabulary)
    dice = 2 * count / (of_source[source] + of_target[target])
    order = np.lexsort((-dice, source))
    found: dict[int | None, list[int]] = {None: np.argsort(-of_target, kind="stable")[:FREQUENT].tolist()}
    for token, partner in zip(source[order].tolist(), target[order].tolist()):
        partners = found.setdefault(token, [])
        if len(partners) < PARTNERS:
            partners.append(partner)
    return found


def _sentences_with(side: Sequences, vocabulary: int) -> np.ndarray:
    """In how many sentences each token stands."""
    return np.bincount(np.concatenate([np.unique(side[i]) for i in range(len(side))]), minlength=vocabulary)
