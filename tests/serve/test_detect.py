"""Which language a text is in: known ones are found, shares are honest, and nothing raises. A server knows those it
translates from, and looks at long texts beside its loop."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.promises.tiny import SUBWORDS, tiny_classifier, tiny_run
from tests.serve.asgi import Server, serving

from pellucid.config import TokenizerConfig
from pellucid.data.tokenizers.build import train_tokenizers
from pellucid.data.tokenizers.interface import Tokenizer
from pellucid.serve.catalogue import Catalogue
from pellucid.serve.detect import Detector
from pellucid.serve.limits import Limits

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


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A classifier of German, and a translator."""
    runs = {"labels": tiny_classifier(1, {}), "run": tiny_run(1, {}, {}, SUBWORDS)}
    with serving(runs, [("de", ""), ("en", "fr")]) as server:
        yield server


@pytest.fixture
def looked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, str]]:
    """What was looked at, and on which thread. All of it is French, and need not be translated."""
    found: list[tuple[int, str]] = []

    def detect(self: Detector, text: str) -> list[tuple[str, int]]:
        found.append((threading.get_ident(), text))
        return [("fr", 90)]

    monkeypatch.setattr(Detector, "detect", detect)
    return found


@pytest.mark.parametrize(("texts", "is_long"), [(["the cat"], False), (["a" * 4500], True), (["a" * 900] * 5, True)],
                         ids=["short", "long", "many"])
@pytest.mark.parametrize("form", ["text", "html"])
def test_only_short_texts_are_looked_at_while_others_wait(texts: list[str], is_long: bool, form: str, server: Server,
                                                          looked: list[tuple[int, str]]) -> None:
    answer = server.post("/translate", {"q": texts, "source": "auto", "target": "fr", "format": form})
    assert answer.json == {"translatedText": texts,
                           "detectedLanguage": [{"confidence": 90, "language": "fr"}] * len(texts)}
    assert [text for _, text in looked] == texts
    assert {thread != threading.get_ident() for thread, _ in looked} == {is_long}


@pytest.mark.parametrize(("form", "read"), [("html", "the  cat"), ("text", "<p title='le'>the <code>un</code> cat")])
def test_of_html_only_what_is_to_be_translated_tells_its_language(form: str, read: str, server: Server,
                                                                  looked: list[tuple[int, str]]) -> None:
    asked = {"q": "<p title='le'>the <code>un</code> cat", "source": "auto", "target": "fr", "format": form}
    assert server.post("/translate", asked).status == 200
    assert [text.strip() for _, text in looked] == [read]


@pytest.mark.parametrize(("asked", "sentence"), [
    ({"format": "markdown"}, "markdown format is not supported"), ({"format": ["html"]}, "['html'] format is not"),
    ({"source": "fr", "target": "en"}, "English (en) is not available as a target language from French (fr)"),
    ({"source": ["en"]}, "missing source"), ({"target": ""}, "missing target"), ({"q": [["a"]]}, "q must be text")])
def test_what_cannot_be_translated_is_told_in_words_that_clients_know(asked: dict[str, Any], sentence: str,
                                                                      server: Server) -> None:
    answer = server.post("/translate", {"q": "a", "source": "en", "target": "fr"} | asked)
    assert (answer.status, sentence in answer.json["error"]) == (400, True)


def test_no_language_is_found_where_no_run_has_one() -> None:
    with serving({"run": tiny_run(1, {}, {}, SUBWORDS)}) as server:
        answer = server.post("/translate", {"q": "a", "source": "auto", "target": "fr"})
    assert (answer.status, answer.json) == (400, {"error": "auto is not supported: no run has languages"})


@pytest.mark.parametrize("target", ["de", "xx", "auto"])
def test_a_target_that_is_not_there_is_refused_before_anything_is_looked_at(target: str, server: Server,
                                                                            looked: list[tuple[int, str]]) -> None:
    answer = server.post("/translate", {"q": "the cat", "source": "auto", "target": target})
    assert (answer.status, answer.json) == (400, {"error": f"{target} is not supported"})
    assert looked == []


def test_what_a_classifier_reads_is_no_language_to_translate_from(server: Server) -> None:
    english: dict[str, Any] = {"code": "en", "name": "English"}
    assert server.service.catalogue.targets == {"en": ("fr",)}
    assert server.get("/languages").json == [{**english, "targets": ["fr"]}]
    assert server.get("/frontend/settings").json["language"] == {
        "source": english, "target": {"code": "fr", "name": "French"}}
    assert [one["language"] for one in server.post("/detect", {"q": "der Hund ist nicht hier"}).json] == ["en"]
    refused = server.post("/translate", {"q": "der Hund", "source": "de", "target": "fr"})
    assert (refused.status, refused.json) == (400, {"error": "de is not supported"})
    assert server.post("/v1/classify", {"text": "der Hund", "source": "de"}).json["run"] == "labels"


@pytest.mark.parametrize("alternatives", [2.7, True, "two", -1, 11])
def test_alternatives_are_a_whole_number_of_a_few(alternatives: Any, server: Server) -> None:
    asked = {"q": "the cat", "source": "en", "target": "fr", "alternatives": alternatives}
    answer = server.post("/translate", asked)
    assert (answer.status, "alternatives must be" in answer.json["error"]) == (400, True)


def test_where_no_limit_is_none_is_told() -> None:
    with serving({"run": tiny_run(1, {}, {}, SUBWORDS)}, [("en", "fr")], Limits(alternatives=0)) as free:
        answer = free.post("/translate", {"q": "the cat", "source": "en", "target": "fr", "alternatives": -1})
    assert answer.json == {"error": "Invalid request: alternatives must be 0 or more"}


@pytest.mark.parametrize("text", ["le chat", "le chat " * 600], ids=["short", "long"])
def test_runs_that_change_while_a_text_is_looked_at_change_nothing_of_its_answer(
        text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving({"run": tiny_run(1, {}, {}, SUBWORDS)}, [("en", "fr")]) as server:
        def detect(self: Detector, text: str) -> list[tuple[str, int]]:
            server.service.catalogue = Catalogue(())  # as a reload does, whose runs have other languages
            return [("fr", 90)]

        monkeypatch.setattr(Detector, "detect", detect)
        answer = server.post("/translate", {"q": text, "source": "auto", "target": "fr"})
    assert (answer.status, answer.json["translatedText"]) == (200, text)
