"""Scores of translations against one reference each: BLEU, chrF and TER by sacreBLEU, METEOR, and exact matches.

BLEU: Papineni et al. (2002); chrF: Popović (2015); TER: Snover et al. (2006); all as in sacreBLEU (Post 2018, "A Call
for Clarity in Reporting BLEU Scores"), with its signatures. Scores are on the 0–100 scale; of TER alone, less is
better, and it can pass 100.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import final

import numpy as np
from numpy.typing import NDArray
from sacrebleu.metrics.base import Metric
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from pellucid.evaluate import meteor
from pellucid.evaluate.significance import (
    DEFAULT_RESAMPLES,
    DEFAULT_SEED,
    SentenceStatistics,
    bootstrap_interval,
    corpus_score,
    mean_percentage,
)

CHINESE_SHARE = 0.3
_CHINESE = re.compile("[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U000323af]")
_SPACE = re.compile(r"\s")


@final
@dataclass(frozen=True)
class TranslationScores:
    """Corpus scores (0–100), the 95 % bootstrap interval of each, and the signatures under which they may be quoted.

    `signatures` has one for every score, `statistics` what `paired_bootstrap` needs to compare two systems.
    """

    bleu: float
    bleu_lowercase: float
    chrf: float
    ter: float
    meteor: float
    exact: float
    interval: dict[str, tuple[float, float]]
    signatures: dict[str, str]
    statistics: dict[str, SentenceStatistics] = field(repr=False, compare=False)

    @property
    def signature(self) -> str:
        """sacreBLEU's signature of `bleu`."""
        return self.signatures["bleu"]


def bleu_tokenizer(references: Sequence[str]) -> str:
    """sacreBLEU's tokenizer for the references: ``zh`` if over 0.3 of their characters are Chinese, otherwise ``13a``.

    Blanks are not counted. Chinese characters are the Han ideographs, so that Japanese may come out as either.
    """
    chinese = sum(len(_CHINESE.findall(reference)) for reference in references)
    characters = sum(len(_SPACE.sub("", reference)) for reference in references)
    return "zh" if chinese > CHINESE_SHARE * characters else "13a"


def translation_scores(
    hypotheses: Sequence[str], references: Sequence[str], resamples: int = DEFAULT_RESAMPLES, seed: int = DEFAULT_SEED
) -> TranslationScores:
    """All scores of n hypotheses, each with its interval from `resamples` resamples; texts and errors as in
    `translation_statistics`, and a ValueError if `resamples` is below 1.
    """
    statistics = translation_statistics(hypotheses, references)
    scores = {name: corpus_score(metric) for name, metric in statistics.items()}
    return TranslationScores(
        bleu=scores["bleu"], bleu_lowercase=scores["bleu_lowercase"], chrf=scores["chrf"], ter=scores["ter"],
        meteor=scores["meteor"], exact=scores["exact"],
        interval={name: bootstrap_interval(metric, resamples, seed) for name, metric in statistics.items()},
        signatures=translation_signatures(bleu_tokenizer(references)), statistics=statistics)


def translation_statistics(hypotheses: Sequence[str], references: Sequence[str]) -> dict[str, SentenceStatistics]:
    """Per-sentence statistics of every score, by the score's name.

    Args:
        hypotheses, references: n plain, detokenised lines each. Empty lines are scored, not skipped. METEOR gets the
            words of BLEU's tokenizer; `exact` ignores blanks at the ends of a line and nothing else.

    Raises:
        ValueError: if the counts differ or are zero.
    """
    if len(hypotheses) != len(references):
        raise ValueError(f"{len(hypotheses)} hypotheses but {len(references)} references: each needs its own")
    if len(hypotheses) == 0:
        raise ValueError("0 hypotheses and 0 references: there is nothing to score")
    tokenizer = bleu_tokenizer(references)
    words = BLEU(tokenize=tokenizer).tokenizer
    metrics = _sacrebleu_metrics(tokenizer)
    return {**{name: _sacrebleu_statistics(name, metric, hypotheses, references) for name, metric in metrics.items()},
            "meteor": meteor.meteor_statistics([words(hypothesis).split() for hypothesis in hypotheses],
                                               [words(reference).split() for reference in references]),
            "exact": _exact_statistics(hypotheses, references)}


def translation_signatures(tokenizer: str) -> dict[str, str]:
    """How each score is computed under a BLEU tokenizer, ``13a`` or ``zh``: sacreBLEU's signatures and our own."""
    metrics = _sacrebleu_metrics(tokenizer)
    for metric in metrics.values():
        metric.num_refs = 1  # sacreBLEU learns this from the data only, and there is always one
    return {**{name: metric.get_signature().format() for name, metric in metrics.items()},
            "meteor": f"{meteor.SIGNATURE}|tok:{tokenizer}", "exact": "nrefs:1|case:mixed|strip:ends"}


def _sacrebleu_metrics(tokenizer: str) -> dict[str, Metric]:
    """sacreBLEU's metrics with its defaults, except that TER splits Chinese, which it would take for one long word.

    ``force`` only silences a warning about text that looks tokenised.
    """
    chinese = tokenizer == "zh"
    return {"bleu": BLEU(tokenize=tokenizer, force=True),
            "bleu_lowercase": BLEU(tokenize=tokenizer, lowercase=True, force=True), "chrf": CHRF(),
            "ter": TER(normalized=chinese, asian_support=chinese)}


def _sacrebleu_statistics(
        name: str, metric: Metric, hypotheses: Sequence[str], references: Sequence[str]) -> SentenceStatistics:
    """sacreBLEU's own table and formula: counts are whole numbers, so that summing them in float64 is exact."""
    table = np.array(metric._extract_corpus_statistics(hypotheses, [references]), dtype=np.float64)

    def score(sums: NDArray[np.float64]) -> float:
        return float(metric._compute_score_from_stats(sums.tolist()).score)

    return SentenceStatistics(name, table, score)


def _exact_statistics(hypotheses: Sequence[str], references: Sequence[str]) -> SentenceStatistics:
    """Percentage of lines equal to their reference: ``[n, 2]``, a 0 or 1 and a 1."""
    pairs = zip(hypotheses, references, strict=True)
    equal = [[float(hypothesis.strip() == reference.strip()), 1.0] for hypothesis, reference in pairs]
    return SentenceStatistics("exact", np.array(equal), mean_percentage)
