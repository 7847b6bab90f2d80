"""What our own API answers is what a run says of the same; what it is not asked for rightly is named."""

from __future__ import annotations

import asyncio
import json
import math
import threading
from collections.abc import Iterator
from dataclasses import asdict, replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from tests.promises.tiny import SUBWORDS, tiny_classifier, tiny_run
from tests.serve.asgi import Server, call, serving

from pellucid.errors import ConfigError
from pellucid.runs.run import Run
from pellucid.serve import native, translate
from pellucid.serve.alignment import CrossAttention
from pellucid.serve.answered import as_json
from pellucid.serve.catalogue import Catalogue, Served, _pair
from pellucid.serve.keys import Keys
from pellucid.serve.limits import Limits
from pellucid.serve.native import choose
from pellucid.serve.scheduler import Scheduler
from pellucid.serve.tasks import Task

TEXTS = ["the cat sleeps .", "it sleeps , a cat", "", "猫在睡觉", "the cat", "une élève lit déjà"]


@pytest.fixture(scope="module")
def run() -> Run:
    return tiny_run(1, {}, {}, SUBWORDS)


@pytest.fixture(scope="module")
def classifier() -> Run:
    return tiny_classifier(1, {})


@pytest.fixture(scope="module")
def server(run: Run, classifier: Run) -> Iterator[Server]:
    runs = {"run": run, "other": tiny_run(2, {}, {}, SUBWORDS), "labels": classifier}
    limits = Limits(requests_per_minute=0, characters=200, texts=8)
    with serving(runs, [("en", "fr"), ("fr", "pt-BR"), ("", "")], limits) as server:
        yield server


def as_told(value: Any) -> Any:
    """As JSON tells it."""
    return json.loads(json.dumps(value))


@pytest.mark.parametrize("options", [
    {}, {"beam_size": 1}, {"beam_size": 3, "n_best": 3, "length_penalty": 1.5}, {"max_length": 5, "min_length": 2},
    {"sample": True, "seed": 7, "temperature": 0.8, "top_k": 9, "n_best": 2}, {"no_repeat_ngram": 2}])
@pytest.mark.parametrize("prefixes", [None, ["le", "", "", "一", "the c", ""]])
def test_a_translation_is_that_of_the_run(options: dict[str, Any], prefixes: list[str] | None, run: Run,
                                          server: Server) -> None:
    asked = {"run": "run", "text": TEXTS, "options": options} | ({} if prefixes is None else {"prefix": prefixes})
    answer = server.post("/v1/translate", asked)
    assert answer.status == 200, answer.body
    found = run.generate(TEXTS, options=replace(run.config.decode, **options), prefixes=prefixes)
    assert answer.json["run"] == "run"
    assert [one["text"] for one in answer.json["translations"]] == [one.text for one in found]
    for told, one in zip(answer.json["translations"], found, strict=True):
        for hypothesis, each in zip(told["hypotheses"], one.hypotheses, strict=True):
            assert (hypothesis["text"], tuple(hypothesis["tokens"])) == (each.text, each.tokens)
            assert hypothesis["log_probability"] == pytest.approx(each.log_probability, abs=1e-4)  # of other batches
            assert hypothesis["score"] == pytest.approx(each.score, abs=1e-4)
        assert {key: told[key] for key in ("text", "tokens", "score", "log_probability", "finished")} == told[
            "hypotheses"][0]
        assert (told["cut"], tuple(told["unknown"]), tuple(told["unknown_target"])) == (
            one.cut, one.unknown, one.unknown_target)


def test_one_text_is_a_list_of_one(run: Run, server: Server) -> None:
    one, many = (server.post("/v1/translate", {"run": "run", "text": text, "prefix": prefix}).json
                 for text, prefix in (("the cat", "le"), (["the cat"], ["le"])))
    assert one == many
    assert one["translations"][0]["text"].startswith("le")


def test_words_are_aligned_where_that_is_asked_for(run: Run, server: Server) -> None:
    answer = server.post("/v1/translate", {"run": "run", "text": TEXTS, "alignments": True}).json
    pairs = [(text, one["text"]) for text, one in zip(TEXTS, answer["translations"], strict=True)]
    assert [one["alignments"] for one in answer["translations"]] == as_told(CrossAttention(run)(pairs))
    assert server.post("/v1/translate", {"run": "run", "text": "the"}).json["translations"][0]["alignments"] is None


def test_a_score_is_that_of_the_run(run: Run, server: Server) -> None:
    sources, targets = TEXTS[:5], ["le chat dort .", "", "猫", "x", "the cat sleeps ."]
    answer = server.post("/v1/score", {"run": "run", "source": sources, "target": targets}).json
    found = run.score(sources, targets)
    assert [one["token_log_probabilities"] for one in answer["scores"]] == [
        pytest.approx(one.token_log_probabilities, abs=1e-5) for one in found]
    assert [one["log_probability"] for one in answer["scores"]] == [
        pytest.approx(one.log_probability, abs=1e-5) for one in found]
    assert [tuple(one["tokens"]) for one in answer["scores"]] == [one.tokens for one in found]
    assert [tuple(one["unknown_target"]) for one in answer["scores"]] == [one.unknown_target for one in found]


def test_labels_are_those_of_the_run_however_many_are_asked_for_at_once(classifier: Run, server: Server) -> None:
    texts = [" ".join(TEXTS[number % 6] for number in range(n)) for n in range(8)]
    answer = server.post("/v1/classify", {"run": "labels", "text": texts}).json
    found = [classifier.classify([text])[0] for text in texts]
    assert [one["label"] for one in answer["classifications"]] == [one.label for one in found]
    for told, one in zip(answer["classifications"], found, strict=True):
        assert told["probabilities"] == pytest.approx(one.probabilities, abs=1e-6)
        assert (told["cut"], tuple(told["unknown"])) == (one.cut, one.unknown)


def test_runs_say_what_they_are(run: Run, classifier: Run, server: Server) -> None:
    first, second, last = server.get("/v1/runs").json["runs"]
    assert first == {"name": "run", "task": "seq2seq", "source_language": "en", "target_language": "fr", "labels": None,
                     "n_heads": 2, "encoder_layers": 2, "decoder_layers": 2, "decode": asdict(run.config.decode)}
    assert (second["source_language"], second["target_language"]) == ("fr", "pt-BR")
    assert last["labels"] == list(classifier.tokenizers.labels)
    assert (last["task"], last["decoder_layers"], last["source_language"]) == ("classification", 0, None)


@pytest.mark.parametrize(("asked", "name"), [
    ({"run": "other"}, "other"), ({"source": "en"}, "run"), ({"source": "FR", "target": "pb"}, "other"),
    ({"target": "pt-br"}, "other")])
def test_a_run_is_asked_by_its_name_or_by_its_languages(asked: dict[str, str], name: str, server: Server) -> None:
    assert server.post("/v1/translate", {"text": "the cat"} | asked).json["run"] == name


def test_what_a_run_says_of_itself_can_be_given_back(server: Server) -> None:
    own = server.get("/v1/runs").json["runs"][0]["decode"]
    asked = [server.post("/v1/translate", {"run": "run", "text": "the cat"} | more)
             for more in ({}, {"options": own})]
    assert asked[0].json == asked[1].json


@pytest.mark.parametrize(("path", "asked", "sentence"), [
    ("translate", {}, "text is missing"),
    ("translate", {"text": "a", "optons": {}}, "unknown key optons: did you mean options?"),
    ("translate", {"text": 5}, "text must be text or a list, not 5 (int)"),
    ("translate", {"text": ["a", None]}, "text[1] must be text, not None (NoneType)"),
    ("translate", {"text": []}, "text is an empty list"),
    ("translate", {"text": ["a"] * 9}, "9 texts in text, and at most 8 are answered"),
    ("translate", {"text": "a" * 201}, "text has 201 characters, and at most 200 are answered"),
    ("translate", {"text": "a", "prefix": "a" * 201}, "prefix has 201 characters, and at most 200 are answered"),
    ("translate", {"text": ["a"], "prefix": "b"}, "prefix must be a text for a text, or a list of as many: text has 1"),
    ("translate", {"text": "a", "run": "rum"}, "there is no run 'rum': there are run, other, labels"),
    ("translate", {"text": "a", "run": "run", "source": "en"}, "give run, or source and target"),
    ("translate", {"text": "a", "run": "run", "target": "fr"}, "give run, or source and target"),
    ("translate", {"text": "a"}, "run is missing: there are run, other, labels"),
    ("translate", {"text": "a", "source": "en", "target": "de"}, "there is no run from en to de"),
    ("translate", {"text": "a", "run": "labels"}, "this run cannot generate"),
    ("translate", {"text": ["a"], "run": "run", "stream": True}, "stream is for one text"),
    ("score", {"source": "a"}, "target is missing"),
    ("score", {"source": "a", "target": ["a"]}, "target must be a text for a text"),
    ("score", {"source": ["a"] * 2, "target": ["a"]}, "or a list of as many: source has 2"),
    ("score", {"source": "a", "target": "a", "run": "labels"}, "this run cannot score"),
    ("classify", {"text": "a", "run": "run"}, "this run cannot classify"),
    ("classify", [1], "the body is no JSON object")])
def test_what_is_asked_wrongly_is_named(path: str, asked: Any, sentence: str, server: Server) -> None:
    answer = server.post(f"/v1/{path}", asked)
    assert answer.status == 400
    assert sentence in answer.json["error"]


@pytest.mark.parametrize(("options", "sentence"), [
    ({"beam_sze": 4}, "unknown key options.beam_sze: did you mean"),
    ({"beam_size": 33}, "choose at least 1 and at most 32"),
    ({"beam_size": True}, "options.beam_size must be a whole number, not True"),
    ({"n_best": 33}, "options.n_best is 33, out of range"),
    ({"max_length": 1025}, "choose at least 1 and at most 1024"),
    ({"temperature": 0.5}, "options.temperature has no effect: options.sample"),
    ({"sample": True, "temperature": 0}, "choose above 0 and at most 100"),
    ({"min_length": 12}, "options: min_length must be less than max_length"),
    ({"split_sentences": True, "n_best": 2}, "has one output")])
def test_options_are_within_bounds_and_have_an_effect(options: dict[str, Any], sentence: str, server: Server) -> None:
    answer = server.post("/v1/translate", {"run": "run", "text": "a", "options": options})
    assert answer.status == 400
    assert sentence in answer.json["error"]


def test_nobody_asks_without_a_key_where_one_is_needed(run: Run) -> None:
    asked = {"text": "the cat"}
    with serving({"run": run}, keys=Keys(["abc"])) as server:
        for path in ("translate", "score", "classify", "trace", "attention", "contributions"):
            assert server.post(f"/v1/{path}", asked).status == 400
            assert server.post(f"/v1/{path}", asked | {"api_key": "abd"}).status == 403
        known = [server.post("/v1/translate", asked | {"api_key": "abc"}),
                 server.post("/v1/translate", asked, {"x-api-key": "abc"}),
                 server.post("/v1/translate", asked, {"authorization": "Bearer abc"})]
    assert [one.status for one in known] == [200] * 3


def test_learned_positions_end_where_they_end() -> None:
    with serving({"run": tiny_run(1, {"position": "learned", "max_length": 24}, {}, SUBWORDS)}) as server:
        last, behind = (server.post("/v1/translate", {"text": "the cat", "options": {"max_length": length}})
                        for length in (24, 25))
    assert (last.status, behind.status) == (200, 400)
    assert "options.max_length is 25, out of range: choose at least 1 and at most 24" in behind.json["error"]


def test_a_target_that_takes_too_long_to_score_is_refused(run: Run) -> None:
    with serving({"run": run}) as server:
        answer = server.post("/v1/score", {"source": "a", "target": "猫 " * 1500})
    assert answer.status == 400
    assert "at most 1024 are scored" in answer.json["error"]


@pytest.mark.parametrize(("most", "expected"), [(0, 200), (-1, 400)])
def test_the_end_of_a_target_is_one_of_its_tokens(most: int, expected: int, run: Run,
                                                  monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "_MOST_TOKENS", len(run.tokenizers.target.encode("le chat")) + 1 + most)
    with serving({"run": run}) as server:
        assert server.post("/v1/score", {"source": "a", "target": "le chat"}).status == expected


def test_a_key_is_text(server: Server) -> None:
    answer = server.post("/v1/translate", {"text": "the cat", "run": "run", "api_key": 1})
    assert (answer.status, answer.json) == (400, {"error": "Invalid request: api_key must be text"})


def test_who_asks_for_languages_gets_a_run_of_the_task_before_others() -> None:
    def served(name: str, task: str) -> Any:
        return Served(name, cast(Any, SimpleNamespace(config=SimpleNamespace(task=task))), "en", "fr")

    catalogue = Catalogue((served("reader", "reading"), served("kinds", "classification"), served("words", "seq2seq")))
    service = cast(Any, SimpleNamespace(catalogue=catalogue))
    assert [one.name for one in catalogue.translators] == ["words"]
    assert choose(service, None, "en").name == "words"
    assert choose(service, None, "en", None, "classification").name == "kinds"
    only = cast(Any, SimpleNamespace(catalogue=Catalogue((served("kinds", "classification"),))))
    assert choose(only, None, "en").name == "kinds"  # which says what it can do


def test_the_languages_of_a_pair_are_two() -> None:
    assert _pair("zh-Hans:en") == ("zh-Hans", "en")
    for pair in ("en-en", "en-EN", "zh-Hans:zh-hans"):
        with pytest.raises(ConfigError, match="both languages of a pair are the same"):
            _pair(pair)


@pytest.mark.parametrize(("path", "asked"), [
    ("/translate", {"q": "the <b>cat</b> sleeps", "source": "en", "target": "fr", "format": "html"}),
    ("/v1/translate", {"run": "run", "text": "the cat", "alignments": True})])
def test_all_that_an_answer_takes_has_one_deadline(path: str, asked: dict[str, Any], server: Server,
                                                   monkeypatch: pytest.MonkeyPatch) -> None:
    deadlines: list[float] = []
    enter = Scheduler._enter

    async def noted(scheduler: Scheduler, task: Task, deadline: float, *more: Any) -> Any:
        deadlines.append(deadline)
        return await enter(scheduler, task, deadline, *more)

    monkeypatch.setattr(Scheduler, "_enter", noted)
    assert server.post(path, asked).status == 200
    assert len(deadlines) == 2
    assert len(set(deadlines)) == 1


@pytest.mark.parametrize(("path", "asked"), [
    ("/translate", {"q": "the <b>cat</b> sleeps", "source": "en", "target": "fr", "format": "html"}),
    ("/v1/translate", {"run": "run", "text": "the cat", "alignments": True}),
    ("/v1/score", {"run": "run", "source": ["the cat"] * 2, "target": ["le chat"] * 2})])
def test_a_request_that_has_begun_is_not_refused_for_those_behind_it(path: str, asked: dict[str, Any], server: Server,
                                                                     monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "_TOGETHER", 20)
    monkeypatch.setattr(server.service.scheduler, "most_seconds", 5.0)  # it is put back
    enter, entered = Scheduler._enter, list[Task]()

    async def noted(scheduler: Scheduler, task: Task, *more: Any) -> Any:
        entered.append(task)
        found = await enter(scheduler, task, *more)
        scheduler.most_seconds = -1.0  # as if much had come meanwhile
        return found

    monkeypatch.setattr(Scheduler, "_enter", noted)
    answer = server.post(path, asked)
    assert (answer.status, len(entered)) == (200, 2), answer.body
    assert server.post(path, asked).status == 429


def test_long_texts_are_put_together_while_others_are_answered(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    threads, put = list[threading.Thread](), translate._together

    def noted(*given: Any) -> translate.Translated:
        threads.append(threading.current_thread())
        return put(*given)

    monkeypatch.setattr(translate, "_together", noted)
    with serving({"run": run}, [("en", "fr")]) as server:
        for text in ("the cat", "\n" * 4000 + "the cat"):
            assert server.post("/translate", {"q": text, "source": "en", "target": "fr"}).status == 200
    assert [one is threading.main_thread() for one in threads] == [True, False]


@pytest.mark.parametrize("stream", [False, True])
def test_a_fault_of_ours_is_not_told_as_one_of_who_asks(stream: bool, run: Run, monkeypatch: pytest.MonkeyPatch,
                                                        caplog: pytest.LogCaptureFixture) -> None:
    def fail(*given: Any, **more: Any) -> Any:
        raise ValueError("shapes (3,) and (4,)")

    monkeypatch.setattr(Run, "generate", fail)
    monkeypatch.setattr("pellucid.runs.stream.stream", fail)
    sent = list[Any]()

    async def ask(app: ASGIApp) -> None:
        async def noted(scope: Scope, receive: Receive, send: Send) -> None:
            async def both(message: Message) -> None:
                sent.append(message)
                await send(message)

            await app(scope, receive, both)

        with pytest.raises(ValueError, match="shapes"):  # for who runs the server
            await call(noted, "/v1/translate", json.dumps({"text": "the cat", "stream": stream}).encode())

    with serving({"run": run}) as server:
        asyncio.run(ask(server.app))
    assert sent[0]["status"] == 500
    assert json.loads(sent[1]["body"]) == {"error": "The server has failed to answer; its log says more"}
    assert "'/v1/translate' failed" in caplog.text


def test_a_number_that_json_does_not_have_is_null() -> None:
    """Other parsers refuse all of an answer that has one."""
    answer = {"text": "é", "scores": (-1.5, -math.inf), "more": [{"score": math.nan}]}
    assert as_json(answer).decode() == '{"text":"é","scores":[-1.5,null],"more":[{"score":null}]}'
