"""Translation scores equal sacreBLEU's to the last bit, on plain, empty, Chinese, Thai and random text."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sacrebleu.metrics.base import Metric
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from pellucid.evaluate import translation
from pellucid.evaluate.meteor import sentence_meteor
from pellucid.evaluate.significance import as_report, corpus_score, interval_of, of_sentences
from pellucid.evaluate.translation import (
    KINDS,
    SCORES,
    Rules,
    bleu_tokenizer,
    rules_for,
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
THAI_REFERENCES = ["ฉันไปกรุงเทพวันนี้", "เขาชอบอ่านหนังสือ", "อากาศดีมาก"]
THAI_HYPOTHESES = ["ฉันไปกรุงเทพพรุ่งนี้", "เขาชอบหนังสือ", "อากาศดี"]
LINES = st.lists(st.sampled_from("the The cat cats sat . , 中 猫 &quot; é 12,5 -".split()), max_size=12).map(" ".join)


def scores_of(hypotheses: list[str], references: list[str]) -> dict[str, Any]:
    return as_report(translation_statistics(hypotheses, references))


def sacrebleus(rules: Rules, lowercase: bool) -> dict[str, Metric]:
    """sacreBLEU's metrics, as the references ask for them."""
    chinese = rules.tokenizer == "zh"
    return {"bleu": BLEU(tokenize=rules.tokenizer, lowercase=lowercase, effective_order=not rules.has_four),
            "chrf": CHRF(lowercase=lowercase),
            "ter": TER(normalized=chinese, asian_support=chinese, case_sensitive=not lowercase)}


def test_every_score_is_sacrebleus() -> None:
    found = scores_of(HYPOTHESES, REFERENCES)
    for lowercase, suffix in ((False, ""), (True, "_lowercase")):
        for name, metric in sacrebleus(Rules("13a", True, True), lowercase).items():
            assert found[name + suffix] == metric.corpus_score(HYPOTHESES, [REFERENCES]).score
    assert found["exact"] == found["exact_lowercase"] == 25.0
    assert found["bleu_lowercase"] > found["bleu"] > 0


def test_every_score_regards_case_and_its_twin_does_not() -> None:
    upper, lower = ["The Cat Sat on the MAT today."] * 3, ["the cat sat on the mat today."] * 3
    found = scores_of(lower, upper)
    for kind in KINDS:
        full = 0 if kind == "ter" else pytest.approx(100, abs=0.2)
        assert found[kind] != full, kind
        assert found[kind + "_lowercase"] == full, kind


def test_chinese_is_split_into_characters_by_bleu_and_ter() -> None:
    found = scores_of(CHINESE_HYPOTHESES, CHINESE_REFERENCES)
    assert found["bleu"] == BLEU(tokenize="zh").corpus_score(CHINESE_HYPOTHESES, [CHINESE_REFERENCES]).score
    ter = TER(normalized=True, asian_support=True, case_sensitive=True)
    assert found["ter"] == ter.corpus_score(CHINESE_HYPOTHESES, [CHINESE_REFERENCES]).score
    assert found["ter"] < 50 < TER().corpus_score(CHINESE_HYPOTHESES, [CHINESE_REFERENCES]).score
    signatures = translation_signatures(CHINESE_REFERENCES)
    assert "tok:zh" in signatures["bleu"]
    assert "asian:yes" in signatures["ter"]
    assert found["meteor"] > 50


def test_text_without_spaces_is_split_into_characters() -> None:
    """Under 13a a line of Thai is one word, so that a translation that is nearly right gets nothing."""
    found = scores_of(THAI_HYPOTHESES, THAI_REFERENCES)
    assert found["bleu"] == BLEU(tokenize="char").corpus_score(THAI_HYPOTHESES, [THAI_REFERENCES]).score > 50
    assert found["ter"] < 50 < TER().corpus_score(THAI_HYPOTHESES, [THAI_REFERENCES]).score
    assert found["meteor"] > 50
    signatures = translation_signatures(THAI_REFERENCES)
    assert all("char" in signatures[name] for name in ("bleu", "ter", "meteor"))


def test_perfect_outputs_of_three_tokens_have_full_bleu() -> None:
    short = ["1 2 3", "4 5", "6"]
    found = scores_of(short, short)
    assert found["bleu"] == pytest.approx(100)
    assert found["interval"]["bleu"][1] == pytest.approx(100)
    assert "eff:yes" in translation_signatures(short)["bleu"]
    metric = BLEU(effective_order=True)
    wrong = ["1 2 4", "4 5", "7"]
    assert scores_of(wrong, short)["bleu"] == metric.corpus_score(wrong, [short]).score


def test_the_order_is_the_effective_one_only_where_the_references_have_no_four_tokens() -> None:
    references, outputs = ["a b c d", "f g", "h i j"], ["a b c", "f g", "h i k"]
    assert "eff:no" in translation_signatures(references)["bleu"]
    metric = translation_statistics(outputs, references)["bleu"]
    assert corpus_score(metric) == 0 == BLEU().corpus_score(outputs, [references]).score
    short = of_sentences(metric, np.array([False, True, True]))  # as of a length: its sentences alone decide
    assert corpus_score(short) == BLEU(effective_order=True).corpus_score(outputs[1:], [references[1:]]).score > 0
    perfect = scores_of(references * 2, references * 2)
    assert perfect["interval"]["bleu"][1] == pytest.approx(100)


@given(st.lists(st.tuples(LINES, LINES), min_size=1, max_size=6))
@settings(max_examples=60, deadline=None)
def test_random_lines_score_as_in_sacrebleu(pairs: list[tuple[str, str]]) -> None:
    hypotheses, references = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    found = scores_of(hypotheses, references)
    for lowercase, suffix in ((False, ""), (True, "_lowercase")):
        for name, metric in sacrebleus(rules_for(references), lowercase).items():
            assert found[name + suffix] == metric.corpus_score(hypotheses, [references]).score


def test_equal_lines_score_full_marks() -> None:
    found = scores_of(REFERENCES, REFERENCES)
    assert found["bleu"] == pytest.approx(100)
    assert [found[name] for name in ("chrf", "ter", "exact")] == [100.0, 0.0, 100.0]


def test_empty_hypotheses_score_nothing() -> None:
    found = scores_of(["", "", "", ""], REFERENCES)
    assert [found[kind] for kind in KINDS] == [0.0, 0.0, 100.0, 0.0, 0.0]


def test_meteor_is_the_mean_over_bleus_words() -> None:
    found = scores_of(["The cats, asleep with the dog."], ["the cat, awake with the dog."])
    words = "The cats , asleep with the dog .".split(), "the cat , awake with the dog .".split()
    assert found["meteor"] == 100 * sentence_meteor(*words, stems=True)
    assert found["meteor_lowercase"] == 100 * sentence_meteor(["the", *words[0][1:]], words[1], stems=True)


def test_meteor_has_english_stems_for_english_alone() -> None:
    """English stems of German match what is no match: Rates (of the council) and Rate (instalment)."""
    found = scores_of(["Die Höhe des Rates ist bekannt"], ["Die Höhe der Rate ist bekannt"])
    words = "Die Höhe des Rates ist bekannt".split(), "Die Höhe der Rate ist bekannt".split()
    assert found["meteor"] == 100 * sentence_meteor(*words, stems=False)
    assert found["meteor"] < 100 * sentence_meteor(*words, stems=True)
    german = translation_signatures(["Die Höhe der Rate ist bekannt"])["meteor"]
    assert german.startswith("METEOR(exact)|nrefs:1|case:mixed|")
    assert "stem:no|tok:13a" in german
    assert translation_signatures(REFERENCES)["meteor"].startswith("METEOR(exact+stem)|")


def test_exact_ignores_blanks_at_the_ends_only() -> None:
    found = scores_of([" a b\n", "a  b", "A b"], ["a b"] * 3)
    assert found["exact"] == pytest.approx(100 / 3)
    assert found["exact_lowercase"] == pytest.approx(200 / 3)


def test_every_score_has_an_interval_a_signature_and_statistics() -> None:
    statistics, found = translation_statistics(HYPOTHESES, REFERENCES), scores_of(HYPOTHESES, REFERENCES)
    assert tuple(statistics) == tuple(found["interval"]) == tuple(translation_signatures(REFERENCES)) == SCORES
    assert all(metric.name == name for name, metric in statistics.items())
    assert all(low <= high for low, high in found["interval"].values())
    assert found == scores_of(HYPOTHESES, REFERENCES)
    assert tuple(translation_statistics(HYPOTHESES, REFERENCES, ("exact", "bleu"))) == ("exact", "bleu")


def test_signatures_are_sacrebleus_and_say_the_case() -> None:
    signatures = translation_signatures(REFERENCES)
    for lowercase, suffix in ((False, ""), (True, "_lowercase")):
        for name, metric in sacrebleus(rules_for(REFERENCES), lowercase).items():
            metric.corpus_score(HYPOTHESES, [REFERENCES])
            assert signatures[name + suffix] == metric.get_signature().format()
        case = "lc" if lowercase else "mixed"
        assert all(f"|case:{case}|" in signatures[kind + suffix] for kind in KINDS)
    assert signatures["bleu"].startswith("nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:")


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
        (["今日は東京へ行きます。"], "char"),
        (["今天的天気の很好我们去北京"], "zh"),
        (["ฉันไปกรุงเทพวันนี้"], "char"),
        (["ຂ້ອຍໄປວຽງຈັນ"], "char"),
        (["ខ្ញុំទៅភ្នំពេញ"], "char"),
        (["ကျွန်တော် ရန်ကုန်သွားတယ်"], "char"),
    ],
)
def test_bleu_tokenizer_by_script(references: list[str], expected: str) -> None:
    assert bleu_tokenizer(references) == expected


def test_counts_must_agree_and_not_be_zero() -> None:
    with pytest.raises(ValueError, match="2 hypotheses but 1 references"):
        scores_of(["a", "b"], ["a"])
    with pytest.raises(ValueError, match="nothing to score"):
        scores_of([], [])


def test_a_thousand_resamples_of_a_thousand_sentences_take_under_three_seconds() -> None:
    statistics = translation_statistics(HYPOTHESES * 250, REFERENCES * 250)
    start = time.perf_counter()
    for metric in statistics.values():
        interval_of(metric)
    assert time.perf_counter() - start < 3


@pytest.mark.parametrize("lines", [["7 1 8", "2 8 1 8"], ["今天 天气", "很 好"], ["straße zum see", "ein ǆ"],
                                   ["Ein See", "am See"]])
def test_a_twin_that_need_not_be_computed_is_what_it_would_be(lines: list[str]) -> None:
    hypotheses = [lines[0], lines[0]]
    found = translation_statistics(hypotheses, lines)
    for name in SCORES:
        alone = translation_statistics(hypotheses, lines, [name])[name]
        assert np.array_equal(found[name].statistics, alone.statistics)
        assert found[name].name == alone.name == name
        assert corpus_score(found[name]) == corpus_score(alone)


def test_text_without_case_is_scored_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """TER of long lines takes longer than all else."""
    computed = list[str]()
    once = translation._statistics
    monkeypatch.setattr(translation, "_statistics", lambda name, *more: computed.append(name) or once(name, *more))
    translation_statistics(["7 1"], ["7 2"])
    assert computed == list(KINDS)
