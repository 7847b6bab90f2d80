"""Where two systems differ: by the length of the sentences, by how frequent the words are, and in which sentences."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sacrebleu.metrics.bleu import BLEU

from pellucid.evaluate.significance import (
    SentenceStatistics,
    corpus_score,
    difference_interval,
    of_sentences,
    with_sources,
)
from pellucid.evaluate.translation import bleu_tokenizer
from pellucid.language import so_many

_BINS = 4
_FREQUENCIES = (0, 1, 10, 100, 1000)  # where each class of words begins
_SHOWN = 20

Words = Callable[[str], list[str]]


@dataclass(frozen=True)
class Group:
    """A score of both systems on some of the sentences or words.

    Attributes:
        group: which ones.  n: how many.
        interval: 95 %, of the difference a − b.
    """

    group: str
    n: int
    a: float
    b: float
    difference: float
    interval: tuple[float, float]


@dataclass(frozen=True)
class Sentence:
    """One that the systems differ in: its line, both outputs, and the score of each."""

    line: int
    source: str
    reference: str
    output_a: str
    output_b: str
    a: float
    b: float


def word_splitter(references: Sequence[str], lowercase: bool) -> Words:
    """Text → words, as BLEU of these references has them; in lower case where that is asked for."""
    split = BLEU(tokenize=bleu_tokenizer(references)).tokenizer
    return lambda text: list(split(text.lower() if lowercase else text).split())


def by_length(a: SentenceStatistics, b: SentenceStatistics, lengths: Sequence[int]) -> list[Group]:
    """The score of sentences of similar length: up to four groups, as equal in number as ties allow.

    Args:
        lengths: of each sentence, in words.
    """
    values = np.asarray(lengths)
    edges = sorted({int(np.quantile(values, i / _BINS, method="higher")) for i in range(_BINS)})
    groups = []
    for low, high in zip(edges, [*edges[1:], int(values.max()) + 1], strict=True):
        chosen = (values >= low) & (values < high)
        if chosen.any():
            name = so_many(low, "word") if high - low == 1 else f"{low} to {min(high - 1, int(values.max()))} words"
            groups.append(_group(name, int(chosen.sum()), of_sentences(a, chosen), of_sentences(b, chosen)))
    return groups


def _group(name: str, n: int, a: SentenceStatistics, b: SentenceStatistics) -> Group:
    of_a, of_b = corpus_score(a), corpus_score(b)
    return Group(name, n, of_a, of_b, of_a - of_b, difference_interval(a, b))


def by_frequency(outputs: tuple[Sequence[str], Sequence[str]], pairs: Sequence[tuple[str, str]], known: Counter[str],
                 words: Words) -> list[Group]:
    """The F₁ of words by how often they are in `known`: of the words that a system wrote and that the references have,
    how many are in both, sentence by sentence (Neubig et al. 2019, "compare-mt"). Classes without words are left out;
    n counts words of the references."""
    groups = []
    sources, truth = [source for source, _ in pairs], [Counter(words(reference)) for _, reference in pairs]
    written = [[Counter(words(line)) for line in side] for side in outputs]
    ends = [*_FREQUENCIES[1:], None]
    for low, high in zip(_FREQUENCIES, ends, strict=True):
        def belongs(word: str, low: int = low, high: int | None = high) -> bool:
            return known[word] >= low and (high is None or known[word] < high)

        a, b = (with_sources(_f1_statistics(side, truth, belongs), sources) for side in written)
        n = int(a.statistics[:, 2].sum())
        if n:
            times = f"{low:,} times or more" if high is None else f"{low:,} to {high - 1:,} times"
            groups.append(_group("never" if high == 1 else times, n, a, b))
    return groups


def _f1_statistics(outputs: Sequence[Counter[str]], references: Sequence[Counter[str]],
                   belongs: Callable[[str], bool]) -> SentenceStatistics:
    """[n, 3]: words in both, words written, words of the reference."""
    rows = []
    for output, reference in zip(outputs, references, strict=True):
        both = sum(min(count, reference[word]) for word, count in output.items() if belongs(word))
        rows.append([both, *(sum(count for word, count in side.items() if belongs(word))
                             for side in (output, reference))])
    return SentenceStatistics("f1", np.array(rows, dtype=np.float64), _f1)


def _f1(sums: NDArray[np.float64]) -> float:
    both, written, truth = sums.tolist()
    return 200.0 * both / (written + truth) if written + truth else 0.0


def count_words(lines: Iterable[str], words: Words) -> Counter[str]:
    """How often each word occurs."""
    counts: Counter[str] = Counter()
    for line in lines:
        counts.update(words(line))
    return counts


def most_different(a: SentenceStatistics, b: SentenceStatistics, pairs: Sequence[tuple[str, str]],
                   outputs: tuple[Sequence[str], Sequence[str]]) -> list[Sentence]:
    """The twenty sentences whose scores differ most, most first; those with equal scores never."""
    of_a, of_b = ([metric.score(row) for row in metric.statistics] for metric in (a, b))
    order = sorted(range(len(pairs)), key=lambda i: (-abs(of_a[i] - of_b[i]), i))
    return [Sentence(i + 1, *pairs[i], outputs[0][i], outputs[1][i], of_a[i], of_b[i])
            for i in order[:_SHOWN] if of_a[i] != of_b[i]]
