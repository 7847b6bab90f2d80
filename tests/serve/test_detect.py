"""Which language a text is in: known ones are found, shares are honest, and nothing raises."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pellucid.config import TokenizerConfig
from pellucid.data.tokenizers.build import train_tokenizers
from pellucid.data.tokenizers.interface import Tokenizer
from pellucid.serve.detect import Detector

PAIRS = [
    ("the cat sleeps in the house and the dog runs", "le chat dort dans la maison et le chien court"),
    ("a man is riding a bike", "un homme fait du vélo"), ("she is not here , it was for you", "elle n'est pas ici")]


def tokenizers(kind: str, shared: bool) -> dict[str, Tokenizer]:
    config = TokenizerConfig(kind=kind, shared=shared, vocab_size=60)  # type: ignore[arg-type]
    made = train_tokenizers(config, PAIRS, "seq2seq")
    return {"en": made.source, "fr": made.target}


@pytest.fixture(scope="module", params=[("word", False), ("sentencepiece", True), ("character", True)], ids=str)
def detector(request: pytest.FixtureRequest) -> Detector:
    return Detector(tokenizers(*request.param))


@settings(max_examples=150, deadline=None)
@given(text=st.one_of(st.text(st.characters(blacklist_categories=("Cs",)), max_size=80),
                      st.text("the cat is le chat ,.", max_size=80)))
def test_confidences_are_shares_best_first(detector: Detector, text: str) -> None:
    found = detector.detect(text)
    assert {code for code, _ in found} == {"en", "fr"}
    sure = [confidence for _, confidence in found]
    assert sure == sorted(sure, reverse=True)
    assert all(isinstance(confidence, int) and confidence >= 0 for confidence in sure)
    assert sum(sure) <= 100
    assert found == detector.detect(text)


@pytest.mark.parametrize(("text", "language"), [
    ("the cat sleeps in the house and the dog runs", "en"), ("le chat dort dans la maison et le chien court", "fr"),
    ("it was not here", "en"), ("un homme dans la maison", "fr")])
def test_sides_are_told_apart_even_by_one_vocabulary_for_both(detector: Detector, text: str, language: str) -> None:
    (best, sure), (_, other) = detector.detect(text)
    assert best == language
    assert sure > 2 * other


@pytest.mark.parametrize(("text", "language"), [("don't run", "en"), ("c'était", "fr"), ("i", "en"), ("vélos", "fr")])
def test_letters_and_common_words_tell_one_vocabulary_apart(text: str, language: str) -> None:
    (best, sure), (_, other) = Detector(tokenizers("character", True)).detect(text)
    assert best == language
    assert sure > other


@pytest.mark.parametrize("text", ["", " \n", "12 345 !?", "我很好。你呢？", "Привет, как дела?", "नमस्ते दुनिया"])
def test_of_what_is_in_none_of_them_nothing_is_sure(detector: Detector, text: str) -> None:
    assert all(sure <= 15 for _, sure in detector.detect(text))


def test_scripts_tell_apart_what_one_vocabulary_holds_both_of() -> None:
    pairs = [("the cat sleeps and runs", "猫在家里睡觉。狗在跑。"), ("a dog is here", "我很好，你呢？")]
    made = train_tokenizers(TokenizerConfig(kind="character", vocab_size=80), pairs, "seq2seq").source
    detector = Detector({"en": made, "zh-Hans": made})
    assert detector.detect("狗在家里睡觉。")[0][0] == "zh-Hans"
    assert detector.detect("a cat is here")[0][0] == "en"


def test_a_language_that_nothing_is_known_of_is_told_by_its_tokenizer() -> None:
    made = tokenizers("word", False)
    detector = Detector({"x-one": made["en"], "x-two": made["fr"]})
    assert detector.detect("the cat sleeps")[0][0] == "x-one"
    assert detector.detect("le chat dort")[0][0] == "x-two"
    assert Detector({}).detect("the cat") == []
