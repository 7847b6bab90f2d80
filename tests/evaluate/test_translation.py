"""Translation scores equal sacreBLEU's to the last bit, on plain, empty, Chinese and random text."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from pellucid.evaluate.meteor import sentence_meteor
from pellucid.evaluate.significance import bootstrap_interval
from pellucid.evaluate.translation import (
    bleu_tokenizer,
    translation_scores,
    translation_signatures,
    translation_statistics,
)

REFERENCES = [
    "The cat sat on the mat, and then it slept.",
    "Two young men are outside near many bushes.",
    "A dog runs through the snow.",
    "Das ist, wie ich finde, ein gutes Beispiel!",
]
HYPOTHESES = [
    "the cat sat on a mat and it slept.",
    "Two young men are outside near many bushes.",
    "",
    "Das ist, finde ich, ein Beispiel!",
]
CHINESE_REFERENCES = ["我们今天去北京。", "他喜欢读书和写字。", "天气很好 (OK)"]
CHINESE_HYPOTHESES = ["我们明天去北京。", "他喜欢写字。", "天气好 (ok)"]
SCORES = ("bleu", "bleu_lowercase", "chrf", "ter", "meteor", "exact")
LINES = st.lists(st.sampled_from("the The cat cats sat . , 中 猫 &quot; é 12,5 -".split()), max_size=12).map(" ".join)


def test_every_score_is_sacrebleus() -> None:
    scores = translation_scores(HYPOTHESES, REFERENCES, resamples=50)
    assert scores.bleu == BLEU().corpus_score(HYPOTHESES, [REFERENCES]).score
    assert scores.bleu_lowercase == BLEU(lowercase=True).corpus_score(HYPOTHESES, [REFERENCES]).score
    assert scores.chrf == CHRF().corpus_score(HYPOTHESES, [REFERENCES]).score
    assert scores.ter == TER().corpus_score(HYPOTHESES, [REFERENCES]).score
    assert scores.exact == 25.0
    assert scores.bleu_lowercase > scores.bleu > 0


def test_chinese_is_split_into_characters_by_bleu_and_ter() -> None:
    scores = translation_scores(CHINESE_HYPOTHESES, CHINESE_REFERENCES, resamples=50)
    assert scores.bleu == BLEU(tokenize="zh").corpus_score(CHINESE_HYPOTHESES, [CHINESE_REFERENCES]).score
    ter = TER(normalized=True, asian_support=True)
    assert scores.ter == ter.corpus_score(CHINESE_HYPOTHESES, [CHINESE_REFERENCES]).score
    assert scores.ter < 50 < TER().corpus_score(CHINESE_HYPOTHESES, [CHINESE_REFERENCES]).score
    assert "tok:zh" in scores.signature
    assert "asian:yes" in scores.signatures["ter"]
    assert scores.meteor > 50


@given(st.lists(st.tuples(LINES, LINES), min_size=1, max_size=6))
@settings(max_examples=60, deadline=None)
def test_random_lines_score_as_in_sacrebleu(pairs: list[tuple[str, str]]) -> None:
    hypotheses, references = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    scores = translation_scores(hypotheses, references, resamples=3)
    tokenizer = bleu_tokenizer(references)
    assert scores.bleu == BLEU(tokenize=tokenizer).corpus_score(hypotheses, [references]).score
    lowercase = BLEU(tokenize=tokenizer, lowercase=True)
    assert scores.bleu_lowercase == lowercase.corpus_score(hypotheses, [references]).score
    assert scores.chrf == CHRF().corpus_score(hypotheses, [references]).score
    chinese = tokenizer == "zh"
    ter = TER(normalized=chinese, asian_support=chinese)
    assert scores.ter == ter.corpus_score(hypotheses, [references]).score


def test_equal_lines_score_full_marks() -> None:
    scores = translation_scores(REFERENCES, REFERENCES, resamples=20)
    assert scores.bleu == pytest.approx(100)
    assert (scores.chrf, scores.ter, scores.exact) == (100.0, 0.0, 100.0)
    assert scores.interval["exact"] == (100.0, 100.0)


def test_empty_hypotheses_score_nothing() -> None:
    scores = translation_scores(["", "", "", ""], REFERENCES, resamples=20)
    assert (scores.bleu, scores.chrf, scores.ter, scores.meteor, scores.exact) == (0.0, 0.0, 100.0, 0.0, 0.0)


def test_meteor_is_the_mean_over_bleus_words() -> None:
    scores = translation_scores(["The cats, asleep."], ["the cat, awake."], resamples=5)
    assert scores.meteor == 100 * sentence_meteor("The cats , asleep .".split(), "the cat , awake .".split())


def test_exact_ignores_blanks_at_the_ends_only() -> None:
    assert translation_scores([" a b\n", "a  b", "A b"], ["a b"] * 3, resamples=5).exact == pytest.approx(100 / 3)


def test_every_score_has_an_interval_a_signature_and_statistics() -> None:
    scores = translation_scores(HYPOTHESES, REFERENCES, resamples=50, seed=7)
    assert tuple(scores.interval) == tuple(scores.signatures) == tuple(scores.statistics) == SCORES
    for name, metric in scores.statistics.items():
        low, high = scores.interval[name]
        assert low <= high
        assert scores.interval[name] == bootstrap_interval(metric, 50, 7)
    assert scores == translation_scores(HYPOTHESES, REFERENCES, resamples=50, seed=7)


def test_signatures_are_sacrebleus() -> None:
    metrics = {"bleu": BLEU(), "bleu_lowercase": BLEU(lowercase=True), "chrf": CHRF(), "ter": TER()}
    signatures = translation_signatures("13a")
    for name, metric in metrics.items():
        metric.corpus_score(HYPOTHESES, [REFERENCES])
        assert signatures[name] == metric.get_signature().format()
    assert signatures["bleu"].startswith("nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:")
    assert signatures["meteor"].startswith("METEOR(exact+stem)|")


@pytest.mark.parametrize(
    ("references", "expected"),
    [
        (["A cat.", "Ein Käse"], "13a"),
        (["我们今天去北京。"], "zh"),
        (["abcdefg 中文字"], "13a"),  # 3 of 10: not over 0.3
        (["abcdef 中文字"], "zh"),
        (["", "  "], "13a"),
        (["한국어 문장입니다"], "13a"),
        (["𠀀𠀁"], "zh"),
    ],
)
def test_bleu_tokenizer_by_the_share_of_chinese(references: list[str], expected: str) -> None:
    assert bleu_tokenizer(references) == expected


def test_counts_must_agree_and_not_be_zero() -> None:
    with pytest.raises(ValueError, match="2 hypotheses but 1 references"):
        translation_scores(["a", "b"], ["a"])
    with pytest.raises(ValueError, match="nothing to score"):
        translation_scores([], [])


def test_a_thousand_resamples_of_a_thousand_sentences_take_under_three_seconds() -> None:
    statistics = translation_statistics(HYPOTHESES * 250, REFERENCES * 250)
    start = time.perf_counter()
    for metric in statistics.values():
        bootstrap_interval(metric, resamples=1000)
    assert time.perf_counter() - start < 3
