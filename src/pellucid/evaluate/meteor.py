"""METEOR: words aligned exactly, then by stem; weighted mean of precision and recall, less a penalty for broken order.

``F = P·R / (α·P + (1−α)·R)``, ``METEOR = F · (1 − γ·(chunks / matches)^β)`` with α 0.9, β 3, γ 0.5: Lavie and Agarwal
(2007), "METEOR: An Automatic Metric for MT Evaluation with High Levels of Correlation with Human Judgments", with the
values of Banerjee and Lavie (2005), without the synonym stage, which needs WordNet. The stems are English: text of
another language is matched exactly, without them. Reported as ``METEOR(exact+stem)`` or ``METEOR(exact)``.
"""

from collections import defaultdict
from collections.abc import Hashable, Sequence
from itertools import pairwise

import numpy as np

from pellucid.evaluate.porter import porter_stem
from pellucid.evaluate.significance import SentenceStatistics, mean_percentage

ALPHA, BETA, GAMMA = 0.9, 3.0, 0.5
ENGLISH_SHARE = 0.03
_ENGLISH = frozenset("the and that with this from have they were his you".split())  # and no words of its neighbours


def signature(stems: bool, lowercase: bool) -> str:
    """How METEOR is computed, to be quoted with it."""
    stages, stem = ("exact+stem", "porter-1980") if stems else ("exact", "no")
    return (f"METEOR({stages})|nrefs:1|case:{'lc' if lowercase else 'mixed'}|alpha:{ALPHA:g}|beta:{BETA:g}|"
            f"gamma:{GAMMA:g}|stem:{stem}")


def is_english(sentences: Sequence[Sequence[str]]) -> bool:
    """Whether over 0.03 of all words are one of eleven that English has in every text: the, and, that, with, this,
    from, have, they, were, his, you. Letter case is ignored."""
    words = sum(map(len, sentences))
    return sum(word.lower() in _ENGLISH for sentence in sentences for word in sentence) > ENGLISH_SHARE * words


def sentence_meteor(hypothesis: Sequence[str], reference: Sequence[str], stems: bool) -> float:
    """METEOR of one sentence, in 0–1, from its words, with the stage of English `stems` or without; letters differ in
    another case, and without a match it is 0.

    It is below 1 even for equal sentences, whose one chunk is still penalised: 1 − 0.5 / words³. Linear in the words.
    """
    matches = align(hypothesis, reference, stems)
    if not matches:
        return 0.0
    precision, recall = len(matches) / len(hypothesis), len(matches) / len(reference)
    mean = precision * recall / (ALPHA * precision + (1 - ALPHA) * recall)
    return float((1 - GAMMA * (_chunks(matches) / len(matches)) ** BETA) * mean)


def align(hypothesis: Sequence[str], reference: Sequence[str], stems: bool) -> list[tuple[int, int]]:
    """Pairs (place in the hypothesis, place in the reference) of matching words, by place in the hypothesis.

    Equal words are paired first, then, with `stems`, equal Porter stems in equal case among those left over. Repeats of
    a word are paired in order from the sentence's end, so that they never cross each other; this is the alignment that
    nltk makes of words in lower case.
    """
    hypothesis_left, reference_left = dict(enumerate(hypothesis)), dict(enumerate(reference))
    matches: list[tuple[int, int]] = []
    for stage in (str, _stem) if stems else (str,):
        matched = _pair_from_the_end({i: stage(word) for i, word in hypothesis_left.items()},
                                     {j: stage(word) for j, word in reference_left.items()})
        for i, j in matched:
            del hypothesis_left[i], reference_left[j]
        matches += matched
    return sorted(matches)


def _stem(word: str) -> Hashable:
    """The Porter stem, which is in lower case, and which of its letters are capital ones."""
    stem = porter_stem(word)
    return stem, tuple(letter.isupper() for letter in word[:len(stem)])


def meteor_statistics(name: str, hypotheses: Sequence[Sequence[str]], references: Sequence[Sequence[str]],
                      stems: bool) -> SentenceStatistics:
    """METEOR (0–100, the mean over n sentences) as per-sentence statistics ``[n, 2]``: the sentence's score, and 1.

    Args:
        name: of the score.
        hypotheses, references: the words of n sentences each.
        stems: whether words of one English stem match.

    Raises:
        ValueError: if the counts of sentences differ or are zero.
    """
    if len(hypotheses) != len(references):
        raise ValueError(f"{len(hypotheses)} hypotheses but {len(references)} references")
    scores = [sentence_meteor(*pair, stems) for pair in zip(hypotheses, references, strict=True)]
    table = np.array([[score, 1.0] for score in scores]).reshape(-1, 2)
    return SentenceStatistics(name, table, mean_percentage)


def _pair_from_the_end(hypothesis: dict[int, Hashable], reference: dict[int, Hashable]) -> list[tuple[int, int]]:
    """Pairs the places of equal keys, last with last; keys that have no partner left stay out."""
    places: defaultdict[Hashable, list[int]] = defaultdict(list)
    for j, key in reference.items():
        places[key].append(j)
    return [(i, places[key].pop()) for i, key in reversed(hypothesis.items()) if places[key]]


def _chunks(matches: Sequence[tuple[int, int]]) -> int:
    """Runs of matches that are neighbours in both sentences: 1 is perfect order, `len(matches)` is none."""
    return 1 + sum((i + 1, j + 1) != following for (i, j), following in pairwise(matches))
