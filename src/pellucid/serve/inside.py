"""What looks inside a run, over HTTP: /v1/trace, /v1/attention, /v1/contributions.

It costs more than translating: texts may have fewer characters, one is looked at at a time, as long as somebody waits
for it, and what was found lately is kept.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from pellucid.evaluate.finite import finite
from pellucid.serve.asked import Attention, Contributions, OfRun, Trace, read_options
from pellucid.serve.catalogue import Served
from pellucid.serve.native import ask, choose
from pellucid.serve.requests import HttpError
from pellucid.serve.service import Service
from pellucid.serve.streams import Gone

MOST_CHARACTERS = 1000  # of a text, a prefix or an output; or tokens of that
_MOST_WEIGHTS = 1_000_000  # of all attentions of a text
_MOST_KEPT = 2**25  # bytes of answers

Kind = TypeVar("Kind", bound=OfRun)
Check = Callable[[], None]  # raises `Gone` once nobody waits
Look = Callable[[Check], Any]


def routes(service: Service) -> list[Route]:
    """The routes that look inside."""
    kept = _Kept()

    def route(path: str, kind: type[Kind], prepare: Callable[[Served, Kind], Look]) -> Route:
        async def look(request: Request) -> Response:
            asked = await ask(service, request, kind)
            _require_short(asked)
            served = choose(service, asked.run, asked.source, asked.target)
            found = prepare(served, asked)
            question = f"{served.name} {served.run.weights} {served.run.config.decode} {asked}"
            key = hashlib.sha256(question.encode()).digest()
            answer = kept.get(key)
            if answer is None:
                is_over = threading.Event()

                def check() -> None:
                    if is_over.is_set():
                        raise Gone

                def work() -> bytes:
                    return _as_json({"run": served.name, **asdict(found(check))})

                try:
                    answer = await service.alone(request, work)
                finally:
                    is_over.set()
                kept.put(key, answer)
            return Response(answer, media_type="application/json")

        return Route(path, look, methods=["POST"])

    return [route("/v1/trace", Trace, _trace), route("/v1/attention", Attention, _attention),
            route("/v1/contributions", Contributions, _contributions)]


def _trace(served: Served, asked: Trace) -> Look:
    options = read_options(served.run, asked.options)

    def look(check: Check) -> Any:
        from pellucid.inspection.trace import trace

        return trace(served.glass, asked.text, options, asked.prefix, each_step=check)

    return look


def _attention(served: Served, asked: Attention) -> Look:
    def look(check: Check) -> Any:
        from pellucid.inspection.live import attention

        model = served.run.config.model
        read, written = _lengths(served, asked.text, asked.output)
        weights = model.n_heads * (model.encoder_layers * read**2 + model.decoder_layers * written * (read + written))
        if weights > _MOST_WEIGHTS:
            raise HttpError(400, f"Invalid request: {read} tokens and {written} have {weights:,} attention weights, "
                                 f"and at most {_MOST_WEIGHTS:,} are told: give a shorter text")
        without = dict.fromkeys((one.attention, one.head) for one in asked.without)
        return attention(served.glass, asked.text, asked.output, list(without))

    return look


def _contributions(served: Served, asked: Contributions) -> Look:
    def look(check: Check) -> Any:
        from pellucid.inspection.contributions import contributions

        return contributions(served.glass, asked.text, asked.output, asked.method, each_pass=check)

    return look


def _lengths(served: Served, text: str, output: str | tuple[int, ...] | None) -> tuple[int, int]:
    """How many tokens are read and written, ends among them; a classifier writes none."""
    run = served.run
    read = min(len(run.tokenizers.source.encode(text)) + 1, run.config.model.max_length)
    if run.config.task == "classification":
        return read, 0
    if output is None:
        best = run.generate([text])[0].hypotheses[0]
        return read, len(best.tokens) + best.finished  # which its text, read again, need not have
    return read, len(run.tokenizers.target.encode(output)) + 1 if isinstance(output, str) else len(output)


def _require_short(asked: OfRun) -> None:
    for name, value in vars(asked).items():
        if isinstance(value, str | tuple) and len(value) > MOST_CHARACTERS:
            what = "characters" if isinstance(value, str) else "tokens"
            raise HttpError(400, f"Invalid request: {name} has {len(value)} {what}, and at most {MOST_CHARACTERS} "
                                 "are looked at")


def _as_json(answer: dict[str, Any]) -> bytes:
    """JSON, made piece by piece: other threads have their turn in between. A number that is not finite is null."""
    encoder = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    try:
        return "".join(encoder.iterencode(answer)).encode()
    except ValueError:
        return "".join(encoder.iterencode(finite(answer))).encode()


class _Kept:
    """The answers that were given last, as many as there is room for."""

    def __init__(self) -> None:
        self._answers: OrderedDict[bytes, bytes] = OrderedDict()
        self._size = 0

    def get(self, question: bytes) -> bytes | None:
        """What was answered, if it is still known."""
        if question in self._answers:
            self._answers.move_to_end(question)
        return self._answers.get(question)

    def put(self, question: bytes, answer: bytes) -> None:
        """Keeps an answer; those that nobody has asked for longest go."""
        self._size += len(answer) - len(self._answers.pop(question, b""))
        self._answers[question] = answer
        while self._size > _MOST_KEPT:
            self._size -= len(self._answers.popitem(last=False)[1])
