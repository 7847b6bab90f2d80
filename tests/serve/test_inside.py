"""What looks inside answers what inspection finds; it is bounded, and found once."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pytest
import torch
from tests.promises.tiny import SUBWORDS, tiny_classifier, tiny_run
from tests.serve.asgi import Server, call, serving

from pellucid.config import DecodeConfig
from pellucid.engine.obstacle import obstacle
from pellucid.inspection.answers import Trace
from pellucid.inspection.contributions import contributions
from pellucid.inspection.live import attention
from pellucid.inspection.trace import trace
from pellucid.kernels.compiled import use_kernels
from pellucid.runs.run import Run
from pellucid.serve import inside
from pellucid.serve.limits import Limits

TEXT = "the cat sleeps ."
HEAD = {"attention": "decoder.layers.1.cross_attention", "head": 1}


@pytest.fixture(scope="module")
def run() -> Run:
    use_kernels(torch.device("cpu"))  # the fast decoder, whatever tests before have left
    return tiny_run(1, {}, {"precision": "fp32"}, SUBWORDS)


@pytest.fixture(scope="module")
def classifier() -> Run:
    return tiny_classifier(1, {})


@pytest.fixture(scope="module")
def server(run: Run, classifier: Run) -> Iterator[Server]:
    with serving({"run": run, "labels": classifier}, limits=Limits(requests_per_minute=0)) as server:
        yield server


def told(found: Any, run: str = "run") -> Any:
    """As JSON tells it."""
    return json.loads(json.dumps({"run": run, **asdict(found)}))


@pytest.mark.parametrize("options", [{}, {"beam_size": 2, "length_penalty": 1.0, "n_best": 2}])
@pytest.mark.parametrize("prefix", ["", "le ch"])
def test_a_trace_is_that_of_the_run(options: dict[str, Any], prefix: str, run: Run, server: Server) -> None:
    answer = server.post("/v1/trace", {"run": "run", "text": TEXT, "prefix": prefix, "options": options})
    assert answer.json == told(trace(run, TEXT, replace(run.config.decode, **options), prefix))


def test_attention_is_that_of_the_run(run: Run, server: Server) -> None:
    answer = server.post("/v1/attention", {"run": "run", "text": TEXT, "output": "le chat", "without": 9 * [HEAD]}).json
    plain = server.post("/v1/attention", {"run": "run", "text": TEXT, "output": "le chat"}).json
    assert plain == told(attention(run, TEXT, "le chat"))
    assert answer["attentions"] == plain["attentions"]
    assert answer["without"] == [HEAD]
    assert answer["log_probability_without"] != plain["log_probability"] == answer["log_probability"]


@pytest.mark.parametrize("method", ["gradient_x_input", "integrated_gradients", "leave_one_out"])
def test_contributions_are_those_of_the_run(method: str, run: Run, server: Server) -> None:
    answer = server.post("/v1/contributions", {"run": "run", "text": "the cat", "output": "le", "method": method}).json
    found = told(contributions(run, "the cat", "le", method))
    assert answer.keys() == found.keys()
    for mine, theirs in zip(answer["source"], found["source"], strict=True):
        assert mine == pytest.approx(theirs, abs=1e-5)


def test_an_output_may_be_told_by_its_tokens(run: Run, server: Server) -> None:
    asked = {"run": "run", "text": TEXT, "output": [5, 6]}  # no end
    assert server.post("/v1/attention", asked).json == told(attention(run, TEXT, (5, 6)))
    assert len(server.post("/v1/contributions", asked).json["written"]) == 2
    many = server.post("/v1/contributions", asked | {"output": [5] * 1001})
    assert many.status == 400
    assert "output has 1001 tokens" in many.json["error"]
    assert "no token -1" in server.post("/v1/attention", asked | {"output": [-1]}).json["error"]


def test_a_classifier_is_looked_into_as_well(classifier: Run, server: Server) -> None:
    assert server.post("/v1/attention", {"run": "labels", "text": TEXT}).json == told(
        attention(classifier, TEXT), "labels")
    label = server.post("/v1/contributions", {"run": "labels", "text": TEXT}).json["label"]
    assert label == classifier.classify([TEXT])[0].label
    assert "cannot generate" in server.post("/v1/trace", {"run": "labels", "text": TEXT}).json["error"]


def test_weights_that_give_no_numbers_are_no_fault_of_who_asks() -> None:
    run, classifier = tiny_run(1, {}, {"precision": "fp32"}, SUBWORDS), tiny_classifier(1, {})
    with torch.no_grad():
        for model in (run.model, classifier.model):
            list(model.parameters())[-1].fill_(torch.nan)
    with serving({"run": run, "labels": classifier}, [("en", "fr"), ("", "")]) as server:
        for path, asked in (("/translate", {"q": "the cat", "source": "en", "target": "fr"}),
                            ("/v1/translate", {"run": "run", "text": "the cat", "stream": True}),
                            ("/v1/trace", {"run": "run", "text": TEXT})):
            answer = server.post(path, asked)
            assert answer.status == 500
            assert answer.json["error"].startswith("The run cannot answer: the model's logits")
        answer = server.post("/v1/attention", {"run": "labels", "text": TEXT})
        assert (answer.status, set(answer.json["probabilities"].values())) == (200, {None})


def test_what_was_found_lately_is_not_looked_for_again(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str] = []

    def noted(run: Run, text: str, options: DecodeConfig, prefix: str, each_step: Callable[[], None]) -> Trace:
        looked.append(prefix)
        return trace(run, text, options, prefix, each_step=each_step)

    monkeypatch.setattr("pellucid.inspection.trace.trace", noted)
    asked = {"run": "run", "text": "it sleeps , a cat"}
    answers = [server.post("/v1/trace", asked | more) for more in ({}, {"prefix": ""}, {"prefix": "le"}, {})]
    assert answers[0].body == answers[1].body == answers[3].body != answers[2].body
    assert looked == ["", "le"]


def test_nobody_is_looked_inside_for_who_does_not_wait(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    passes, ended = [], threading.Event()

    def endless(run: Run, text: str, output: str | None, method: str, each_pass: Callable[[], None]) -> None:
        try:
            while True:
                contributions(run, text, "le", each_pass=each_pass)
                assert obstacle(run.model) is None  # nothing is different for those who ask meanwhile
                passes.append(text)
        finally:
            ended.set()

    monkeypatch.setattr("pellucid.inspection.contributions.contributions", endless)
    with serving({"run": run}, limits=Limits(timeout=0.5)) as server:
        late = server.post("/v1/contributions", {"text": "the cat"})
        assert (late.status, late.json) == (503, {"error": "The answer took too long"})
        assert ended.wait(5)
        body = json.dumps({"text": "the cat sleeps"}).encode()
        assert asyncio.run(call(server.app, "/v1/contributions", body, leave_after=0)).status == 499
        assert server.post("/v1/score", {"source": "the", "target": "le"}).status == 200
    assert passes


def test_a_search_that_nobody_waits_for_ends_at_its_next_step(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    ended = threading.Event()

    def endless(*asked: Any, each_step: Callable[[], None]) -> None:
        try:
            while True:
                trace(run, TEXT, each_step=each_step)
        finally:
            ended.set()

    monkeypatch.setattr("pellucid.inspection.trace.trace", endless)
    with serving({"run": run}, limits=Limits(timeout=0.5)) as server:
        assert server.post("/v1/trace", {"text": TEXT}).status == 503
        assert ended.wait(5)


def test_answers_are_kept_as_long_as_there_is_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inside, "_MOST_KEPT", 10)
    kept, (a, b, c, d) = inside._Kept(), (b"a", b"b", b"c", b"d")
    kept.put(a, b"1234")
    kept.put(b, b"1234")
    assert kept.get(a) == b"1234"
    kept.put(c, b"1234")  # b was asked for longest ago
    assert [kept.get(name) for name in (a, b, c)] == [b"1234", None, b"1234"]
    kept.put(a, b"12345678")
    assert [kept.get(name) for name in (a, b, c)] == [b"12345678", None, None]
    kept.put(d, b"x" * 11)
    assert [kept.get(name) for name in (a, b, c, d)] == [None] * 4


def test_a_question_takes_as_much_room_however_long_it_is(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    keys: list[bytes] = []

    class Noted(inside._Kept):
        def put(self, question: bytes, answer: bytes) -> None:
            keys.append(question)
            super().put(question, answer)

    monkeypatch.setattr(inside, "_Kept", Noted)
    asked: dict[str, Any] = {"text": "the cat", "output": "le"}
    with serving({"run": run}) as server:
        for more in ({}, {"text": "the dog"}, {"without": 1000 * [HEAD]}, {}):
            assert server.post("/v1/attention", asked | more).status == 200
    assert len(set(keys)) == len(keys) == 3
    assert {len(key) for key in keys} == {32}


def test_as_many_heads_as_anybody_has_can_be_switched_off_and_no_more(server: Server) -> None:
    asked = {"run": "run", "text": TEXT, "output": "le chat"}
    one, most, more = (server.post("/v1/attention", asked | {"without": count * [HEAD]}) for count in (1, 1000, 1001))
    assert one.json == most.json
    assert (more.status, more.json) == (400, {
        "error": "Invalid request: without has 1,001 heads, and at most 1,000 can be switched off"})


@pytest.mark.parametrize("asked", [{"run": "run"}, {"run": "run", "output": "le chat"}, {"run": "labels"}], ids=str)
def test_as_many_weights_are_told_as_may_be(asked: dict[str, Any], server: Server,
                                            monkeypatch: pytest.MonkeyPatch) -> None:
    asked = asked | {"text": "a cat sleeps , the cat"}
    monkeypatch.setattr(inside, "_MOST_WEIGHTS", 0)
    refused = server.post("/v1/attention", asked).json["error"]
    count = int(refused.partition(" attention weights")[0].split()[-1].replace(",", ""))
    monkeypatch.setattr(inside, "_MOST_WEIGHTS", count)
    maps = server.post("/v1/attention", asked).json["attentions"]
    assert sum(np.asarray(one["weights"]).size for one in maps) == count


@pytest.mark.parametrize(("path", "asked", "sentence"), [
    ("trace", {"text": ""}, "the text is empty"), ("trace", {"text": ["a"]}, "text must be text, not ['a']"),
    ("trace", {"text": "a" * 1001}, "text has 1001 characters, and at most 1000 are looked at"),
    ("trace", {"text": "a", "prefix": "a" * 1001}, "prefix has 1001 characters"),
    ("trace", {"text": "a", "options": {"sample": True}}, "samples are drawn"),
    ("trace", {"text": "a", "options": {"beam": 3}}, "did you mean options.beam_size?"),
    ("attention", {"text": "a", "output": "猫 " * 500}, "attention weights, and at most"),
    ("attention", {"text": "a", "without": [{"attention": "x", "head": 0}]}, "there is no attention 'x'"),
    ("attention", {"text": "a", "without": [{"attention": "x"}]}, "without[0].head is missing"),
    ("attention", {"text": "a", "without": [5] * 1001}, "at most 1,000 can be switched off"),  # none of them is read
    ("contributions", {"text": "the cat", "output": "猫 " * 500}, "are too many to find"),
    ("contributions", {"text": "a", "method": "integrated"}, "did you mean integrated_gradients?")])
def test_what_is_asked_wrongly_is_named(path: str, asked: dict[str, Any], sentence: str, server: Server,
                                        monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inside, "_MOST_WEIGHTS", 100_000)
    answer = server.post(f"/v1/{path}", {"run": "run"} | asked)
    assert answer.status == 400
    assert sentence in answer.json["error"]
