"""What comes as it is found is the search's best so far, and in the end what is answered without a stream; whoever goes
ends the search."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from tests.promises.tiny import SUBWORDS, tiny_classifier, tiny_run
from tests.serve.asgi import Answer, Server, call, serving

from pellucid.runs import stream
from pellucid.runs.run import Run
from pellucid.serve.limits import Limits

TEXT = "the cat sleeps ."


@pytest.fixture(scope="module")
def run() -> Run:
    return tiny_run(1, {}, {"max_length": 30}, SUBWORDS)


@pytest.fixture(scope="module")
def server(run: Run) -> Iterator[Server]:
    with serving({"run": run}, limits=Limits(requests_per_minute=0)) as server:
        yield server


@pytest.mark.parametrize("beam_size", [1, 4])
@pytest.mark.parametrize("prefix", ["", "le ch"])
def test_a_stream_ends_in_the_answer_that_there_is_without(beam_size: int, prefix: str, server: Server) -> None:
    asked = {"text": TEXT, "prefix": prefix, "options": {"beam_size": beam_size}, "alignments": True}
    answer = server.post("/v1/translate", asked | {"stream": True})
    assert (answer.status, answer.headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
    assert answer.headers["x-accel-buffering"] == "no"  # a proxy would hold events back
    *steps, (kind, done) = answer.events
    assert kind == "done"
    told, whole = done["translations"][0], server.post("/v1/translate", asked).json["translations"][0]
    assert (told["text"], told["tokens"], told["alignments"]) == (whole["text"], whole["tokens"], whole["alignments"])
    assert told["log_probability"] == pytest.approx(whole["log_probability"], abs=1e-4)
    assert {kind for kind, _ in steps} == {"step"}
    for _, step in steps:
        assert step["text"].startswith(prefix)
        assert len(step["tokens"]) == len(step["probabilities"]) == step["length"]
    if beam_size == 1:
        assert steps[-1][1]["text"] == told["text"]


def test_each_event_is_a_part_by_itself(server: Server) -> None:
    answer = server.post("/v1/translate", {"text": TEXT, "stream": True})
    assert len(answer.parts) == len(answer.events)
    assert all(part.startswith(b"event: ") and part.endswith(b"\n\n") for part in answer.parts)
    assert answer.events[-1][1]["translations"][0]["alignments"] is None  # nobody asked for them


@pytest.mark.parametrize("text", ["", "  "])
def test_an_empty_text_is_done_at_once(text: str, server: Server) -> None:
    assert [(kind, data["translations"][0]["text"]) for kind, data in server.post(
        "/v1/translate", {"text": text, "stream": True}).events] == [("done", "")]


def test_what_cannot_begin_is_refused_as_it_is_without_a_stream(server: Server) -> None:
    with serving({"labels": tiny_classifier(1, {})}) as classifier:
        answers = [classifier.post("/v1/translate", {"text": TEXT, "stream": True}),
                   server.post("/v1/translate", {"text": TEXT, "stream": True, "options": {"split_sentences": True}})]
    assert [answer.status for answer in answers] == [400, 400]
    assert "this run cannot generate" in answers[0].json["error"]


class Slow:
    """Steps that take a while, counted."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
        self.steps, self.ended, self.seconds = 0, threading.Event(), seconds
        self._stream = stream.stream
        monkeypatch.setattr(stream, "stream", self)

    def __call__(self, run: Run, text: str, tell: Any, prefix: str, options: Any) -> Any:
        def slowly(partial: Any) -> None:
            self.steps += 1
            time.sleep(self.seconds)
            tell(partial)

        try:
            return self._stream(run, text, slowly, prefix, options)
        finally:
            self.ended.set()


def test_who_goes_ends_the_search_at_its_next_step(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    body = json.dumps({"text": TEXT, "stream": True, "options": {"min_length": 25}}).encode()
    slow = Slow(monkeypatch, 0.05)

    async def leave() -> Answer:
        answer = await call(server.app, "/v1/translate", body, leave_after=2)
        assert await asyncio.to_thread(slow.ended.wait, 5)  # while the server goes on, as its loop does
        return answer

    answer = asyncio.run(leave())
    assert 2 <= len(answer.parts) <= 4
    assert slow.steps <= len(answer.parts) + 3
    assert server.service.scheduler.waiting == 0
    assert server.post("/v1/translate", {"text": TEXT}).status == 200


def test_who_goes_before_the_first_step_is_not_searched_for(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    body = json.dumps({"text": TEXT, "stream": True, "options": {"min_length": 25}}).encode()
    slow = Slow(monkeypatch, 0.05)
    assert asyncio.run(call(server.app, "/v1/translate", body, leave_after=0)).status == 499
    assert server.post("/v1/translate", {"text": TEXT}).status == 200
    assert slow.steps <= 3


def test_a_stream_that_takes_too_long_says_so(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = Slow(monkeypatch, 0.1)
    asked = {"text": TEXT, "stream": True, "options": {"min_length": 25}}
    with serving({"run": run}, limits=Limits(timeout=0.5)) as server:
        *steps, last = server.post("/v1/translate", asked).events
        assert last == ("error", {"error": "The answer took too long"})
        assert steps
        assert slow.ended.wait(5)
    assert slow.steps < 10


def test_a_reader_that_is_slow_misses_steps_and_has_the_last_ones(server: Server) -> None:
    body = json.dumps({"text": TEXT, "stream": True, "options": {"min_length": 25, "beam_size": 1}}).encode()

    async def read_slowly() -> list[bytes]:
        parts: list[bytes] = []

        async def app(scope: Any, receive: Any, send: Any) -> None:
            async def later(message: Any) -> None:
                await asyncio.sleep(0.2)
                parts.append(message.get("body", b""))
                await send(message)

            await server.app(scope, receive, later)

        await call(app, "/v1/translate", body)
        return [part for part in parts if part]

    parts = asyncio.run(read_slowly())
    lengths = [json.loads(part.decode().split("data: ")[1])["length"] for part in parts[:-1]]
    assert lengths == sorted(lengths)
    assert lengths[-1] >= 25
    assert len(lengths) < lengths[-1]
    assert parts[-1].startswith(b"event: done")
