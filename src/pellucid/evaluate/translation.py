"""Scores of translations against one reference each: BLEU, chrF and TER by sacreBLEU, METEOR, and exact matches.

BLEU: Papineni et al. (2002); chrF: Popović (2015); TER: Snover et al. (2006); all as in sacreBLEU (Post 2018, "A Call
for Clarity in Reporting BLEU Scores"), with its signatures. Scores are on the 0–100 scale; of TER alone, less is
better, and it can pass 100.

Every score regards letter case, and has a twin that does not: ``chrf`` and ``chrf_lowercase``.
"""

import functools
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import final

import numpy as np
from numpy.typing import NDArray
from sacrebleu.metrics.base import Metric
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from pellucid.evaluate import meteor
from pellucid.evaluate.significance import (
    SentenceStatistics,
    mean_percentage,
    share_interval,
)

KINDS = ("bleu", "chrf", "ter", "meteor", "exact")
LOWERCASE = "_lowercase"
SCORES = tuple(kind + case for kind in KINDS for case in ("", LOWERCASE))
UNSPACED_SHARE = 0.3  # of the characters: above it, words are not told by spaces
CHINESE_SHARE = 0.9  # of those: below it, the text is not Chinese alone
_HAN = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U000323af"
_KANA = "\u3041-\u30ff\u31f0-\u31ff\uff66-\uff9f"
_THAI_LAO_BURMESE_KHMER = "\u0e00-\u0eff\u1000-\u109f\ua9e0-\ua9ff\uaa60-\uaa7f\u1780-\u17ff\u19e0-\u19ff"
_CHINESE = re.compile(f"[{_HAN}]")
_UNSPACED = re.compile(f"[{_HAN}{_KANA}{_THAI_LAO_BURMESE_KHMER}]")
_SPACE = re.compile(r"\s")


@final
@dataclass(frozen=True)
class Rules:
    """What the references decide about the scores, so that all systems are scored alike.

    Attributes:
        tokenizer: sacreBLEU's, of BLEU; METEOR has the same words.
        has_four: some reference has four of its tokens. Where none has, BLEU takes n-grams up to the longest that the
            output has (sacreBLEU's effective order); else a perfect output would score 0.
        stems: they are English, so that METEOR may match English stems.
    """

    tokenizer: str
    has_four: bool
    stems: bool

    def words(self, text: str) -> list[str]:
        """The tokens of a text, as BLEU has them."""
        return _words(self.tokenizer)(text)


def rules_for(references: Sequence[str]) -> Rules:
    """The rules under which outputs are scored against `references`."""
    tokenizer = bleu_tokenizer(references)
    split = _words(tokenizer)
    words = [split(reference) for reference in references]
    return Rules(tokenizer, any(len(line) > 3 for line in words), meteor.is_english(words))


def bleu_tokenizer(references: Sequence[str]) -> str:
    """sacreBLEU's tokenizer for the references: ``13a``, which splits at spaces and punctuation, where words have
    spaces between them; ``zh`` for Chinese; ``char``, each character a token, for Japanese, Thai, Lao, Burmese, Khmer.

    Over 0.3 of the characters without the blanks belong to scripts without spaces in the last two cases; over 0.9 of
    those are Han in the first of the two.
    """
    chinese = sum(len(_CHINESE.findall(reference)) for reference in references)
    unspaced = sum(len(_UNSPACED.findall(reference)) for reference in references)
    characters = sum(len(_SPACE.sub("", reference)) for reference in references)
    if unspaced <= UNSPACED_SHARE * characters:
        return "13a"
    return "zh" if chinese > CHINESE_SHARE * unspaced else "char"


def translation_statistics(hypotheses: Sequence[str], references: Sequence[str],
                           names: Sequence[str] = SCORES) -> dict[str, SentenceStatistics]:
    """Per-sentence statistics of scores, by the score's name.

    Args:
        hypotheses, references: n plain, detokenised lines each. Empty lines are scored, not skipped. METEOR gets the
            words of BLEU's tokenizer; `exact` ignores blanks at the ends of a line and nothing else.
        names: of `SCORES`.

    Raises:
        ValueError: if the counts differ or are zero.
    """
    if len(hypotheses) != len(references):
        raise ValueError(f"{len(hypotheses)} hypotheses but {len(references)} references: each needs its own")
    if len(hypotheses) == 0:
        raise ValueError("0 hypotheses and 0 references: there is nothing to score")
    rules, found = rules_for(references), dict[str, SentenceStatistics]()
    has_case = any(line != line.lower() for line in (*hypotheses, *references))
    for name in names:
        twin = found.get(name.removesuffix(LOWERCASE))
        found[name] = (_statistics(name, hypotheses, references, rules) if has_case or twin is None else
                       replace(twin, name=name))
    return found


def translation_signatures(references: Sequence[str], names: Sequence[str] = SCORES) -> dict[str, str]:
    """How each score against these references is computed: sacreBLEU's signatures and our own."""
    rules = rules_for(references)
    return {name: _signature(name, rules) for name in names}


def _statistics(name: str, hypotheses: Sequence[str], references: Sequence[str], rules: Rules) -> SentenceStatistics:
    kind, lowercase = name.removesuffix(LOWERCASE), name.endswith(LOWERCASE)
    if kind in ("meteor", "exact"):
        if lowercase:
            hypotheses, references = [a.lower() for a in hypotheses], [b.lower() for b in references]
        if kind == "exact":
            return _exact_statistics(name, hypotheses, references)
        words = rules.words
        return meteor.meteor_statistics(name, list(map(words, hypotheses)), list(map(words, references)), rules.stems)
    if kind == "ter" and rules.tokenizer == "char":
        hypotheses, references = ([" ".join(rules.words(line)) for line in side] for side in (hypotheses, references))
    metric = _METRICS[kind](rules, lowercase)
    # sacreBLEU's own table and formula: counts are whole numbers, so that summing them in float64 is exact.
    table = np.array(metric._extract_corpus_statistics(hypotheses, [references]), dtype=np.float64)
    if isinstance(metric, BLEU):
        return _bleu_statistics(name, table)

    def score(sums: NDArray[np.float64]) -> float:
        return float(metric._compute_score_from_stats(sums.tolist()).score)

    return SentenceStatistics(name, table, score, highest=math.inf if kind == "ter" else 100.0)


def _bleu_statistics(name: str, table: NDArray[np.float64]) -> SentenceStatistics:
    """sacreBLEU's columns, and the n-grams of four tokens in the references: where they come to none, in a resample
    or a group of sentences as in the corpus, the order is the effective one."""
    four = np.maximum(table[:, 1] - 3, 0)

    def score(sums: NDArray[np.float64]) -> float:
        counts = sums.tolist()
        found = BLEU.compute_bleu(counts[2:6], counts[6:10], int(counts[0]), int(counts[1]), smooth_method="exp",
                                  effective_order=counts[10] == 0)
        return float(found.score)

    return SentenceStatistics(name, np.column_stack([table, four]), score)


def _exact_statistics(name: str, hypotheses: Sequence[str], references: Sequence[str]) -> SentenceStatistics:
    """Percentage of lines equal to their reference: ``[n, 2]``, a 0 or 1 and a 1."""
    pairs = zip(hypotheses, references, strict=True)
    equal = [[float(hypothesis.strip() == reference.strip()), 1.0] for hypothesis, reference in pairs]
    return SentenceStatistics(name, np.array(equal), mean_percentage, share_interval)


def _signature(name: str, rules: Rules) -> str:
    kind, lowercase = name.removesuffix(LOWERCASE), name.endswith(LOWERCASE)
    if kind == "exact":
        return f"nrefs:1|case:{'lc' if lowercase else 'mixed'}|strip:ends"
    if kind == "meteor":
        return f"{meteor.signature(rules.stems, lowercase)}|tok:{rules.tokenizer}"
    metric = _METRICS[kind](rules, lowercase)
    metric.num_refs = 1  # sacreBLEU learns this from the data only, and there is always one
    split = "|split:char" if kind == "ter" and rules.tokenizer == "char" else ""
    return str(metric.get_signature().format()) + split


def _bleu(rules: Rules, lowercase: bool) -> Metric:
    """``force`` only silences a warning about text that looks tokenised."""
    return BLEU(tokenize=rules.tokenizer, lowercase=lowercase, effective_order=not rules.has_four, force=True)


def _chrf(rules: Rules, lowercase: bool) -> Metric:
    del rules
    return CHRF(lowercase=lowercase)


def _ter(rules: Rules, lowercase: bool) -> Metric:
    """TER splits Chinese, which it would take for one long word; of the other scripts without spaces it gets the
    characters."""
    chinese = rules.tokenizer == "zh"
    return TER(normalized=chinese, asian_support=chinese, case_sensitive=not lowercase)


_METRICS: dict[str, Callable[[Rules, bool], Metric]] = {"bleu": _bleu, "chrf": _chrf, "ter": _ter}


@functools.cache
def _words(tokenizer: str) -> Callable[[str], list[str]]:
    split = BLEU(tokenize=tokenizer).tokenizer
    return lambda text: list(split(text.rstrip()).split())
